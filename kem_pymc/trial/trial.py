"""A running trial in a database."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import numpy.typing as npt
import pandas as pd
import xarray as xr
from sqlalchemy import Engine, select
from sqlalchemy.exc import SQLAlchemyError

from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.selection.selection import Selection
from kem_pymc.trial import (
    artefacts,
    audit,
    exporting,
    intake,
    migration,
    monitor,
    rows,
    schema,
    serving,
    updating,
)
from kem_pymc.trial.artefacts import Artefact
from kem_pymc.trial.intake import Receipt
from kem_pymc.trial.monitor import Monitoring
from kem_pymc.trial.rows import Roles
from kem_pymc.trial.serving import Served
from kem_pymc.trial.store import Store, insert, insert_artefact, log, participant_row

if TYPE_CHECKING:
    from kem_pymc.priors import Priors


class Trial:
    """A trial in a database: participants, their data, and their selections.

    Participants are pinned to the evolutions with which they were registered. All that is said of a
    participant follows from the database, so several processes may update one trial: each time
    step of a participant is selected by one of them.

    Create one with :meth:`create`, or open an existing one with :meth:`open`.
    """

    def __init__(self, engine: Engine) -> None:
        self._store = Store(engine)

    @classmethod
    def create(
        cls,
        url: str,
        evolutions: Evolutions,
        *,
        user: str,
        time: str,
        batch: int | None = None,
        noise: str | None = None,
        size: str | None = None,
        date_format: str | None = None,
    ) -> Self:
        """Create the tables of a trial in a database.

        Parameters
        ----------
        url : str
            Database, as for SQLAlchemy, like ``sqlite:///trial.db``.
        evolutions : Evolutions
            Evolutions learned from pilot users. They are copied into the database.
        user, time, batch, noise, size, date_format
            Columns of uploads and what they are, as for :meth:`kem_pymc.Cohort.from_frame`. Rows
            also have the features and the target of the evolutions.

        Raises
        ------
        InputError
            If the database can't be used, or has a trial already.
        """
        roles = Roles(user, time, batch, noise, size, date_format)
        with _using(url) as engine, schema.writing(engine) as db:
            if migration.version_of(db) is not None:
                raise InputError(
                    f"There is a trial in {schema.shown(url)} already. "
                    "Open it, or give another database."
                )
            migration.upgrade(db)
            artefact = insert_artefact(db, evolutions)
            insert(db, schema.trial, roles=json.dumps(asdict(roles)), artefact=artefact)
            log(db, None, "created", f"Evolutions {evolutions.content_hash[:12]}.")
        return cls(engine)

    @classmethod
    def open(cls, url: str) -> Self:
        """Open the trial in a database.

        Raises
        ------
        InputError
            If the database can't be used, has no trial, or one of another version of kem_pymc.
        """
        with _using(url) as engine:
            file = engine.url.database if engine.dialect.name == "sqlite" else None
            if file is not None and not Path(file).is_file():  # to look into it would create it
                raise migration.no_trial(url)
            with engine.connect() as db:
                migration.check_current(db, url)
        return cls(engine)

    @classmethod
    def upgrade(cls, url: str) -> None:
        """Change the tables of an older version of kem_pymc to this one's; all of them, or none.

        Raises
        ------
        InputError
            If the database can't be used, has no trial, or one of a newer version.
        """
        with _using(url) as engine, schema.writing(engine) as db:
            migration.check_known(db, url)
            migration.upgrade(db)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the database."""
        self._store.engine.dispose()

    @property
    def roles(self) -> Roles:
        """What the columns of uploads are."""
        return self._store.roles

    @property
    def evolutions(self) -> Evolutions:
        """The evolutions of participants who register now."""
        return self._store.evolutions

    # Participants and their data.

    def register(self, participant: str | int) -> None:
        """Register a participant; rows that waited for it are accepted.

        Raises
        ------
        InputError
            If the participant is registered, or was removed.
        """
        intake.register(self._store, participant)

    def participants(self) -> pd.DataFrame:
        """Return all participants: label, when registered, whether removed, and artefact."""
        p = schema.participants.c
        return self._store.table(
            select(p.label, p.registered, p.removed, p.artefact).order_by(p.id)
        )

    def add(
        self,
        table: pd.DataFrame | Iterable[dict[str, Any]],
        *,
        key: str | None = None,
        register: bool = False,
    ) -> Receipt:
        """Add rows of participants, and say of each what became of it.

        ==============  ============================================================================
        status          meaning
        ==============  ============================================================================
        accepted        a new observation, also if it is later than others that came before it
        corrected       it takes the place of the participant's observation at the same time
        duplicate       that observation has the same cells: nothing changes
        quarantined     an empty cell, or values that are far from the pilot users': see `release`
        unknown         its participant isn't registered: see `register`
        refused         it can't be read, or its participant was removed
        ==============  ============================================================================

        Parameters
        ----------
        table : DataFrame or iterable of mappings
            Rows, with the columns of the trial; other columns are kept, and not used.
        key : str, optional
            Name of this upload: another one with the same name does nothing, and is an error if its
            rows are others. By default the hash of the rows.
        register : bool
            Whether to register participants who aren't.

        Returns
        -------
        Receipt

        Raises
        ------
        InputError
            If columns are missing, there are no rows or too many, or the key is that of other rows.
        """
        return intake.add(self._store, table, key, register)

    def release(self, entries: Iterable[int]) -> None:
        """Accept quarantined entries as they are, after a person has looked at them.

        Raises
        ------
        InputError
            If an entry isn't in quarantine, lacks a cell, or its participant isn't registered.
        """
        intake.release(self._store, entries)

    def refuse(self, entries: Iterable[int]) -> None:
        """Refuse entries that wait, after a person has looked at them: they don't wait any more.

        Raises
        ------
        InputError
            If an entry isn't in quarantine.
        """
        intake.refuse(self._store, entries)

    def quarantined(self) -> pd.DataFrame:
        """Return the entries that wait for a person: in quarantine, or of unknown participants."""
        return self._store.table(intake.WAITING)

    def withdraw(self, participant: str | int, time: Any) -> None:
        """Withdraw a participant's observation at a time. It stays readable, and isn't used.

        Raises
        ------
        InputError
            If there is no such participant or observation.
        """
        intake.withdraw(self._store, participant, time)

    def remove(self, participant: str | int) -> None:
        """Remove a participant who withdraws consent: all data go, hashes and the label stay.

        Raises
        ------
        InputError
            If there is no such participant.
        """
        intake.remove(self._store, participant)

    # Selections and predictions.

    def update(
        self,
        participants: Iterable[str | int] | None = None,
        time_budget: float | None = None,
    ) -> pd.DataFrame:
        """Select for every time step that has none yet, in order of participants and time steps.

        A time step that is new is selected from the data up to it. Where data of time steps that
        have selections changed, the last time step is selected again from all that is known now;
        earlier selections stay as they were made. Each selection is written as soon as it is made,
        so that an update may be stopped at any time, and another one may run beside it.

        Parameters
        ----------
        participants : iterable of labels, optional
            By default all who take part.
        time_budget : float, optional
            Seconds after which no other selection begins.

        Returns
        -------
        DataFrame
            The selections that were made: ``participant``, ``time_step``, ``points``,
            ``composition``, ``answer``, ``severity``, ``reason`` and ``seconds``.

        Raises
        ------
        InputError
            If a participant doesn't take part.
        """
        return updating.update_trial(self._store, participants, time_budget)

    def predict(
        self, participant: str | int, at: npt.ArrayLike | pd.DataFrame, *, calibrated: bool = True
    ) -> Served:
        """Predict new observations of a participant, by the last selection; nothing is fitted.

        Parameters
        ----------
        participant : label
        at : array_like, shape (m, D), or DataFrame
            Inputs in the unit of the features, in which dates are days since the participant's
            first row; or rows with the columns of uploads, of which targets aren't needed.
        calibrated : bool
            Whether quantiles are calibrated, if the evolutions are.

        Returns
        -------
        Served

        Raises
        ------
        InputError
            If the participant doesn't take part or has no selection yet, or inputs are invalid.
        """
        return serving.predict(self._store, participant, at, calibrated)

    # One row at a time, as River's models.

    def learn_one(self, x: Mapping[str, Any], y: Any) -> None:
        """Add a row, register its participant if need be, and select from all that is known now.

        Parameters
        ----------
        x : mapping
            The row without its target: participant, time and features by the names of columns.
        y : target

        Raises
        ------
        InputError
            If the row isn't accepted, such as because a person has to look at it first, or columns
            are missing.
        """
        row = {**x, self._store.evolutions.target: y}
        receipt = self.add([row], key=uuid4().hex, register=True)  # also if it came before
        (entry,) = receipt.entries.itertuples()
        if entry.status not in intake.USED:
            raise InputError(f"The row is {entry.status}: {entry.reason}")
        self.update([x[self._store.roles.user]])

    def predict_one(self, x: Mapping[str, Any]) -> float:
        """Predict the mean of a row's target, of a participant who is known or new.

        Without selections, it is what pilot users say of a new user. Nothing is recorded.

        Parameters
        ----------
        x : mapping
            As for :meth:`learn_one`. Without an exposure or a number of trials it is one.

        Returns
        -------
        float

        Raises
        ------
        InputError
            If the row has no participant, or one who was removed, or columns are missing, or cells
            can't be read.
        """
        return serving.predict_one(self._store, x)

    def selections(self, participant: str | int | None = None) -> pd.DataFrame:
        """Return the selections of a participant, or of all, in order."""
        return audit.selections(self._store, participant)

    def selection(self, participant: str | int) -> Selection | None:
        """Return a participant's last selection; None if there is none.

        Raises
        ------
        InputError
            If there never was such a participant.
        """
        label = rows.label_of(participant)
        with schema.reading(self._store.engine) as db:
            known = participant_row(db, label)
            if known is None:
                raise InputError(f"Participant {label} isn't registered. Give one who is or was.")
            row = None if known["removed"] else self._store.last(db, known["id"], known["artefact"])
            return None if row is None else self._store.selection(db, row)

    def history(self, participant: str | int) -> pd.DataFrame:
        """Return what happened to a participant, in sentences, in the order of time.

        Returns
        -------
        DataFrame
            Columns ``at``, ``what`` and ``selection``, the number of a selection that was made.

        Raises
        ------
        InputError
            If there never was such a participant.
        """
        return audit.history(self._store, participant)

    def replay(self) -> str | None:
        """Recompute every selection from what was known when it was made.

        Returns
        -------
        str or None
            The first difference, beyond 1e-10 in a number; None if there is none. Selections of
            participants who were removed can't be recomputed.
        """
        return audit.replay(self._store)

    def export(self, folder: str | Path) -> Path:
        """Write what the trial knows as Parquet files to a new folder.

        The files are ``participants``, ``uploads``, ``entries`` (rows as they were uploaded, and
        what became of each), ``observations`` (rows as selections use them, with whether each is
        live, superseded, withdrawn or removed), ``selections``, ``kernels`` (those that were
        considered for each selection, with the weights of predictions), ``predictions`` (an input
        each) and ``events``, all with the suffix ``.parquet``.

        Parameters
        ----------
        folder : path
            It is created whole, or not at all.

        Returns
        -------
        Path

        Raises
        ------
        InputError
            If the folder exists, or can't be written.
        """
        return exporting.export(self._store, folder)

    def to_datatree(self) -> xr.DataTree:
        """Return the selections as a DataTree, for ArviZ and xarray.

        Returns
        -------
        DataTree
            Groups ``selections`` (dimensions participant and time step: the last selection of each,
            its number, points, composition, log evidence, answer and severity), ``weights`` (of the
            compositions that were considered, a dimension more) and ``observed_data`` (dimension
            point: live observations, with the columns of uploads).
        """
        return exporting.to_datatree(self._store)

    def monitor(self, artefact: int | None = None) -> Monitoring:
        """Compare how well participants are predicted with what pilot users promised.

        Parameters
        ----------
        artefact : int, optional
            Number of the artefact whose selections are compared with what it promises; by default
            that of participants who register now.

        Returns
        -------
        Monitoring
            Tables, alarms and unusual participants; printed, it is sentences.

        Raises
        ------
        InputError
            If there is no such artefact.
        """
        return monitor.monitor(self._store, artefact)

    # Artefacts.

    def relearn(
        self,
        pilots: Cohort,
        *,
        draws: int | None = None,
        tune: int | None = None,
        chains: int | None = None,
        cores: int | None = None,
        random_seed: int | None = None,
        shared: Any = None,
        priors: "Priors | None" = None,
        folder: str | Path | None = None,
    ) -> Artefact:
        """Learn evolutions anew from pilot users and accrued participants.

        The result is a new artefact, which no one uses: see :meth:`move` and :meth:`adopt`. It is
        written when it is complete. Participants are learned from if they have two time steps, from
        the observations that are live when learning begins.

        Parameters
        ----------
        pilots : Cohort
            The pilot users from whom the trial's evolutions were learned.
        draws, tune, chains, cores, random_seed
            As for :func:`kem_pymc.sample`; by default 300 draws, 300 before them, and 4 chains, as
            for `kem fit`.
        shared : optional
            What users share, as for :func:`kem_pymc.learn_shared`. By default it is chosen by the
            data, or the terms with which the trial's evolutions were learned.
        priors : Priors, optional
            By default those of the trial's evolutions. All else is as it was there.
        folder : path, optional
            Folder that draws are written to meanwhile. If one is given that has an unfinished run,
            that run is continued, with the observations with which it began.

        Returns
        -------
        Artefact
            If it has the content of another one, it is that one.

        Raises
        ------
        InputError
            If `pilots` aren't those of the trial's evolutions, no participant has two time steps,
            priors or what users share can't be read from the evolutions, a participant was removed
            meanwhile, or an argument is invalid.
        SamplingError
            If a chain failed.
        KeyboardInterrupt
            After Ctrl-C; the draws so far stay in the folder.

        Notes
        -----
        Evolutions are learned twice more, without either half of the participants, whose next rows
        they predict. So what is said of predictions is of evolutions that were learned from fewer
        participants than the new ones. Those before are by the selections that were made from the
        same rows. Parameters of the family of targets are learned from all.
        """
        from kem_pymc.trial import relearning  # it needs PyMC, which takes long to import

        sampler = {"draws": draws, "tune": tune, "chains": chains, "cores": cores}
        sampler |= {"random_seed": random_seed}
        path = None if folder is None else Path(folder)
        options = {"shared": shared, "priors": priors, "folder": path}
        return relearning.relearn(self._store, pilots, sampler, **options)

    def artefacts(self) -> pd.DataFrame:
        """Return all artefacts, and who uses which.

        Returns
        -------
        DataFrame
            Columns ``artefact`` (its number), ``created``, ``hash``, ``participants`` (how many use
            it), ``adopted`` (whether those do who register now) and ``about``, in sentences.
        """
        return artefacts.artefacts(self._store)

    def artefact(self, number: int) -> Artefact:
        """Return an artefact, and how it differs from the one that was used when it was learned.

        Raises
        ------
        InputError
            If there is no such artefact.
        """
        return artefacts.artefact(self._store, number)

    def move(self, artefact: int, participants: Iterable[str | int] | None = None) -> list[str]:
        """Move participants to another artefact, also back to an earlier one.

        Each artefact has its own sequence of a participant's selections. What it lacks is selected
        first, from the first time step on, so predictions go on and are those that the participant
        would have had with this artefact all along. Back at an earlier artefact, they are the same
        as before to the last bit, unless rows came meanwhile. Selections are never changed.

        Parameters
        ----------
        artefact : int
            Number of an artefact.
        participants : iterable of labels, optional
            By default all who take part.

        Returns
        -------
        list of str
            Labels of those who had another artefact.

        Raises
        ------
        InputError
            If there is no such artefact, or a participant doesn't take part.
        """
        return updating.move(self._store, artefact, participants)

    def adopt(self, artefact: int) -> None:
        """Give an artefact to participants who register from now on.

        Raises
        ------
        InputError
            If there is no such artefact.
        """
        artefacts.adopt(self._store, artefact)


@contextmanager
def _using(url: str) -> Iterator[Engine]:
    """Give an engine, whose connections are closed; say in words that a database can't be used."""
    engine = schema.connected(url)
    try:
        yield engine
    except SQLAlchemyError as error:
        said = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise InputError(
            f"The database {schema.shown(url)} can't be used ({said}). "
            "Give one that can be written to."
        ) from error
    finally:
        engine.dispose()
