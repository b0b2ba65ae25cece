"""``kem trial``: participants' data in a database, a selection for each time step, predictions."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kem_pymc._system.display import plural
from kem_pymc.cli import folders, options, screen
from kem_pymc.errors import InputError, SamplingError

if TYPE_CHECKING:
    from kem_pymc.trial import Trial

#: Largest number of rows that are printed of what waits for a person.
SHOWN = 20

Database = Annotated[
    str, typer.Option("--db", metavar="URL", help="Database, such as sqlite:///trial.db.")
]
Participant = Annotated[str, typer.Argument(metavar="PARTICIPANT", help="Label of a participant.")]
Artefact = Annotated[int, typer.Argument(metavar="ARTEFACT", help="Number of an artefact.")]
Rows = Annotated[Path, typer.Argument(metavar="FILE", help=options.TABLE, show_default=False)]


def _trials() -> "type[Trial]":
    """Return the class of trials, or say what they need."""
    try:
        from kem_pymc.trial import Trial
    except ImportError as error:
        raise InputError(
            f"Trials need another package ({error}). Install kem-pymc[trial]."
        ) from error
    return Trial


@contextmanager
def opened(db: str) -> Iterator["Trial"]:
    """Open a trial for a command."""
    with _trials().open(db) as trial:
        yield trial


def init(
    db: Database,
    evolutions: Annotated[
        Path, typer.Option(metavar="FILE", help="Evolutions learned by `kem fit`: evolutions.json.")
    ],
    user: Annotated[str, typer.Option(metavar="COLUMN", help="Column of participants' labels.")],
    time: Annotated[str, typer.Option(metavar="COLUMN", help="Column of the times of rows.")],
    batch: options.Batch = None,
    date_format: options.DateFormat = None,
    noise: options.Noise = None,
    size: options.Size = None,
) -> None:
    """Create the tables of a trial in a database, with the evolutions of its participants."""
    from kem_pymc.evolutions.evolutions import Evolutions

    trials, learned = _trials(), Evolutions.load(evolutions)
    given: dict[str, Any] = {"user": user, "time": time, "batch": batch, "noise": noise}
    with trials.create(db, learned, **given, size=size, date_format=date_format) as trial:
        columns = ", ".join(trial.roles.columns(learned))
        screen.info(f"The trial is created. Rows have the columns {columns}.")


def add(
    file: Rows,
    db: Database,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name of this upload, which does nothing when it comes again."
        ),
    ] = None,
    register: Annotated[
        bool, typer.Option("--register", help="Register participants who aren't.")
    ] = False,
) -> None:
    """Add rows of participants, and say what became of those that aren't accepted."""
    from kem_pymc.cli.tables import read_table

    with opened(db) as trial:
        receipt = trial.add(read_table(file, trial.roles.user), key=key, register=register)
    screen.info(f"{receipt}.")
    odd = receipt.entries[~receipt.entries["status"].isin(["accepted", "duplicate"])]
    _entries(odd.itertuples())


def register(participant: Participant, db: Database) -> None:
    """Register a participant; rows that came before are accepted."""
    with opened(db) as trial:
        trial.register(participant)
    screen.info(f"{participant} is registered.")


def waiting(db: Database) -> None:
    """Show rows in quarantine, and those of participants who aren't registered."""
    with opened(db) as trial:
        found = trial.quarantined()
    screen.info(f"Rows that wait for a decision: {len(found)}.")
    _entries(found.itertuples())
    if len(found):
        screen.info("Accept rows with `kem trial release`, register with `kem trial register`.")


def release(
    entries: Annotated[
        list[int], typer.Argument(metavar="ENTRY...", help="Numbers that `kem trial waiting` has.")
    ],
    db: Database,
) -> None:
    """Accept rows in quarantine as they are."""
    with opened(db) as trial:
        trial.release(entries)
    screen.info(f"Accepted {plural(len(entries), 'row')}.")


def refuse(
    entries: Annotated[
        list[int], typer.Argument(metavar="ENTRY...", help="Numbers that `kem trial waiting` has.")
    ],
    db: Database,
) -> None:
    """Refuse rows that wait: they are kept, and aren't used."""
    with opened(db) as trial:
        trial.refuse(entries)
    screen.info(f"Refused {plural(len(entries), 'row')}.")


def withdraw(
    participant: Participant,
    at: Annotated[str, typer.Argument(metavar="TIME", help="Time of the row.")],
    db: Database,
) -> None:
    """Withdraw a participant's row: it isn't used any more."""
    with opened(db) as trial:
        trial.withdraw(participant, at)
    screen.info(f"The row of {participant} at {at} is withdrawn.")


def remove(participant: Participant, db: Database) -> None:
    """Remove all data of a participant who withdraws consent."""
    with opened(db) as trial:
        trial.remove(participant)
    screen.info(f"The data of {participant} are gone.")


