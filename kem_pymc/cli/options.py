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
User = Annotated[str | None, _column("Label of the user of each row.")]
Time = Annotated[str | None, _column("Time of each row: a number, or a date like 2024-03-01.")]
Target = Annotated[str | None, _column("Quantity to predict.")]
TestTarget = Annotated[
    str | None, _column("Quantity to predict; by default the pilot study's target.")
]
Missing = Annotated[
    Literal["error", "drop"] | None,
    _panel("Table", text="Rows with a missing value: raise an error (default), or drop and count."),
]
Transform = Annotated[
    Literal["sqrt", "log", "log1p", "yeo-johnson"] | None,
    _panel(
        "Table",
        text="Transform of a skewed target; predictions are in its original unit.",
    ),
]
Features = Annotated[
    str | None,
    _panel(
        "Table",
        metavar="A,B,C",
        text="Inputs; by default the time and all other columns except row numbers and ids. Dates "
        "in the time column become days since the user's first row.",
    ),
]
Categorical = Annotated[
    str | None,
    _panel(
        "Table",
        metavar="A,B,C",
        text="Columns of numbers that are codes of groups; columns of text always are categories.",
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
        text="Allow gaps in the time: times at which other users have data. Gaps are detected only "
        "in whole numbers, not in dates, and not with --batch.",
    ),
]

Candidates = Annotated[
    str | None,
    _panel(
        "Model",
        metavar="LIN0,SE1,...",
        text='Candidate kernels, also products like "LIN0 x SE1"; features are numbered from 0.',
    ),
]
Base = Annotated[
    str | None,
    _panel(
        "Model",
        metavar="LIN,SE,...",
        text="Or base kernels, each on every feature; ARD is added if there are several features. "
        "CONST is a constant level, without a feature. By default CONST,LIN,PER,SE, but only LIN "
        "for features with two values, and CAT for categories. Features that never change within "
        "users are only used by --shared.",
    ),
]
Interactions = Annotated[
    bool, _panel("Model", "--interactions", text="Add products of the base kernels.")
]
PriorTable = Annotated[
    Literal["default", "unit", "synthetic"] | None,
    _panel(
        "Model",
        text="Priors: those for users' tables (default), the paper's for data scaled to unit range "
        "(unit), or the paper's for unscaled data (synthetic).",
    ),
]
Shared = Annotated[
    str | None,
    _panel(
        "Model",
        metavar="auto|none|KERNELS",
        text="Function that all users share, in addition to each user's own. auto (default): a "
        "line, a smooth function or a sum of curves, if it improves predictions of pilot users "
        'from the others; none; or a sum of candidates, like "CONST + SE0".',
    ),
]
Feedback = Annotated[
    Literal["cut", "joint"] | None,
    _panel(
        "Model",
        text="Whether later data influence kernels of early time steps. cut: no, joint: yes.",
    ),
]
Likelihood = Annotated[
    Literal["cumulative", "sequential"] | None,
    _panel(
        "Model",
        text="Likelihood of the kernel of a time step. cumulative (default): the density of all "
        "points so far. sequential: that of the new points given the earlier ones.",
    ),
]

Draws = Annotated[int | None, _sampler("Posterior draws per chain.")]
Tune = Annotated[int | None, _sampler("Tuning draws per chain.", least=0)]
Chains = Annotated[int | None, _sampler("Independent chains.")]
Cores = Annotated[int | None, _sampler("Chains to run in parallel; by default one per core.")]
Processes = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Users to process in parallel; by default one per core."),
]
ClusterAddress = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Dask scheduler whose workers to use, like tcp://10.0.0.1:8786.",
    ),
]
Seed = Annotated[int | None, _sampler("Random seed; the same seed gives the same draws.", least=0)]

AverageDraws = Annotated[
    int | None,
    _panel(
        "Evolutions",
        metavar="N",
        text="Average over N evenly spaced posterior draws, weighted by how well their kernels "
        "explain the user's data. By default, a summary of all draws is used.",
    ),
]
SingleDraw = Annotated[
    int | None,
    _panel(
        "Evolutions", metavar="N", text="Use only one posterior draw; draws are numbered from 0."
    ),
]
ProbableGraph = Annotated[
    bool,
    _panel("Evolutions", "--graph", text="Use only the draws with the most probable graph."),
]

Tasks = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Tasks to run in parallel; by default one per core."),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Few trials, users and draws, for a preview in minutes.")
]
TrialSeed = Annotated[int, typer.Option(min=0, metavar="N", help="Random seed of all trials.")]

Resume = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER.run",
        help="Resume a run that was interrupted or killed, with its original options.",
        show_default=False,
    ),
]

Out = Annotated[Path, typer.Option(metavar="FOLDER", help="New folder for the results.")]
OutFile = Annotated[
    Path, typer.Option(metavar="FILE", help="New file for the table of selections.")
]
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
        if value is not None and value is not False:  # 0 is a value
            option = f"--{name.replace('_', '-')}"
            raise InputError(
                f"{option} can only be used with --data. Leave it out, or edit the study file."
            )


def alone_with_resume(given: dict[str, Any]) -> None:
    """Check that no option that a run already has is given together with ``--resume``.

    Raises
    ------
    InputError
        If such an option is given.
    """
    for name, value in given.items():
        if value is not None and value is not False:  # 0 is a value
            what = "A study file" if name == "study" else f"--{name.replace('_', '-')}"
            raise InputError(
                f"{what} can't be used with --resume, since the run keeps its options. "
                "Leave it out."
            )
