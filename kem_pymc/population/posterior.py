"""The posterior of a population model, and the questions that it answers."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.linalg import lapack, solve_triangular
from scipy.special import logsumexp

from kem_pymc._system.display import number
from kem_pymc._system.options import check_whole, checked
from kem_pymc._system.resources import one_blas_thread
from kem_pymc.data.validation import number_array
from kem_pymc.errors import InputError
from kem_pymc.population.design import Design, Feature
from kem_pymc.population.hyperparameters import CORRELATION, OWN, correlated, scales
from kem_pymc.population.importance import RELIABLE, smoothed
from kem_pymc.population.likelihood import DrawnSites, Given, Scales, Total
from kem_pymc.population.own_scale import OwnScale
from kem_pymc.population.summaries import exceeds, normal_mixture, quantiles
from kem_pymc.population.variances import total, variances

if TYPE_CHECKING:
    from kem_pymc.population.model import PopulationModel

#: If a feature has more levels than this, each level is only compared with the first.
ALL_PAIRS = 4

#: Number of values of a feature at which curves are given, unless it has fewer.
FINE = 50

#: A user's deviation is unusual if it is larger than this many sds of users' deviations.
UNUSUAL = 2.0

#: Effective share of the draws below which there is a warning.
FEW = 0.1

#: Weight below which draws don't affect moments.
NEGLIGIBLE = 1e-12

#: Label of the group of an answer that isn't one by groups.
EVERYBODY = "all"

#: Names of columns of answers over a feature.
COLUMNS = {
    *("variable", "contrast", "by", "group", "mean", "estimate", "sd", "low_95", "high_95"),
    *("user_low_95", "user_high_95", "probability_of_direction"),
    *("ratio", "ratio_low_95", "ratio_high_95"),
    *("difference", "difference_low_95", "difference_high_95"),
}

#: Values of a feature: its name, for values over its range, or a mapping from name to values.
type Over = str | Mapping[str, Sequence[float]]


@checked
@dataclass(frozen=True, eq=False)
class PopulationPosterior:
    """The posterior of a :class:`~kem_pymc.PopulationModel`.

    Estimates are posterior means, and intervals have 2.5 % of the posterior probability on either
    side. They are in the target's unit, and account for the uncertainty of all variances and
    lengthscales. Differences and slopes are averages over the observed rows, in which only the
    feature in question changes.

    If the cohort has a family, the target is the latent value: a log rate, log odds, a probit score
    or a log mean. Answers on the target's own scale, that of rates, probabilities or means, come
    with it (:mod:`kem_pymc.population.own_scale`); they are posterior medians, because means over
    users whose variance is uncertain have heavy tails.

    Attributes
    ----------
    model : PopulationModel
    draws : dict of str to ndarray, shape (S,)
        Natural values of the hyperparameters, in scaled units, by name.
    weights : ndarray, shape (S,)
        Weights of the draws, which add up to one.
    pareto_k : float
        k-hat of the weights; above 0.7 they aren't reliable. Minus infinity for equal weights.
    log_evidence : float
        Log marginal likelihood in scaled units; NaN for draws of other samplers.
    effective : float
        Effective number of independent draws; NaN for draws of other samplers.
    left_out : int, optional
        Index of a user whose data the posterior isn't given.
    sites : DrawnSites, optional
        Pseudo-observations of a family's targets for each draw; by default those of the model.
    """

    model: "PopulationModel"
    draws: Mapping[str, np.ndarray]
    weights: np.ndarray
    pareto_k: float
    log_evidence: float
    effective: float = np.nan
    left_out: int | None = None
    sites: DrawnSites | None = None

    @property
    def caution(self) -> str:
        """Why the draws don't suffice, and what to do; empty if they do."""
        if self.pareto_k <= RELIABLE and not self.effective < FEW * len(self.weights):
            return ""
        return (
            "Intervals may be wrong: importance sampling doesn't suffice for this model. Its "
            f"weights have a k-hat of {self.pareto_k:.2f}, reliable up to {RELIABLE}, and are "
            f"worth {self.effective:.0f} independent draws. In Python, draw with "
            "pm.sample(model=model), and use model.posterior(idata)."
        )

    # --- quantities

    def predictions(
        self, by: str | None = None, over: Over | None = None, *, user: Hashable = None
    ) -> pd.DataFrame:
        """Return the mean curve of the population, of each group, or of one user.

        Parameters
        ----------
        by : str, optional
            Feature with categories; one curve for each level.
        over : str or mapping, optional
            Feature of the curves, or ``{feature: values}``; by default the time.
        user : label, optional
            A user of the cohort, whose own curve is returned. Other features are averaged over the
            user's rows.

        Returns
        -------
        DataFrame
            Columns ``by`` and ``group`` (the name of the feature `by` and its level; empty and
            "all" without it), `over`, ``mean``, ``low_95``, ``high_95``; without `user` also
            ``user_low_95`` and ``user_high_95``, between which the curve of a new user lies with
            probability .95. If the cohort has a family, they are on the target's own scale: rates
            per unit of exposure, probabilities or means, and ``mean`` is the posterior median of
            the mean over users.

        Raises
        ------
        InputError
            If a feature is unknown or unsuitable, there is no such user, or `over` has values
            beyond the data of a smooth function.
        """
        name, values = self._over(over)
        cohort = self.model.cohort
        if user is not None and user not in cohort.users:
            raise InputError(f"There is no user {user!r} in the cohort.")
        rows = self._rows if user is None else cohort.inputs[cohort.users.index(user)]
        tables = []
        for label, setting in self._levels(by):
            at = [{**setting, name: value} for value in values]
            if self._own_scale is not None:
                table = self._own_curve(
                    rows, at, None if user is None else cohort.users.index(user)
                )
                tables.append(_labelled(table, by, label, {name: values}))
                continue
            common = self._averages(self.model.shared, rows, at)
            own = self._averages(self.model.personal, rows, at)
            if user is None:
                mean, variance = self._shared(common)
            else:
                mean, variance = self._of_user(cohort.users.index(user), common, own)
            table = normal_mixture(mean, variance, self.weights)[["mean", "low_95", "high_95"]]
            if user is None:
                root = own @ self._scales.personal
                spread = variance + (root**2).sum(axis=-1)
                other = normal_mixture(mean, spread, self.weights)
                table["user_low_95"] = other["low_95"]
                table["user_high_95"] = other["high_95"]
            table = table * self.model.target_sd + self.model.target_mean
            tables.append(_labelled(table, by, label, {name: values}))
        return pd.concat(tables, ignore_index=True)

    def comparisons(
        self,
        variable: str,
        by: str | None = None,
        over: Over | None = None,
        *,
        baseline: float | None = None,
    ) -> pd.DataFrame:
        """Return differences between the levels of a category.

        Parameters
        ----------
        variable : str
            Feature with categories or with two values. All pairs of levels are compared; if there
            are more than four levels, each with the first.
        by : str, optional
            Another category; differences are averages over its levels' rows, one after another.
        over : str or mapping, optional
            Feature, or ``{feature: values}``, at whose values differences are returned.
        baseline : float, optional
            Value of `over` from which changes are counted: differences are those of changes since.

        Returns
        -------
        DataFrame
            Columns ``variable``, ``contrast`` ("treated - control"), ``by`` and ``group`` as in
            :meth:`predictions`, `over` if given, ``estimate``, ``sd``, ``low_95``, ``high_95``, and
            ``probability_of_direction``: the probability that the difference has the sign of its
            estimate. If the target is a logarithm, of a rate, odds or a mean, or by its transform,
            also ``ratio``, ``ratio_low_95`` and ``ratio_high_95``, exponentials of the difference's
            median and interval: rate ratios, odds ratios and ratios of means, for a user. If the
            cohort has a family, also ``difference``, ``difference_low_95`` and
            ``difference_high_95`` on the target's own scale: of rates per unit of exposure,
            probabilities or means, over all users and the observed rows.

        Raises
        ------
        InputError
            If a feature is unknown or unsuitable, `baseline` is given without `over`, or one of
            them is beyond the data of a smooth function.
        """
        feature = self.model.shared.category(variable)
        if baseline is not None and over is None:
            raise InputError("{baseline} is a value of {over}. Give both.", baseline=..., over=...)
        values, places = self._settings(over)
        if baseline is not None:
            self._within(self._number(next(iter(values))), np.array([baseline]))
        pairs = _pairs(len(feature.values))
        tables = []
        for stratum, setting in self._strata(by):
            rows = self._rows if setting is None else self._rows[setting]
            curves, means = [], []
            for value in feature.values:
                here = {variable: float(value)}
                at = [here | place for place in places]
                curve = self._averages(self.model.shared, rows, at)
                own = self._own_means(rows, at)
                if baseline is not None:
                    since = here | dict.fromkeys(places[0], baseline)
                    curve -= self._averages(self.model.shared, rows, [since])
                    own = own - self._own_means(rows, [since])
                curves.append(curve)
                means.append(own)
            for a, b in pairs:
                answers = self._summary(curves[b] - curves[a], means[b] - means[a])
                table = _labelled(answers, by, stratum, values)
                table.insert(0, "contrast", f"{feature.labels[b]} - {feature.labels[a]}")
                table.insert(0, "variable", variable)
                tables.append(table)
        return pd.concat(tables, ignore_index=True)

    def slopes(
        self, variable: str | None = None, by: str | None = None, over: Over | None = None
    ) -> pd.DataFrame:
        """Return derivatives of mean curves with respect to a feature with numbers.

        Parameters
        ----------
        variable : str, optional
            Feature with numbers; by default the time.
        by : str, optional
            Feature with categories; slopes of each level's curve.
        over : str or mapping, optional
            Feature, or ``{feature: values}``, at whose values slopes are returned; by default they
            are averages over the observed rows.

        Returns
        -------
        DataFrame
            Columns ``variable``, ``by`` and ``group`` as in :meth:`predictions`, `over` if given,
            ``estimate``, ``sd``, ``low_95``, ``high_95`` and ``probability_of_direction``; and the
            columns of :meth:`comparisons` on the target's own scale, of which ``ratio`` is that per
            unit of the feature, and ``difference`` the derivative of the mean over users.

        Raises
        ------
        InputError
            If a feature is unknown or unsuitable, or `over` has values beyond the data of a smooth
            function.
        """
        feature = self._number(variable)
        variable = feature.name
        step = 1e-4 * (feature.high - feature.low)
        values, places = self._settings(over)
        tables = []
        for label, setting in self._levels(by):
            at = [setting | place for place in places]
            after, before = (
                self._averages(self.model.shared, self._rows, at, {variable: move})
                for move in (step, -step)
            )
            curve = (after - before) / (2 * step)
            above, below = (
                self._own_means(self._rows, at, {variable: move}) for move in (step, -step)
            )
            answers = self._summary(curve, (above - below) / (2 * step))
            table = _labelled(answers, by, label, values)
            table.insert(0, "variable", variable)
            tables.append(table)
        return pd.concat(tables, ignore_index=True)

    def variance_shares(self) -> pd.DataFrame:
        """Return shares of the targets' variance over the observed rows, which add up to one.

        What users' own levels, lines and curves have in common isn't identified separately from
        what users share, and counts as shared. Noise is that which is learned and, on average over
        the observed rows, that which is known. If the cohort has a family, shares are those of
        latent values, by whose noise targets vary more than the family alone has it.

        Returns
        -------
        DataFrame
            Columns ``component``, ``share``, ``low_95`` and ``high_95``; and of the root of its
            variance, in the target's unit, ``sd``, ``sd_low_95`` and ``sd_high_95``. See
            :func:`kem_pymc.population.variances.variances`.
        """
        parts, lengthwise = self._variances
        every, whole, levels = np.array(list(parts.values())), total(parts), (0.025, 0.975)
        means = np.maximum(every / whole @ self.weights, 0.0)
        table = pd.DataFrame({"component": list(parts), "share": means / means.sum()})
        wide = np.array([part + lengthwise.get(name, 0.0) for name, part in parts.items()])
        low, high = np.clip(quantiles((wide / whole).T, self.weights, levels), 0.0, 1.0)
        table = table.assign(low_95=np.minimum(low, table["share"]), high_95=high)
        sds, wide = (np.sqrt(np.maximum(v, 0.0)) * self.model.target_sd for v in (every, wide))
        table["sd"] = sds @ self.weights
        table["sd_low_95"], table["sd_high_95"] = quantiles(wide.T, self.weights, levels)
        return table

    def correlations(self) -> pd.DataFrame:
        """Return the correlations of users' levels, at features' means, and lines.

        Returns
        -------
        DataFrame
            Columns ``line`` (the feature), ``correlation``, ``low_95`` and ``high_95``.
        """
        lines = [term.name for term in correlated(self.model.personal)]
        rows = []
        for line in lines:
            draws = self.draws[f"{OWN}{line}.{CORRELATION}"]
            ends = quantiles(draws[:, None], self.weights, (0.025, 0.975))[:, 0]
            rows.append((line, self.weights @ draws, *ends))
        return pd.DataFrame(rows, columns=["line", "correlation", "low_95", "high_95"])

    def users(self) -> pd.DataFrame:
        """Return how each user deviates from what users share, the most unusual first.

        A user's level and line are the mean of the user's own function over all users' observed
        rows, and the slope of its regression on time over them; of users who left early they are
        extrapolated. Without smooth functions they are the user's random intercept, at the mean
        time, and random slope. Intervals contain the uncertainty of the mean curve, which all users
        have in common: differences between users are known better.

        Returns
        -------
        DataFrame
            Columns ``user``; ``level``, ``level_low_95``, ``level_high_95``; with a time also
            ``line``, ``line_low_95``, ``line_high_95``; ``unusual``, the largest posterior
            probability that one of them is farther from zero than two sds of users' deviations; and
            ``unusual_in``, which of them that is.
        """
        model = self.model
        own = model.personal(self._rows)
        which = {"level": own.mean(axis=0)}
        if model.cohort.time is not None:
            time = self._rows[:, model.cohort.features.index(model.cohort.time)]
            away = time - time.mean()
            which["line"] = away @ own / (away @ away)
        table = pd.DataFrame({"user": list(model.cohort.users)})
        unusual = []
        every = self._of_users(np.array(list(which.values())))
        for (name, functional), mean, variance in zip(which.items(), *every, strict=True):
            bounds = normal_mixture(mean, variance, self.weights) * model.target_sd
            table[name] = bounds["mean"]
            table[f"{name}_low_95"], table[f"{name}_high_95"] = bounds["low_95"], bounds["high_95"]
            spread = np.sqrt(((functional @ self._scales.personal) ** 2).sum(axis=-1))
            beyond = exceeds(mean, variance, UNUSUAL * spread[:, None])
            unusual.append(self.weights @ beyond)
        table["unusual"] = np.max(unusual, axis=0)
        table["unusual_in"] = np.array(list(which))[np.argmax(unusual, axis=0)]
        return table.sort_values("unusual", ascending=False, ignore_index=True)

    def leave_one_out(self) -> pd.DataFrame:
        """Return the log density of each user's targets given all other users' data.

        The posterior without a user has the same draws with other weights, Pareto-smoothed, or new
        draws if k-hat of these weights is above 0.7.

        Returns
        -------
        DataFrame
            Columns ``user``, ``log_density`` (in the target's unit; of counts and classes a log
            probability), ``pareto_k`` of the first weights, and ``refitted``.
        """
        rows = []
        for user, label in enumerate(self.model.cohort.users):
            others, log_density, pareto_k = self.without(user)
            log_density += self.model.log_constants[user]
            rows.append((label, log_density, pareto_k, others.draws is not self.draws))
        return pd.DataFrame(rows, columns=["user", "log_density", "pareto_k", "refitted"])

    def without(self, user: int) -> tuple["PopulationPosterior", float, float]:
        """Return the posterior given all other users, see :meth:`leave_one_out`.

        Parameters
        ----------
        user : int
            Index of the user.

        Returns
        -------
        posterior : PopulationPosterior
        log_density : float
            Log density of the user's targets given the others', in scaled units.
        pareto_k : float
            k-hat of the weights of this posterior's draws.
        """
        check_whole(0, self.model.cohort.n_users - 1, user=user)
        others = self._with(left_out=user)
        of_user = self.log_likelihood - others.log_likelihood
        with np.errstate(divide="ignore"):  # of weights that are zero
            log_weights, pareto_k = smoothed(np.log(self.weights) - of_user)
        if pareto_k <= RELIABLE:
            others = others._with(weights=np.exp(log_weights))
        else:
            others = self.model.fit_without(user, len(self.weights))
            of_user = others._with(left_out=None).log_likelihood - others.log_likelihood
            with np.errstate(divide="ignore"):
                log_weights = np.log(others.weights)
            others.forget()
        return others, float(logsumexp(log_weights + of_user)), pareto_k

    def compare(self, without: str) -> pd.DataFrame:
        """Compare the model with one that lacks a term.

        Parameters
        ----------
        without : str
            A smooth term that users share, like ``"s(day)"``, or a term of users' own, like
            ``"personal day"``. Lines and contrasts that users share have intervals instead: with
            diffuse priors their marginal likelihoods mean nothing.

        Returns
        -------
        DataFrame
            One row. ``log_bayes_factor``, the log ratio of marginal likelihoods, in favour of the
            term; ``log_density``, the difference of the log densities of users' targets given all
            other users' data, and its standard error ``se`` over users.

        Raises
        ------
        InputError
            If the term isn't in the model, or is a line or a contrast that users share.

        Notes
        -----
        In simulations a log ratio above 2 found a random slope with 40 users in 64 %, a random
        level with 16 users in 92 %, and never one that was absent. The difference of log densities
        is smaller than two standard errors in most tables in which the term matters.
        """
        other = self.model.without(without).fit()
        gain = self.leave_one_out()["log_density"] - other.leave_one_out()["log_density"]
        evidence = self.log_evidence - other.log_evidence
        evidence += float((self.model.log_constants - other.model.log_constants).sum())
        row = without, evidence, gain.sum(), gain.std() * np.sqrt(len(gain))
        return pd.DataFrame([row], columns=["term", "log_bayes_factor", "log_density", "se"])

    def label(self, feature: str, value: float) -> str:
        """Return the label of a level of a category."""
        category = self.model.shared.category(feature)
        return category.labels[int(np.argmax(category.values == value))]

    # --- the posterior given each draw

    @cached_property
    def _rows(self) -> np.ndarray:
        """Inputs (n, D) of all users."""
        return np.concatenate(self.model.cohort.inputs)

    def _with(self, **changes: Any) -> "PopulationPosterior":
        """Return the posterior with other weights, or without a user, of the same draws."""
        other = replace(self, **changes)
        other.__dict__.update(_scales=self._scales, _total=self._total)
        if self.sites is not None:
            other.__dict__["_fixed"] = self._fixed._with(**changes)
        return other

    @cached_property
    def _fixed(self) -> "PopulationPosterior":
        """The same draws with the model's pseudo-observations."""
        return self if self.sites is None else replace(self, sites=None)

    def forget(self) -> None:
        """Free the memory of what answers are computed from; it is computed again if needed."""
        for name in ("_total", "_weights"):
            self.__dict__.pop(name, None)

    @cached_property
    def _scales(self) -> Scales:
        return scales(self.model.shared, self.model.personal, self.draws)

    @cached_property
    def _total(self) -> Total:
        products, sites = self.model.products, self.sites
        parts = [
            products.total(self._scales.at(p), None if sites is None else sites.at(p))
            for p in products.parts(len(self.weights))
        ]
        return Total(*map(np.concatenate, zip(*parts, strict=True)))

    def _given(self) -> Iterator[tuple[slice, Given]]:
        """Return the posterior given each part of the draws."""
        products = self.model.products
        for part in products.parts(len(self.weights)):
            total, every = self._total.at(part), self._scales.at(part)
            if self.left_out is not None:
                user = slice(self.left_out, self.left_out + 1)
                sites = None if self.sites is None else self.sites.at(part, user)
                total = total.without(products.take(user).total(every, sites))
            yield part, total.given(every)

    @cached_property
    @one_blas_thread()
    def log_likelihood(self) -> np.ndarray:
        """Log likelihood (S,) of the data given each draw, in scaled units."""
        return np.concatenate([given.log_likelihood for _, given in self._fixed._given()])

    @cached_property
    @one_blas_thread()
    def _weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean T w (S, P) of the shared columns' weights, and R (S, K, P) of covariance R'R."""
        means, roots = [], []
        for part, given in self._given():
            root = np.linalg.inv(given.factor) * self._scales.shared[part, None, :]
            means.append((given.white[:, None, :] @ root)[:, 0])
            also = np.tile(self.model.uncertain, (len(root), 1, 1))
            roots.append(np.concatenate([root, also], axis=1))
        return np.concatenate(means), np.concatenate(roots)

    @one_blas_thread()
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (P,) and covariance (P, P) of the shared weights, in scaled units."""
        means, covariance = np.zeros(self._scales.shared.shape), 0.0
        for part, given in self._given():
            shared, weights = self._scales.shared[part], self.weights[part]
            for i in np.flatnonzero(weights > NEGLIGIBLE):
                # LAPACK leaves the upper triangle as it is: empty.
                inverse, _ = lapack.dpotri(given.factor[i], lower=1)
                covariance += weights[i] * np.outer(shared[i], shared[i]) * inverse
                mean = solve_triangular(given.factor[i], given.white[i], trans=1, lower=True)
                means[part.start + i] = mean * shared[i]
        centre = self.weights @ means
        away = means - centre
        within = np.tril(covariance) + np.tril(covariance, -1).T
        within += self.model.uncertain.T @ self.model.uncertain
        return centre, within + (self.weights * away.T) @ away

    def centre(self) -> dict[str, Any]:
        """Return the hyperparameters' values at the posterior means of their coordinates.

        Few users don't inflate them as they do means of variances.
        """
        return {
            h.name: h.natural(self.weights @ h.coordinates(self.draws[h.name]))
            for h in self.model.hyperparameters
        }

    def _shared(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (S, k) of shared functions with columns (k, P)."""
        mean, root = self._weights
        return mean @ columns.T, ((root @ columns.T) ** 2).sum(axis=1)

    def _summary(self, columns: np.ndarray, differences: np.ndarray) -> pd.DataFrame:
        """Summarise shared functions with columns (k, P), in the target's unit.

        `differences` are draws (S, k) on the target's own scale, without columns where there is no
        such scale.
        """
        table = normal_mixture(*self._shared(columns), self.weights)
        positive, median = table.pop("positive"), table.pop("median")
        table = (table * self.model.target_sd).rename(columns={"mean": "estimate"})
        direction = np.where(table["estimate"] > 0, positive, 1 - positive)
        table = table.assign(probability_of_direction=direction)
        if self.model.logarithm_of is not None:
            table["ratio"] = np.exp(median * self.model.target_sd)
            table["ratio_low_95"], table["ratio_high_95"] = np.exp(
                table[["low_95", "high_95"]].T
            ).to_numpy()
        if differences.size:
            ends = quantiles(differences, self.weights, (0.5, 0.025, 0.975))
            names = "difference", "difference_low_95", "difference_high_95"
            table = table.assign(**dict(zip(names, ends, strict=True)))
        return table

    @cached_property
    def _own_scale(self) -> OwnScale | None:
        """Means on the target's own scale, unless that is the scale of the model."""
        return OwnScale(self) if self.model.own_scale else None

    def _own_means(
        self,
        rows: np.ndarray,
        settings: Sequence[Mapping[str, float]],
        move: Mapping[str, float] | None = None,
    ) -> np.ndarray:
        """Return draws (S, k) of :meth:`OwnScale.population`; (S, 0) without another scale."""
        if self._own_scale is None:
            return np.zeros((len(self.weights), 0))
        return self._own_scale.population(rows, settings, move)

    def _own_curve(
        self, rows: np.ndarray, at: Sequence[Mapping[str, float]], user: int | None
    ) -> pd.DataFrame:
        """Return a table of :meth:`predictions` on the target's own scale."""
        scale: Any = self._own_scale
        draws = scale.population(rows, at) if user is None else scale.user(user, at)
        median, low, high = quantiles(draws, self.weights, (0.5, 0.025, 0.975))
        table = pd.DataFrame({"mean": median, "low_95": low, "high_95": high})
        if user is None:
            ends = quantiles(scale.new_user(rows, at), self.weights, (0.025, 0.975))
            table["user_low_95"], table["user_high_95"] = ends
        return table

    def _of_user(
        self, user: int, common: np.ndarray, own: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (S, k) of a user's functions with columns (k, P), (k, q).

        Given the shared weights, and with G = C^-1 R L, the user's own weights L b have the mean
        L G'(V_y - V_H T w) and the covariance L (I - G'G) L'.
        """
        products, (means, roots) = self.model.products.take([user]), self._weights
        both = np.concatenate([products.own, products.common], axis=-1)
        sites = None if self.sites is None else self.sites.at(slice(None), slice(user, user + 1))
        white, _ = replace(products, common=both).white(self._scales, sites)
        q = own.shape[1]
        own = own @ self._scales.personal
        onto = own @ (white[..., :q] @ self._scales.personal).mT
        columns = common - onto @ white[..., q:-1]
        mean = (columns @ means[:, :, None] + onto @ white[..., -1:])[..., 0]
        variance = ((columns @ roots.mT) ** 2).sum(axis=-1)
        variance += (own**2).sum(axis=-1) - (onto**2).sum(axis=-1)
        return mean, variance

    def _of_users(self, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (k, S, U) of users' own functions with columns (k, q)."""
        nothing = np.zeros((1, self.model.shared.size))
        every = [self._of_user(u, nothing, own) for u in range(self.model.cohort.n_users)]
        mean, variance = np.array(every).transpose(1, 3, 2, 0)
        return mean, variance

    @cached_property
    def _variances(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        return variances(self.model, self._scales, *self._weights)

    # --- features and rows

    def _averages(
        self,
        design: Design,
        rows: np.ndarray,
        settings: Sequence[Mapping[str, float]],
        move: Mapping[str, float] | None = None,
    ) -> np.ndarray:
        """Return means (k, P) of columns over rows in which features are set to values, or moved.

        Every setting has the same features.
        """
        x, names = rows.copy(), self.model.cohort.features
        places = [names.index(name) for name in settings[0]]
        x[:, places] = 0.0
        distinct, counts = np.unique(x, axis=0, return_counts=True)
        for name, step in (move or {}).items():
            distinct[:, names.index(name)] += step
        offsets, means = distinct[:, places], []
        for setting in settings:
            distinct[:, places] = offsets + np.array(list(setting.values()))
            means.append(counts @ design(distinct) / counts.sum())
        return np.array(means)

    def _number(self, name: str | None) -> Feature:
        """Return a feature with numbers, by default the time."""
        name = self.model.cohort.time if name is None else name
        if name is None:
            raise InputError("The time isn't a feature of this cohort. Name a feature.")
        return self.model.shared.number(name)

    def _over(self, over: Over | None) -> tuple[str, np.ndarray]:
        """Return a feature with numbers, and its values."""
        if isinstance(over, Mapping):
            if len(over) != 1:
                raise InputError("{over} doesn't name one feature. Give one.", over=...)
            ((name, given),) = over.items()
            values = np.atleast_1d(number_array(f"values of {name}", given))
            return self._within(self._number(name), values).name, values
        feature = self._number(over)
        name = feature.name
        observed = np.unique(self._rows[:, self.model.cohort.features.index(name)])
        fine = np.linspace(feature.low, feature.high, FINE)
        return name, observed if len(observed) <= FINE else fine

    def _within(self, feature: Feature, values: np.ndarray) -> Feature:
        """Return the feature; raise an `InputError` if a smooth function isn't known at values."""
        terms = (*self.model.shared.terms, *self.model.personal.terms)
        smooth = [term.name for term in terms if feature.name in term.smooth]
        if smooth and not (np.abs(feature.from_middle(values)) <= 1 + 1e-9).all():
            raise InputError(
                f"{feature.name} was observed from {number(feature.low)} to {number(feature.high)}"
                f", and {smooth[0]} isn't known beyond. Give values of {{over}} within, or use a "
                "model without smooth functions.",
                over=...,
            )
        return feature

    def _settings(self, over: Over | None) -> tuple[dict[str, np.ndarray], list[dict[str, float]]]:
        """Return a feature's values by its name, and a setting with each; one empty for none."""
        if over is None:
            return {}, [{}]
        name, values = self._over(over)
        return {name: values}, [{name: float(value)} for value in values]

    def _levels(self, by: str | None) -> list[tuple[str, dict[str, float]]]:
        """Return the label of each level, and the setting of its curve."""
        if by is None:
            return [(EVERYBODY, {})]
        feature = self.model.shared.category(by)
        levels = zip(feature.labels, feature.values, strict=True)
        return [(label, {by: float(value)}) for label, value in levels]

    def _strata(self, by: str | None) -> list[tuple[str, np.ndarray | None]]:
        """Return the label of each level, and which rows have it."""
        if by is None:
            return [(EVERYBODY, None)]
        feature, column = self.model.shared.category(by), self.model.cohort.features.index(by)
        levels = zip(feature.labels, feature.values, strict=True)
        return [(label, self._rows[:, column] == value) for label, value in levels]


def check_named(features: Iterable[str | None]) -> None:
    """Raise an `InputError` if answers over a feature would have two columns of its name."""
    for name in {*features} & COLUMNS:
        raise InputError(f"{name!r} is the name of a column of the answers. Rename the feature.")


def _labelled(
    table: pd.DataFrame, by: str | None, group: str, over: Mapping[str, np.ndarray]
) -> pd.DataFrame:
    """Return a table after the columns that all answers have: by, group, and a feature's values."""
    check_named(over)
    return pd.DataFrame({"by": by or "", "group": group, **over}, index=table.index).join(table)


def _pairs(levels: int) -> list[tuple[int, int]]:
    if levels <= ALL_PAIRS:
        return list(combinations(range(levels), 2))
    return [(0, b) for b in range(1, levels)]
