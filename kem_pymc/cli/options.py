"""Options and arguments that commands share, with their help texts."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from kem_pymc.errors import InputError


def _option(panel: str | None, metavar: str | None, text: str, *names: str, **limits: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, **limits)


_table, _model = partial(_option, "Table"), partial(_option, "Model")
_sampler = partial(_option, "Sampler", "N")
_study = partial(typer.Argument, metavar="STUDY.py", show_default=False)

#: What help says of study files that come from others.
RUNS = "It is a Python program, which is run: trust its author."
PilotStudy = Annotated[Path | None, _study(help=f"Study file, as `kem init` writes one. {RUNS}")]
TestStudy = Annotated[
    Path | None, _study(help=f"Study file, for its test users, base kernels and priors. {RUNS}")
]

#: Help of the option that names a table.
TABLE = "Table with one row per point: .csv or .parquet."

Data = Annotated[Path | None, _table("FILE", TABLE)]
User = Annotated[str | None, _table("COLUMN", "Label of the user of each row.")]
Time = Annotated[
    str | None, _table("COLUMN", "Time of each row: a number, or a date like 2024-03-01.")
]
Target = Annotated[str | None, _table("COLUMN", "Quantity to predict.")]
TestTarget = Annotated[
    str | None, _table("COLUMN", "Quantity to predict; by default the pilot study's target.")
]
Missing = Annotated[
    Literal["error", "drop"] | None,
    _table(None, "Rows with a missing value: raise an error (default), or drop and count."),
]
DropShort = Annotated[
    bool,
    _table(None, "Leave out users with one row, from whom nothing can be learnt.", "--drop-short"),
]
DateFormat = Annotated[
    str | None,
    _table(
        "%Y%m%d",
        "Format of dates that aren't like 2024-03-01, such as %d.%m.%Y, or %Y%m%d for 20240301; "
        "numbers, if whole numbers that look like dates are none.",
    ),
]
Transform = Annotated[
    Literal["sqrt", "log", "log1p", "yeo-johnson"] | None,
    _table(
        "NAME",  # a row of all names would be broken in the middle of a word
        "Transform of a skewed target: sqrt, log, log1p or yeo-johnson; predictions of kem select "
        "are in its original unit, answers of kem effects are of the transformed one.",
    ),
]
Family = Annotated[
    Literal["count", "binary", "binomial", "ordinal", "positive", "student"] | None,
    _table(
        "NAME",
        "Family of a target that isn't normal: count, binary (0 and 1), binomial (successes; see "
        "--size), ordinal (levels such as 1 to 5), positive, or student (outliers).",
    ),
]
Noise = Annotated[
    str | None,
    _table("COLUMN", "Known standard deviation of each target's own noise: its standard error."),
]
Size = Annotated[
    str | None, _table("COLUMN", "Exposure of each count, or number of trials of a binomial.")
]
Features = Annotated[
    str | None,
    _table(
        "A,B,C",
        "Inputs; by default the time and all other columns except row numbers and ids. Dates in "
        "the time column become days since the user's first row.",
    ),
]
Categorical = Annotated[
    str | None,
    _table(
        "A,B,C",
        "Columns of numbers that are codes of groups; columns of text always are categories.",
    ),
]
Batch = Annotated[
    int | None,
    _table("N", "Points per time step; by default each time is a time step.", min=1),
]
SkipGaps = Annotated[
    bool,
    _table(
        None,
        "Allow gaps in the time: times at which most other users have data. Gaps are detected only "
        "in whole numbers, not in dates, and not with --batch.",
        "--skip-gaps",
    ),
]

Candidates = Annotated[
    str | None,
    _model(
        "LIN0,SE1,...",
        'Candidate kernels, also products like "LIN0 x SE1"; features are numbered from 0.',
    ),
]
Base = Annotated[
    str | None,
    _model(
        "LIN,SE,...",
        "Or base kernels, each on every feature; ARD is added if there are several features. "
        "CONST is a constant level, without a feature. By default CONST,LIN,PER,SE, but only LIN "
        "for features with two values, and CAT for categories. Features that never change within "
        "users are only used by --shared.",
    ),
]
Interactions = Annotated[bool, _model(None, "Add products of the base kernels.", "--interactions")]
Shared = Annotated[
    str | None,
    _model(
        "auto|none|TERMS",
        "Function that all users share, in addition to each user's own. auto (default): lines, "
        "smooth functions of each feature or of all, if they improve predictions of pilot users "
        'from the others; none; linear, additive or smooth; or terms, like "day + s(day)".',
    ),
]
Feedback = Annotated[
    Literal["cut", "joint"] | None,
    _option(
        "Posterior",
        None,
        "Whether later data influence kernels of early time steps. cut: no, joint: yes.",
    ),
]
Draws = Annotated[int | None, _sampler("Posterior draws per chain.", min=1)]
Tune = Annotated[int | None, _sampler("Tuning draws per chain.", min=0)]
Chains = Annotated[int | None, _sampler("Independent chains.", min=1)]
Cores = Annotated[
    int | None,
    _option("Workers", "N", "Processes to use; by default one per core.", min=1),
]
Seed = Annotated[int | None, _sampler("Random seed; the same seed gives the same draws.", min=0)]
ClusterAddress = Annotated[
    str | None,
    _option(
        "Workers",
        "ADDRESS",
        "Dask scheduler whose workers to use, like tcp://10.0.0.1:8786.",
        "--cluster",
    ),
]

AverageDraws = Annotated[
    int | None,
    _option(
        "Evolutions",
        "N",
        "Average over N evenly spaced posterior draws, weighted by how well their kernels explain "
        "the user's data. By default, a summary of all draws is used.",
        min=1,
    ),
]
Future = Annotated[
    Path | None,
    _option(None, "FILE", "Table of future points to predict as well; it needs no targets."),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Few trials, users and draws, for a preview in minutes.")
]
TrialSeed = Annotated[
    int, _option(None, "N", "Random seed; the same seed gives the same results.", min=0)
]

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


def listed(text: str | list[str] | None) -> list[str] | None:
    """Return the parts of a comma-separated text; lists and None as they are."""
    return [part.strip() for part in text.split(",")] if isinstance(text, str) else text


def only_with_table(ctx: typer.Context) -> None:
    """Check that no option that describes a table is given together with a study file.

    Raises
    ------
    InputError
        If such an option is given.
    """
    for parameter in _given(ctx):
        if getattr(parameter, "rich_help_panel", None) in ("Table", "Model", "Posterior"):
            raise InputError(
                f"{parameter.opts[0]} can only be used with --data. "
                "Leave it out, or edit the study file."
            )


def alone_with_resume(ctx: typer.Context) -> None:
    """Check that no option that a run already has is given together with ``--resume``.

    Raises
    ------
    InputError
        If such an option is given.
    """
    for parameter in _given(ctx):
        if parameter.name not in ("resume", "cores", "cluster"):
            what = "A study file" if parameter.name == "study" else parameter.opts[0]
            raise InputError(
                f"{what} can't be used with --resume, since the run keeps its options. "
                "Leave it out."
            )


def _given(ctx: typer.Context) -> list[Any]:
    """Return the options and arguments that the command line gives."""
    sources = {p: ctx.get_parameter_source(str(p.name)) for p in ctx.command.params}
    return [p for p, source in sources.items() if source and source.name == "COMMANDLINE"]