def update(
    db: Database,
    budget: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Time after which no selection begins."),
    ] = None,
) -> None:
    """Select a kernel for every time step that has none yet. Several updates may run at a time."""
    with opened(db) as trial:
        made = trial.update(time_budget=budget)
    counts = ", ".join(f"{n} {light}" for light, n in made["severity"].value_counts().items())
    screen.info(f"{plural(len(made), 'selection')}{f' ({counts})' if counts else ''}.")
    for row in made[made["severity"] != "green"].head(SHOWN).itertuples():
        screen.warn(f"{row.participant}, time step {row.time_step + 1}: {row.answer}. {row.reason}")


def predict(
    participant: Participant,
    file: Rows,
    db: Database,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write to, instead of the screen.")
    ] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Predict a participant's new rows, whose targets aren't needed."""
    from kem_pymc.cli.tables import read_table

    with opened(db) as trial:
        served = trial.predict(participant, read_table(file, trial.roles.user))
    table = served.to_frame()
    if out is None:
        screen.table([*table.columns], table.itertuples(index=False))
    else:
        with folders.result(out, overwrite) as partial:
            folders.write_table(table, partial)
    screen.info(f"Selection {served.selection}: {served.answer} ({served.severity}).")


def history(participant: Participant, db: Database) -> None:
    """Show what happened to a participant, in the order of time."""
    with opened(db) as trial:
        for row in trial.history(participant).itertuples():
            screen.info(f"{row.at[:19]}  {row.what}")


def replay(db: Database) -> None:
    """Recompute every selection from what was known then; exit with 1 if one differs."""
    with opened(db) as trial:
        difference = trial.replay()
    if difference:
        screen.error(difference)
        raise typer.Exit(1)
    screen.info("All selections are as they were made.")


def export(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder that doesn't exist.")],
    db: Database,
) -> None:
    """Write what the trial knows as Parquet files, for other programs."""
    with opened(db) as trial:
        trial.export(folder)
    screen.info(f"The tables are in {folder}.")


def upgrade(db: Database) -> None:
    """Change the tables of a database that an older version of kem_pymc made to this one's."""
    _trials().upgrade(db)
    screen.info("The tables are those of this version of kem_pymc.")


def relearn(
    pilots: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="Results of the `kem fit` with whose evolutions the trial began.",
            show_default=False,
        ),
    ],
    db: Database,
    draws: options.Draws = None,
    tune: options.Tune = None,
    chains: options.Chains = None,
    cores: options.Cores = None,
    seed: options.Seed = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start again, in place of an unfinished run.")
    ] = False,
) -> None:
    """Learn evolutions anew from pilot users and accrued participants: a new artefact.

    No one uses it before `kem trial move` or `kem trial adopt`. Draws are written to a folder next
    to FOLDER, whose name ends in .relearn.run; the same command resumes a run that was stopped or
    killed.
    """
    from kem_pymc.cli.job import clear_run, remove_run
    from kem_pymc.evolutions.from_posterior import read_cohort
    from kem_pymc.evolutions.posteriors import read_posterior
    from kem_pymc.runs.models import has_begun

    run = pilots.with_name(f"{pilots.name}.relearn.run")
    cohort = read_cohort(read_posterior(pilots / "posterior.zarr"))
    with opened(db) as trial, folders.locked(run):
        from kem_pymc.trial import relearning

        if overwrite:
            clear_run(run)
        plan = {"draws": draws, "tune": tune, "chains": chains, "cores": cores, "random_seed": seed}
        try:
            made = relearning.relearn(trial._store, cohort, plan, folder=run, say=screen.info)
        except (KeyboardInterrupt, SamplingError) as error:
            stopped = isinstance(error, KeyboardInterrupt)
            if not has_begun(run):
                remove_run(run)
                raise
            screen.warn("Interrupted." if stopped else str(error))
            screen.info(f"There is no new artefact. Draws are in {run}: the same command resumes.")
            raise typer.Exit(130 if stopped else 1) from None
        remove_run(run)
        _show(made)
        screen.info(
            f"No one uses artefact {made.number} yet. Move participants with `kem trial move "
            f"{made.number}`; for those who register from now on, use `kem trial adopt`."
        )


def artefacts(
    db: Database,
    number: Annotated[
        int | None, typer.Argument(metavar="ARTEFACT", help="Number of an artefact to show.")
    ] = None,
) -> None:
    """Show the artefacts of a trial and who uses which, or how one differs from the one before."""
    with opened(db) as trial:
        if number is not None:
            _show(trial.artefact(number))
            return
        for row in trial.artefacts().itertuples():
            new = ", and those who register" if row.adopted else ""
            screen.info(
                f"Artefact {row.artefact} ({row.created[:16].replace('T', ' ')}, {row.hash[:12]}): "
                f"{plural(row.participants, 'participant')}{new}. {row.about}"
            )


