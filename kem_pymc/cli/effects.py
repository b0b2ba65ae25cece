"""``kem effects``: differences between groups, mean curves, users and shares of variance."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kem_pymc.cli import folders, options, screen

if TYPE_CHECKING:
    from kem_pymc.population.posterior import PopulationPosterior

EXAMPLE = (
    "Example: kem effects --data pilot.csv --user id --time week --target steps --by arm "
    "--out effects"
)

#: The table of differences, which marks a folder as results of this command; and all its files.
COMPARISONS = "comparisons.csv"
COLUMNS = (
    *("variable", "contrast", "by", "group", "estimate", "sd", "low_95", "high_95"),
    "probability_of_direction",
)
WRITTEN = (
    *(COMPARISONS, "curves.csv", "slopes.csv", "users.csv", "shares.csv"),
    *("curves.png", "users.png", "shares.png"),
)


def effects(
    ctx: typer.Context,
    data: options.Data = None,
    user: options.User = None,
    time: options.Time = None,
    target: options.Target = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Groups to compare, such as the arms of a trial; by default all categories that "
            "are constant within users.",
        ),
    ] = None,
    features: options.Features = None,
    categorical: options.Categorical = None,
    missing: options.Missing = None,
    date_format: options.DateFormat = None,
    transform: options.Transform = None,
    family: options.Family = None,
    noise: options.Noise = None,
    size: options.Size = None,
    seed: options.Seed = None,
    out: options.Out = Path("effects"),
    overwrite: options.Overwrite = False,
) -> None:
    """Estimate differences between groups, mean curves over time, and how users differ.

    They come from a linear mixed model with smooth functions of time, whose uncertainty about
    variances is part of all intervals. The folder has tables of differences between groups
    (comparisons.csv), of slopes, users and shares of variance and, if the time is a feature, of
    mean curves (curves.csv), and pictures of them.
    """
    from kem_pymc._system.progress import waiting
    from kem_pymc.cli.tables import Table
    from kem_pymc.data.scaling import transformed
    from kem_pymc.population.model import PopulationModel

    folders.check(out, overwrite, COMPARISONS)
    table = Table.from_options(ctx.params | {"skip_gaps": True})
    cohort = transformed(table.cohort(scope="population"), transform)
    with waiting("Estimating what users share and how they differ") as report:
        model = PopulationModel(cohort, report=report)
        groups = model.groups if by is None else (model.shared.category(by).name,)
        posterior = model.fit(seed=seed or 0)
    with folders.results(out, overwrite, marker=COMPARISONS, written=WRITTEN) as folder:
        write(posterior, groups, folder)
    show(posterior, groups)
    screen.info(f"Tables and pictures are in {out}.")


def write(posterior: "PopulationPosterior", groups: tuple[str, ...], folder: Path) -> None:
    """Write the tables and pictures of :func:`effects`."""
    import pandas as pd

    from kem_pymc import plots
    from kem_pymc.plots import style

    contrasts = [posterior.comparisons(group) for group in groups]
    comparisons = pd.concat(contrasts) if groups else pd.DataFrame(columns=COLUMNS)
    folders.write_table(comparisons, folder / COMPARISONS)
    numbers = posterior.model.numbers
    if numbers:
        slopes = [posterior.slopes(name, group) for name in numbers for group in (None, *groups)]
        folders.write_table(pd.concat(slopes), folder / "slopes.csv")
    if posterior.model.cohort.time is not None:
        shown = groups or (None,)
        curves = [posterior.predictions(group) for group in shown]
        folders.write_table(pd.concat(curves), folder / "curves.csv")
        _, panels = style.panels(len(shown), 7.0, 4.2, 1)
        for ax, group in zip(panels, shown, strict=True):
            plots.mean_curves(posterior, group, ax=ax)
        folders.save_figure(panels[0], folder / "curves.png")
    folders.write_table(posterior.users(), folder / "users.csv")
    folders.write_table(posterior.variance_shares(), folder / "shares.csv")
    folders.save_figure(plots.deviations(posterior)[0], folder / "users.png")
    folders.save_figure(plots.variance_shares(posterior), folder / "shares.png")


def show(posterior: "PopulationPosterior", groups: tuple[str, ...]) -> None:
    """Print differences between groups, and shares of the variance."""
    from kem_pymc.population.sentences import sentences

    if posterior.caution:
        screen.warn(posterior.caution)
    for sentence in sentences(posterior, groups):
        screen.info(sentence)
