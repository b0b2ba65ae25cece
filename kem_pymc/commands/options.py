"""Options and arguments that commands share, with their help texts."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from kem_pymc.errors import InputError


def _column(text: str) -> Any:
    return typer.Option(metavar="COLUMN", help=text, rich_help_panel="Table")


def _sampler(text: str, least: int = 1) -> Any:
    return typer.Option(min=least, metavar="N", help=text, rich_help_panel="Sampler")


def _study(text: str) -> Any:
    return typer.Argument(metavar="STUDY.py", help=text, show_default=False)


def _panel(panel: str, *names: str, metavar: str | None = None, text: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel)


PilotStudy = Annotated[Path | None, _study("Study file, as `kem init` writes one.")]
TestStudy = Annotated[
    Path | None, _study("Study file, for its test users, base kernels and priors.")
]

Data = Annotated[
    Path | None,
    _panel("Table", metavar="FILE", text="Table with one row per point: .csv or .parquet."),
]
User = Annotated[str | None, _column("Tells users apart.")]
Time = Annotated[str | None, _column("Time of each row: a number, or a date like 2024-03-01.")]
Target = Annotated[str | None, _column("What to predict.")]
TestTarget = Annotated[str | None, _column("What to predict; by default the pilot study's target.")]
Missing = Annotated[
    Literal["error", "drop"] | None,
    _panel("Table", text="Rows with a missing value: an error (default), or left out and counted."),
]
Transform = Annotated[
    Literal["sqrt", "log", "log1p", "yeo-johnson"] | None,
    _panel(
        "Table",
        text="Of a skewed target, before it is modelled; predictions come back in its own unit.",
    ),
]
Features = Annotated[
    str | None,
    _panel(
        "Table",
        metavar="A,B,C",
        text="Inputs; by default the time and all other columns but row numbers and ids. Dates of "
        "the time are days since the user's first row.",
    ),
]
Categorical = Annotated[
    str | None,
    _panel(
        "Table",
        metavar="A,B,C",
        text="Columns of numbers that are names of groups; text always is.",
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Points per time step; by default each time is a time step.",
        rich_help_panel="Table",
    ),
]
SkipGaps = Annotated[
    bool,
    _panel(
        "Table",
        "--skip-gaps",
        text="Allow gaps in the time. They are looked for in whole numbers only, not in dates, and "
        "not with --batch.",
    ),
]

Candidates = Annotated[
    str | None,
    _panel(
        "Model",
        metavar="LIN0,SE1,...",
        text='Candidate kernels, also products like "LIN0 x SE1"; features count from 0.',
    ),
]
Base = Annotated[
    str | None,
    _panel(
        "Model",
        metavar="LIN,SE,...",
        text="Or base kernels, each on every feature; ARD comes in where there are several "
        "features. CONST is a level, which has no feature. By default CONST,LIN,PER,SE, and of "
        "features with two values LIN alone; CAT of categories. Features that never change within "
        "users are left to --shared.",
    ),
]
Interactions = Annotated[
    bool, _panel("Model", "--interactions", text="With base kernels: their products as well.")
]
PriorTable = Annotated[
    Literal["default", "unit", "synthetic"] | None,
    _panel(
        "Model",
        text="Priors: of tables (default), the paper's for data that are scaled to unit range, or "
        "the paper's for unscaled data.",
    ),
]
Shared = Annotated[
    str | None,
    _panel(
        "Model",
        metavar="auto|none|KERNELS",
        text="What all users share, beside what is each user's own. auto (default): a line, a "
        "smooth function or a sum of curves, if that predicts pilot users better from the others; "
        'none; or candidates of your own, like "CONST + SE0".',
    ),
]
Feedback = Annotated[
    Literal["cut", "joint"] | None,
    _panel("Model", text="Do kernels of early time steps look at later data? cut: no, joint: yes."),
]
Likelihood = Annotated[
    Literal["cumulative", "sequential"] | None,
    _panel(
        "Model",
        text="What a time step says of its kernel. cumulative (default): the density of all "
        "points so far. sequential: that of the new ones given the earlier.",
    ),
]

Draws = Annotated[int | None, _sampler("Posterior draws per chain.")]
Tune = Annotated[int | None, _sampler("Draws per chain to settle before.", least=0)]
Chains = Annotated[int | None, _sampler("Independent chains.")]
Cores = Annotated[int | None, _sampler("Chains that run at a time; by default one per core.")]
Processes = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Users selected for at a time; by default one per core."),
]
ClusterAddress = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Dask scheduler to work on, as `kem cluster` starts; its certificates are in the "
        "folder that KEM_CERTIFICATES names.",
    ),
]
Seed = Annotated[int | None, _sampler("The same seed gives the same draws.", least=0)]

AverageDraws = Annotated[
    int | None,
    _panel(
        "Evolutions",
        metavar="N",
        text="Select over N posterior draws, spaced evenly, each weighed by how well its kernels "
        "explain the user's data. By default all draws are summarised first.",
    ),
]
SingleDraw = Annotated[
    int | None,
    _panel("Evolutions", metavar="N", text="Or by one posterior draw alone; they count from 0."),
]
ProbableGraph = Annotated[
    bool,
    _panel("Evolutions", "--graph", text="Or by the draws with the most probable graph alone."),
]

Pieces = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Pieces run at a time; by default one per core."),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Little of everything: what it looks like, in minutes.")
]
TrialSeed = Annotated[int, typer.Option(min=0, metavar="N", help="Of all trials.")]

Resume = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER.run",
        help="Go on with a run that was interrupted or killed; everything else is as it was.",
        show_default=False,
    ),
]

Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Where results go: a new folder.")]
OutFile = Annotated[Path, typer.Option(metavar="FILE", help="Table to write: a new file.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the results of an earlier run.")
]


def listed(text: str | None) -> list[str] | None:
    """Return the parts of a comma-separated text; None for None."""
    return None if text is None else [part.strip() for part in text.split(",")]


def only_with_table(given: dict[str, Any]) -> None:
    """Check that no option that describes a table is given together with a study file.

    Raises
    ------
    InputError
        If such an option is given.
    """
    for name, value in given.items():
        if value not in (None, False):
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} goes with --data. Leave it out, or edit the study file.")


def alone_with_resume(given: dict[str, Any]) -> None:
    """Check that no option that a run already has is given together with ``--resume``.

    Raises
    ------
    InputError
        If such an option is given.
    """
    for name, value in given.items():
        if value not in (None, False):
            what = "A study file" if name == "study" else f"--{name.replace('_', '-')}"
            raise InputError(
                f"{what} doesn't go with --resume, since the run goes on as it began. Leave it out."
            )
