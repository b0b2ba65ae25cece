"""The data structure for the points of users at time steps, read from and written to tidy tables.

The data set of user u at time step t is cumulative: the first ``ends[u][t]`` points of the user.
So a user is stored as one array of points in order of arrival, with the positions at which the time
steps end.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import inf
from numbers import Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from pandas.api.types import is_hashable, is_list_like

from kem_pymc._system.display import Display, Displayed, Listing, beyond, from_to, plural
from kem_pymc._system.options import check_seed, check_whole
from kem_pymc.data.cells import Kind, Scope, escaped
from kem_pymc.data.columns import Columns, check_levels, feature_columns
from kem_pymc.data.families import Family, Name
from kem_pymc.data.table import user_points
from kem_pymc.data.validation import (
    LARGEST,
    check_ends,
    check_points,
    filled,
    frozen,
    is_text,
)
from kem_pymc.errors import InputError

#: Largest numbers of columns and users in the display of a cohort.
COLUMNS_SHOWN, USERS_SHOWN = 15, 10


#: The smallest positive number.
TINY = np.finfo(np.float64).tiny

#: What may be known of every row besides inputs and target, and its least value.
BY_ROW = {"noise": 0.0, "sizes": TINY, "latent": -LARGEST, "latent_noise": 0.0}


class PaddedCohort(NamedTuple):
    """A cohort as rectangular arrays, padded with zeros, for the numerical engine.

    Attributes
    ----------
    x : ndarray, shape (U, D, n_max)
        Inputs, C-contiguous: the values of one feature are contiguous in memory.
    y : ndarray, shape (U, n_max)
        Targets.
    ends : ndarray of int64, shape (U, T_max)
        Number of points of each user at the end of each time step.
    steps : ndarray of int64, shape (U,)
        Number of time steps of each user.
    """

    x: np.ndarray
    y: np.ndarray
    ends: np.ndarray
    steps: np.ndarray


class Split(NamedTuple):
    """A pilot cohort to learn from, and a test cohort of other users to select kernels for."""

    pilot: "Cohort"
    test: "Cohort"


@dataclass(frozen=True, eq=False, repr=False)
class Cohort(Displayed):
    """Users and their points, in order of arrival and in the units of the table.

    Parameters
    ----------
    users : tuple of hashable, length U
        Distinct labels of the users.
    inputs : tuple of ndarray, shape (n_u, D) each
        Inputs of each user; stored as read-only float64 copies.
    targets : tuple of ndarray, shape (n_u,) each
        Targets of each user; stored as read-only float64 copies.
    ends : tuple of ndarray, shape (T_u,) each
        Number of points that each user has at the end of each time step, strictly increasing. The
        last one is n_u. Stored as read-only int64 copies.
    features : tuple of str, length D
        Names of the features.
    target : str
        Name of the target.
    truth : optional
        True functions and kernels of simulated users (:class:`kem_pymc.datasets.Truth`). It needs a
        method ``take(indices)`` that keeps the users at these positions.
    levels : mapping of str to tuple of str
        Names of the levels, by feature, for features that are categories. The inputs contain the
        number of a level, from 0; negative numbers are levels that the pilot study didn't have.
    time : str, optional
        Name of the feature that is the time, if there is one.
    time_kind : {"numbers", "dates", "durations"}, optional
        What the time was in the table; dates and durations have become days. None if that isn't
        known.
    noise : tuple of ndarray, shape (n_u,) each, optional
        Known standard deviation of each target's own noise, such as the standard error of a mean of
        several readings, in the target's unit. The noise that a model learns comes on top of it.
    sizes : tuple of ndarray, shape (n_u,) each, optional
        Exposure of each count, such as the hours in which steps were counted, or number of trials
        of which each count is the number of successes.
    family : Family, optional
        Distribution of targets that aren't normal.
    latent, latent_noise : tuple of ndarray, shape (n_u,) each, optional
        Pseudo-observations of the targets' latent values, and the standard deviations of their
        noise, in place of those that the family gives on its own.
    latent_of : Family, optional
        Family of which the targets are latent values, see :meth:`on_latent_scale`.

    Raises
    ------
    InputError
        If the parts don't fit together, a value is missing, infinite or beyond 1e12, a noise is
        negative, or a size isn't positive.
    """

    users: tuple[Hashable, ...]
    inputs: tuple[np.ndarray, ...]
    targets: tuple[np.ndarray, ...]
    ends: tuple[np.ndarray, ...]
    features: tuple[str, ...]
    target: str = "y"
    truth: Any = None
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    time: str | None = None
    time_kind: Kind | None = None
    noise: tuple[np.ndarray, ...] | None = None
    sizes: tuple[np.ndarray, ...] | None = None
    family: Family | None = None
    latent: tuple[np.ndarray, ...] | None = None
    latent_noise: tuple[np.ndarray, ...] | None = None
    latent_of: Family | None = None

    def __post_init__(self) -> None:
        for name in ("users", "inputs", "targets", "ends", "features"):
            given = getattr(self, name)
            if not is_list_like(given):
                raise InputError(f"The {name} are a {type(given).__name__}. Give a tuple.")
            object.__setattr__(self, name, tuple(given))
        lengths = [len(self.users), len(self.inputs), len(self.targets), len(self.ends)]
        if not self.users or len(set(lengths)) > 1:
            raise InputError(
                f"Users, inputs, targets and ends have lengths {lengths}. "
                "Give one of each per user, for at least one user."
            )
        labels = self.users
        sound = all(is_text(label) or not isinstance(label, str) for label in labels)
        if not (sound and all(map(is_hashable, labels)) and len({*labels}) == len(labels)):
            raise InputError(
                "Two users have the same label, or one isn't text that can be written to files, "
                "or a number. Give each user a different label."
            )
        names = [*self.features, self.target]
        if not self.features or not all(map(is_text, names)) or len({*names}) < len(names):
            raise InputError(
                f"Features {self.features} and target {self.target!r} aren't distinct names. "
                "Give at least one feature, and each name once, as text."
            )
        data = zip(self.inputs, self.targets, strict=True)
        points = [check_points(x, y, self.dimension) for x, y in data]
        object.__setattr__(self, "inputs", tuple(frozen(x) for x, _ in points))
        object.__setattr__(self, "targets", tuple(frozen(y) for _, y in points))
        for name, least in BY_ROW.items():
            object.__setattr__(self, name, self._by_row(name, least))
        if not isinstance(self.family, Family | None):
            raise InputError(
                f"The family is a {type(self.family).__name__}. Give a Family, or its name to "
                "Cohort.from_frame."
            )
        if self.family is not None:
            for user, y, sizes in zip(self.users, self.targets, self._sizes, strict=True):
                self.family.check(y, sizes, f" of user {user}")
        for user, y, ends in zip(self.users, self.targets, self.ends, strict=True):
            check_ends(user, ends, len(y))
        object.__setattr__(self, "ends", tuple(frozen(e, np.int64) for e in self.ends))
        check_levels(self.levels, "levels")
        levels = {name: tuple(names) for name, names in self.levels.items()}
        object.__setattr__(self, "levels", levels)
        timed = self.time is None or (isinstance(self.time, str) and self.time in self.features)
        if not timed or not {*levels} <= {*self.features}:
            raise InputError(
                f"Categories {list(levels)} or time {self.time!r} aren't features. "
                f"Choose from {', '.join(self.features)}."
            )

    def _by_row(self, name: str, least: float) -> tuple[np.ndarray, ...] | None:
        """Return read-only copies of what is known of every row, checked; None if nothing is."""
        given = getattr(self, name)
        if given is None:
            return None
        arrays = tuple(filled(values) for values in given) if is_list_like(given) else ()
        if [values.shape for values in arrays] != [y.shape for y in self.targets]:
            raise InputError(
                f"There isn't one value of {name} for every target. Give one array per user."
            )
        every = np.concatenate(arrays)
        if not ((every >= least) & (every <= LARGEST)).all():
            what = {0.0: "zero or positive", TINY: "positive"}.get(least, "in range")
            raise InputError(f"A value of {name} isn't {what} and finite. Correct it.")
        return tuple(frozen(values) for values in arrays)

    @classmethod
    def from_frame(
        cls,
        df: pd.DataFrame,
        *,
        user: Hashable,
        time: Hashable,
        target: Hashable,
        features: Sequence[Hashable] | None = None,
        categorical: Sequence[Hashable] | Mapping[Any, Sequence[str]] | None = None,
        batch: int | None = None,
        gaps: Literal["error", "skip"] = "error",
        missing: Literal["error", "drop"] = "error",
        short: Literal["error", "drop"] = "error",
        scope: Scope = "pilot",
        date_format: str | None = None,
        noise: Hashable | None = None,
        size: Hashable | None = None,
        family: Family | Name | None = None,
    ) -> Self:
        """Read a cohort from a tidy table with one row per point.

        Each user's rows must be in order of time; rows of different users may be interleaved.

        Parameters
        ----------
        df : DataFrame
        user, time, target : column names
            Users keep their order of first appearance. The time is a number, a date, also as text
            in ISO 8601, or a duration.
        features : sequence of column names, optional
            Columns to use as features. By default the time, then every other column of numbers or
            categories except row numbers, ids and columns with the same value in every row;
            :func:`kem_pymc.data.feature_columns` returns the choice, and why other columns are left
            out. If the time is a feature, dates become days since the user's first row, durations
            become days, and numbers are unchanged.
        categorical : sequence of column names, or mapping of these to names of levels, optional
            Features that are categories, in addition to text, booleans and pandas' categoricals.
            For new users give the pilot cohort's ``levels``: then exactly those features are
            categories, and their levels have the same numbers.
        batch : int, optional
            Number of points per time step; a user's last time step may have fewer. By default each
            distinct time of a user is a time step.
        gaps : {"error", "skip"}
            Whether to raise an error if a user has no data at a whole-numbered time, between their
            first and last, at which at least half of the others then observed have, or to ignore
            it. Dates, durations and times that users don't share for the most part are not checked,
            and nothing is checked if `batch` is given.
        missing : {"error", "drop"}
            Whether to raise an error if rows have missing values, or to drop these rows. If some
            are dropped, gaps are allowed. Pilot users who lose rows and keep fewer than two, and
            new users who keep none, are dropped as well. Infinite values are always an error.
        short : {"error", "drop"}
            Whether to raise an error if pilot users have one row, or to drop these users.
        scope : {"pilot", "population", "new"}
            Whether users belong to a pilot study, which needs two points per user, and a target and
            features that vary over the cohort; are described by a population model, for which one
            point is enough; or are new users, for whom a kernel is selected.
        date_format : str, optional
            Format of dates in the time column that aren't written as in ISO 8601, as for strptime:
            ``"%d.%m.%Y"``, or ``"%Y%m%d"`` for whole numbers like 20240131, which are refused
            without it; ``"numbers"`` if they are numbers nevertheless.
        noise : column name, optional
            Known standard deviation of each target's own noise, such as a standard error, in the
            target's unit.
        size : column name, optional
            Exposure of each count, or number of trials of which it is the number of successes.
        family : str or Family, optional
            Distribution of targets that aren't normal: "count", "binary", "binomial", "ordinal",
            "positive" or "student". Of a name, the parameters are learned from
            these users. For new users, give the pilot cohort's ``family``.

        Returns
        -------
        Cohort

        Raises
        ------
        InputError
            If the table can't be used as it is; the message names the column, user or row.

        Warns
        -----
        DataWarning
            If rows or users are dropped, with counts; if users or categories have labels that look
            like missing values, or are written alike; if numbers other than the time may be dates;
            if rows are identical in user, time, inputs and target; if a pilot study's feature seems
            to be known only at the end of a user's follow-up, or a row is later than that; if two
            features have a correlation beyond 0.99; or if a new user has a level that the pilot
            study didn't have.
        """
        columns = feature_columns(
            df,
            user=user,
            time=time,
            target=target,
            features=features,
            categorical=categorical,
            scope=scope,
            date_format=date_format,
            noise=noise,
            size=size,
        )
        return cls.from_columns(
            df, columns, family=family, batch=batch, gaps=gaps, missing=missing, short=short
        )

    @classmethod
    def from_columns(
        cls, df: pd.DataFrame, columns: Columns, family: Family | Name | None = None, **options: Any
    ) -> Self:
        """Read a cohort from a table whose columns have roles; see :meth:`from_frame`.

        Parameters
        ----------
        df : DataFrame
        columns : Columns
            Roles of the columns, from :func:`kem_pymc.data.feature_columns` for this table.
        family : Family or str, optional
            As in :meth:`from_frame`.
        **options
            ``batch``, ``gaps``, ``missing`` and ``short``, as in :meth:`from_frame`.

        Returns
        -------
        Cohort
        """
        points = user_points(df, columns, **options)
        if family is not None and not isinstance(family, Family):
            family = Family.learn(family, points.targets, points.sizes, points.users)
        timed = columns.time in columns.names
        return cls(
            **points._asdict(),
            features=tuple(map(escaped, columns.names)),
            target=escaped(columns.target),
            levels={escaped(name): levels for name, levels in columns.levels.items()},
            time=escaped(columns.time) if timed else None,
            time_kind=columns.time_kind if timed else None,
            family=family,
        )

    def to_frame(self, user: str = "user", time: str = "time_step") -> pd.DataFrame:
        """Return a tidy table with columns user, time step (from 0), features and target.

        Known noise and sizes are in columns of these names. ``Cohort.from_frame`` reads it back,
        with ``features=cohort.features``. Categories are given
        by the names of their levels; levels that the pilot study didn't have become missing values.

        Parameters
        ----------
        user, time : str
            Names of the columns of users and time steps.

        Returns
        -------
        DataFrame
            One row per point.

        Raises
        ------
        InputError
            If `user` or `time` is also the name of a feature or of the target.
        """
        for name in (user, time):
            if not is_text(name):
                raise InputError(
                    f"{name!r} can't name a column of the table. Give {{user}} and {{time}} as "
                    "text.",
                    user=...,
                    time=...,
                )
            if [user, time, *self.features, self.target, *self._known].count(name) > 1:
                raise InputError(
                    f"Two columns of the table would be called {name!r}. "
                    "Give {user} or {time} another name.",
                    user=...,
                    time=...,
                )
        sizes = [len(y) for y in self.targets]
        steps = [np.repeat(np.arange(len(e)), np.diff(e, prepend=0)) for e in self.ends]
        columns = dict(zip(self.features, np.concatenate(self.inputs).T, strict=True))
        for name, levels in self.levels.items():
            codes = np.maximum(columns[name], -1).astype(np.int64)
            columns[name] = pd.Categorical.from_codes(codes, levels)
        users, y = pd.Series(self.users).repeat(sizes).array, np.concatenate(self.targets)
        given = {name: np.concatenate(getattr(self, name)) for name in self._known}
        before = {user: users, time: np.concatenate(steps)}
        return pd.DataFrame({**before, **columns, self.target: y, **given})

    @property
    def constant(self) -> frozenset[int]:
        """Indices of the features whose value is the same in all rows of every user.

        Empty if no user has several rows.
        """
        if max(map(len, self.targets)) < 2:
            return frozenset()
        still = np.all([np.ptp(x, axis=0) == 0 for x in self.inputs], axis=0)
        return frozenset(np.flatnonzero(still).tolist())

    @property
    def n_users(self) -> int:
        """Number of users, U."""
        return len(self.users)

    @property
    def dimension(self) -> int:
        """Number of features, D."""
        return len(self.features)

    @property
    def steps(self) -> np.ndarray:
        """Number of time steps of each user, int64, shape (U,)."""
        return np.array([len(ends) for ends in self.ends], dtype=np.int64)

    @property
    def max_steps(self) -> int:
        """Largest number of time steps of a user."""
        return int(self.steps.max())

    @property
    def n_datasets(self) -> int:
        """Number of (user, time step) pairs."""
        return int(self.steps.sum())

    @property
    def n_points(self) -> int:
        """Number of points of all users, each counted once."""
        return sum(len(y) for y in self.targets)

    def subset(self, users: Iterable[Hashable]) -> Self:
        """Return the cohort of these users, in the order given.

        Raises
        ------
        InputError
            If a user isn't in the cohort or is named twice, or no user is named.
        """
        position = {label: i for i, label in enumerate(self.users)}
        chosen: list[Any] = [*users] if is_list_like(users) else [users]
        for label in chosen:
            if not is_hashable(label) or label not in position:
                raise InputError(
                    f"The cohort has no user {label!r}. Choose among the labels in cohort.users."
                )
        return self._take([position[label] for label in chosen])

    def split(self, rng: np.random.Generator | int, fraction: float = 0.5) -> Split:
        """Split the users at random into a pilot and a test cohort.

        Parameters
        ----------
        rng : Generator or int
            Random number generator, or its seed.
        fraction : float
            Fraction of the users in the pilot cohort, rounded down to whole users.

        Returns
        -------
        Split
            Pilot cohort and test cohort.

        Raises
        ------
        InputError
            If either cohort would be empty.
        """
        # The paper's 15 Energy users make 7 pilot users. The tolerance corrects rounding errors:
        # .29 * 100 must still make 29.
        within = isinstance(fraction, Real) and 0 < fraction < 1
        pilot = int(np.floor(fraction * self.n_users + 1e-9)) if within else 0
        if not 0 < pilot < self.n_users:
            raise InputError(
                f"Fraction {fraction} of {self.n_users} users leaves one part empty. "
                "Choose a fraction that leaves at least one user in each part."
            )
        if not isinstance(rng, np.random.Generator):
            check_seed(rng=rng)
        shuffled = np.random.default_rng(rng).permutation(self.n_users)
        return Split(self._take(sorted(shuffled[:pilot])), self._take(sorted(shuffled[pilot:])))

    def truncate(self, time_steps: int) -> Self:
        """Return the cohort as it was after its first `time_steps` time steps.

        Raises
        ------
        InputError
            If `time_steps` is less than 1.
        """
        check_whole(1, inf, time_steps=time_steps)
        return self._cut(tuple(ends[:time_steps] for ends in self.ends))

    def at(self, time_step: int) -> Self:
        """Return the data sets of one time step, as a cohort with a single time step.

        Parameters
        ----------
        time_step : int
            Time step, counted from 0; -1 is each user's last. Users with fewer time steps are left
            out.

        Raises
        ------
        InputError
            If no user has this time step.
        """
        check_whole(-1, time_step=time_step)
        reached = [u for u in range(self.n_users) if -1 <= time_step < self.steps[u]]
        if not reached:
            raise InputError(
                f"No user has a time step {time_step}. Give 0 to {self.max_steps - 1}, or -1."
            )
        users = self._take(reached)
        return users._cut(tuple(ends[[time_step]] for ends in users.ends))

    def _cut(self, ends: tuple[np.ndarray, ...]) -> Self:
        """Return the cohort with other time steps, and with the points up to the last of them."""
        sizes = [int(e[-1]) for e in ends]
        parts: dict[str, Any] = {
            name: tuple(values[:n] for values, n in zip(getattr(self, name), sizes, strict=True))
            for name in ("inputs", "targets", *self._given)
        }
        return replace(self, **parts, ends=ends)

    @property
    def _given(self) -> tuple[str, ...]:
        """Names of what is known of every row besides inputs and target."""
        return tuple(name for name in BY_ROW if getattr(self, name) is not None)

    @property
    def _known(self) -> tuple[str, ...]:
        """Names of what the table has of every row besides inputs and target."""
        return tuple(name for name in ("noise", "sizes") if getattr(self, name) is not None)

    def given(self, user: int, upto: int | None = None) -> dict[str, Any]:
        """Return what is known of a user's rows besides inputs and targets, as select takes it.

        Parameters
        ----------
        user : int
            The user's position.
        upto : int, optional
            Number of rows; all by default.

        Returns
        -------
        dict
            ``noise`` and ``sizes``, as far as they are known.
        """
        return {name: getattr(self, name)[user][:upto] for name in self._known}

    def on_latent_scale(self) -> Self:
        """Return the cohort whose targets are the pseudo-observations of latent values.

        Their noise is known. Without a family it is this cohort.

        Raises
        ------
        InputError
            If the targets have known noise beside their family.
        """
        if self.family is None:
            return self
        if self.noise is not None:
            raise InputError(
                f"The noise of targets of the family {self.family.name} can't be known beside it. "
                "Leave out {noise}.",
                noise=...,
            )
        if self.latent is None or self.latent_noise is None:
            made = map(self.family.pseudo_observations, self.targets, self._sizes)
            latent, variances = zip(*made, strict=True)
            noise = tuple(np.sqrt(v) for v in variances)
        else:
            latent, noise = self.latent, self.latent_noise
        plain: dict[str, Any] = dict.fromkeys(
            ("sizes", "family", "latent", "latent_noise", "truth")
        )
        target = self.family.label(self.target)
        given = {"targets": latent, "noise": noise, "latent_of": self.family}
        return replace(self, **plain, **given, target=target)

    @property
    def _sizes(self) -> Sequence[np.ndarray | None]:
        return self.sizes or [None] * self.n_users

    def noise_of(self, user: int, n: int | None = None) -> np.ndarray | None:
        """Return the known noise variances of a user's first n targets, by the user's position."""
        return None if self.noise is None else self.noise[user][:n] ** 2

    def padded(self) -> PaddedCohort:
        """Return the cohort as rectangular arrays, padded with zeros."""
        longest = max(len(y) for y in self.targets)
        x = np.zeros((self.n_users, self.dimension, longest))
        y = np.zeros((self.n_users, longest))
        ends = np.zeros((self.n_users, self.max_steps), dtype=np.int64)
        for u in range(self.n_users):
            x[u, :, : len(self.inputs[u])] = self.inputs[u].T
            y[u, : len(self.targets[u])] = self.targets[u]
            ends[u, : len(self.ends[u])] = self.ends[u]
        return PaddedCohort(x, y, ends, self.steps)

    def padded_given(self) -> dict[str, np.ndarray]:
        """Return what is known of rows besides inputs and normal targets, padded with zeros.

        Arrays have the shape (U, n_max).
        """
        longest = max(len(y) for y in self.targets)
        names = (*self._given, *(("targets",) if self.family is not None else ()))
        arrays = {name: np.zeros((self.n_users, longest)) for name in names}
        for name, array in arrays.items():
            for u, values in enumerate(getattr(self, name)):
                array[u, : len(values)] = values
        return arrays

    def digest(self) -> str:
        """Return a SHA-256 hash of the cohort's data and names, without its truth and time."""
        names: tuple[Any, ...] = (self.users, self.features, self.target)
        names += (dict(self.levels),) if self.levels else ()
        names += (self.family,) if self.family is not None else ()
        digest = sha256(repr(names).encode())
        given = (getattr(self, name) for name in self._given)
        for parts in zip(self.inputs, self.targets, self.ends, *given, strict=True):
            for part in parts:
                digest.update(repr(part.shape).encode() + np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()

    def _take(self, indices: Sequence[int]) -> Self:
        truth = None if self.truth is None else self.truth.take(indices)
        parts: dict[str, Any] = {
            name: tuple(getattr(self, name)[i] for i in indices)
            for name in ("users", "inputs", "targets", "ends", *self._given)
        }
        return replace(self, **parts, truth=truth)

    def __len__(self) -> int:
        return self.n_users

    def __repr__(self) -> str:
        few, most = self.steps.min(), self.max_steps
        steps = f"{most}" if few == most else f"{few} to {most}"
        features = ", ".join(self.features) if self.dimension < 4 else f"{self.dimension} features"
        return (
            f"Cohort({plural(self.n_users, 'user')}, {steps} time step{'s' * (most > 1)}, "
            f"{plural(self.n_points, 'point')}: "
            f"{features} -> {self.target})"
        )

    def _display(self) -> Display:
        sizes = [len(y) for y in self.targets]
        columns = zip(
            (f"{self.target} (target)", *self.features),
            (np.concatenate(self.targets), *np.concatenate(self.inputs).T),
            strict=True,
        )
        values = [(name, v.mean(), v.std(), v.min(), np.median(v), v.max()) for name, v in columns]
        users = [
            (str(label), len(ends), len(y), y.mean(), y.std())
            for label, y, ends in zip(self.users, self.targets, self.ends, strict=True)
        ]
        return Display(
            f"Cohort of {plural(self.n_users, 'user')}",
            {
                "Time steps": from_to(self.steps.min(), self.max_steps),
                "Points": f"{self.n_points}, {from_to(min(sizes), max(sizes))} per user",
            },
            [
                Listing(
                    ("", "mean", "sd", "least", "median", "most"),
                    values[:COLUMNS_SHOWN],
                    more=beyond(COLUMNS_SHOWN - 1, self.dimension, "features are shown."),
                ),
                Listing(
                    ("user", "time steps", "points", f"mean {self.target}", f"sd {self.target}"),
                    users[:USERS_SHOWN],
                    title="Users",
                    more=beyond(USERS_SHOWN, self.n_users, "users are shown."),
                    folded=True,
                ),
            ],
        )
