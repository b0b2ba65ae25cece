"""``kem trial``: participants' data in a database, a selection for each time step, predictions."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kem_pymc.cli import folders, options, screen
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from kem_pymc.trial import Trial

#: Largest number of rows that are printed of what waits for a person.
SHOWN = 20

Database = Annotated[
    str, typer.Option("--db", metavar="URL", help="Database, such as sqlite:///trial.db.")
]
Participant = Annotated[str, typer.Argument(metavar="PARTICIPANT", help="Label of a participant.")]
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
        screen.info(f"There is a trial in {db}. Rows have the columns {columns}.")


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
    screen.info(f"{len(found)} rows wait for a decision.")
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
    screen.info(f"{len(entries)} rows are accepted.")


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
    screen.info(f"{len(made)} selections{f' ({counts})' if counts else ''}.")
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
    import pandas as pd

    from kem_pymc.cli.tables import read_table

    with opened(db) as trial:
        served = trial.predict(participant, read_table(file, trial.roles.user))
    prediction = served.prediction
    quantiles = {"low_95": 0.025, "median": 0.5, "high_95": 0.975}
    table = pd.DataFrame(
        {
            "mean": prediction.mean,
            "sd": prediction.sd,
            **{name: prediction.quantile(p) for name, p in quantiles.items()},
        }
    )
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


def monitor(db: Database) -> None:
    """Compare how well participants are predicted with what pilot users promised; raise alarms."""
    with opened(db) as trial:
        found = trial.monitor()
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
    withdraw: "p3 4 --db sqlite:///trial.db",
    remove: "p3 --db sqlite:///trial.db",
    update: "--db sqlite:///trial.db",
    predict: "p3 coming.csv --db sqlite:///trial.db",
    history: "p3 --db sqlite:///trial.db",
    replay: "--db sqlite:///trial.db",
    monitor: "--db sqlite:///trial.db",
    serve: "--db sqlite:///trial.db --port 8000",
}