def move(
    artefact: Artefact,
    db: Database,
    participants: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PARTICIPANT]...", help="Labels; by default all who take part."),
    ] = None,
) -> None:
    """Move participants to another artefact, also back to an earlier one."""
    with opened(db) as trial:
        moved = trial.move(artefact, participants or None)
    screen.info(f"Moved {plural(len(moved), 'participant')} to artefact {artefact}.")


def adopt(artefact: Artefact, db: Database) -> None:
    """Let participants who register from now on have an artefact."""
    with opened(db) as trial:
        trial.adopt(artefact)
    screen.info(f"Participants who register from now on have artefact {artefact}.")


def monitor(
    db: Database,
    artefact: Annotated[
        int | None,
        typer.Option(metavar="ARTEFACT", help="Number; by default that of those who register now."),
    ] = None,
) -> None:
    """Compare how well participants are predicted with what pilot users promised; raise alarms."""
    with opened(db) as trial:
        found = trial.monitor(artefact)
    for line in found.sentences():
        (screen.warn if line in found.alarms else screen.info)(line)


def serve(
    db: Database,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen at.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen at.")] = 8000,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Ask for no token; only at an address of this machine."),
    ] = False,
) -> None:
    """Serve pages and an interface for programs.

    Tokens, separated by commas, are in the environment variable KEM_TRIAL_TOKENS. Programs send
    one as a bearer token, browsers as a password.
    """
    import os
    from ipaddress import ip_address

    try:
        import uvicorn

        from kem_pymc.trial.service import create_app
    except ImportError as error:
        raise InputError(
            f"A server needs another package ({error}). Install kem-pymc[trial]."
        ) from error
    tokens = [token for token in os.environ.get("KEM_TRIAL_TOKENS", "").split(",") if token]
    try:
        local = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        local = False
    if not tokens and not (insecure and local):
        raise InputError(
            "There is no token. Set KEM_TRIAL_TOKENS, or add --insecure at an address of this "
            "machine, like 127.0.0.1."
        )
    with opened(db) as trial:
        app = create_app(trial, tokens)
        screen.info(f"Pages are at http://{host}:{port}/. Press Ctrl-C to stop.")
        uvicorn.run(app, host=host, port=port, log_level="warning", access_log=False)


def _show(artefact: Any) -> None:
    """Print an artefact and the evolutions that differ."""
    from kem_pymc.evolutions.evolutions import DISAGREE
    from kem_pymc.kernels.prose import named

    names = artefact.evolutions.features
    table = artefact.differences
    rows = [
        (
            named(row.parent, names),
            "stays" if row.child == row.parent else named(row.child, names),
            *(row.before, row.after, row.change),
        )
        for row in table[table["change"] != ""].head(SHOWN).itertuples()
    ]
    if rows:
        screen.heading("Evolutions that differ by more than Monte Carlo error")
        columns = ("from", "to", "before", "after", "")
        screen.table(columns, rows, dict.fromkeys(columns[2:4], ".2f"))
    screen.info(f"Artefact {artefact.number}: {artefact}")
    apart = artefact.evolutions.settings.get(DISAGREE)
    if apart:
        screen.warn(f"{apart} Sample more draws (--draws and --tune).")


def _entries(rows: Any) -> None:
    """Print entries of uploads, with what is said of them."""
    shown = [(row.entry, row.status, row.reason) for row in rows]
    if shown:
        screen.table(["entry", "status", "reason"], shown[:SHOWN])
        if len(shown) > SHOWN:
            screen.info(f"{len(shown) - SHOWN} more aren't shown.")


#: Commands of the group, with what an example adds to their name.
COMMANDS = {
    init: "--db sqlite:///trial.db --evolutions kem-fit/evolutions.json --user id --time day",
    add: "new.csv --db sqlite:///trial.db --register",
    register: "p3 --db sqlite:///trial.db",
    waiting: "--db sqlite:///trial.db",
    release: "17 18 --db sqlite:///trial.db",
    refuse: "19 --db sqlite:///trial.db",
    withdraw: "p3 4 --db sqlite:///trial.db",
    remove: "p3 --db sqlite:///trial.db",
    update: "--db sqlite:///trial.db",
    predict: "p3 coming.csv --db sqlite:///trial.db",
    history: "p3 --db sqlite:///trial.db",
    replay: "--db sqlite:///trial.db",
    export: "tables --db sqlite:///trial.db",
    upgrade: "--db sqlite:///trial.db",
    relearn: "kem-fit --db sqlite:///trial.db",
    artefacts: "--db sqlite:///trial.db",
    move: "2 p3 p4 --db sqlite:///trial.db",
    adopt: "2 --db sqlite:///trial.db",
    monitor: "--db sqlite:///trial.db",
    serve: "--db sqlite:///trial.db --port 8000",
}
