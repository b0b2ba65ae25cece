"""Print messages of the commands, and tables of kernels and of their evolutions."""

import textwrap
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING

from kem_pymc._system.display import Cell, Listing, printable
from kem_pymc._system.progress import Screen
from kem_pymc.cli.folders import EVOLUTIONS

if TYPE_CHECKING:
    import pandas as pd

    from kem_pymc.data.cohort import Cohort
    from kem_pymc.data.scaling import Scaling
    from kem_pymc.diagnostics.diagnosis import Diagnosis
    from kem_pymc.evolutions.evolutions import Evolutions
    from kem_pymc.kernels.pool import CandidatePool
    from kem_pymc.model.evolution_model import EvolutionModel
    from kem_pymc.selection.selection import Selection

#: Evolutions with a smaller probability, or in a smaller share of draws, aren't printed.
LEAST = 0.05

#: If fewer evolutions than this are left, this many are printed, the most frequent ones.
FEW = 10

#: Maximum numbers of parents, of children of each parent, and of users that are printed.
PARENTS, CHILDREN, USERS = 8, 5, 20

NBSP = "\N{NO-BREAK SPACE}"

console = Screen(highlight=False)
errors = Screen(stderr=True, highlight=False)


def error(message: str) -> None:
    """Print an error message."""
    errors.print("[bold red]Error[/]", printable(message), soft_wrap=True)


def warn(message: str) -> None:
    """Print a warning."""
    errors.print("[yellow]Warning[/]", printable(message), soft_wrap=True)


def info(message: str) -> None:
    """Print a message."""
    console.print(printable(message), soft_wrap=True)


def heading(text: str) -> None:
    """Print a heading."""
    console.print("", printable(text, "bold"), sep="\n")


def table(
    columns: "Sequence[str]",
    rows: "Iterable[Sequence[Cell]]",
    forms: Mapping[str, str] | None = None,
) -> None:
    """Print a table; `forms` are formats of columns of numbers, see :class:`Listing`."""
    console.print(Listing(columns, list(rows), forms or {}).rich())


def tables(frames: "Mapping[str, pd.DataFrame]") -> None:
    """Print tables with their titles, each in blocks of as many columns as fit on the screen."""
    for title, frame in frames.items():
        heading(title)
        named = frame.index.names != [None]
        info(frame.to_string(index=named, line_width=console.width, float_format="{:.3g}".format))


def study(cohort: "Cohort", pool: "CandidatePool") -> None:
    """Print the data, the features and the candidates of a study."""
    from kem_pymc.kernels.prose import named

    lists = {"Data": [repr(cohort).removeprefix("Cohort(").removesuffix(")")]}
    if cohort.dimension > 1:  # numbered as in --candidates
        lists["Features"] = [f"{i} {name}" for i, name in enumerate(cohort.features)]
    lists["Candidates"] = [named((candidate,), cohort.features) for candidate in pool]
    for title, items in lists.items():
        info(f"{title:<12}{', '.join(items)}")


def modelled(cohort: "Cohort", scaling: "Scaling | None") -> None:
    """Print the family or transform of the target, or warn if one may help."""
    import numpy as np

    from kem_pymc.data import families, transforms

    y = np.concatenate(cohort.targets)
    if cohort.family is not None:
        info(
            f"Targets are of the family {cohort.family}; modelled is the "
            f"{cohort.family.label(cohort.target)}."
        )
    elif scaling is not None and scaling.transform is not None:
        info(f"The modelled quantity is {scaling.target_label(cohort.target)}.")
    elif found := families.advice(y):
        warn(f"{cohort.target} {found[1]}. See --family {found[0]}.")
    elif hint := transforms.advice(y):
        warn(f"{cohort.target} {hint}. See --transform.")


def shared(model: "EvolutionModel") -> None:
    """Print what the users of a model share or, if nothing, which features have no effect."""
    if model.shared is not None:
        info(str(model.shared))
        return
    looked_at = {d for candidate in model.pool for d in candidate.dimensions}
    idle = [model.cohort.features[d] for d in sorted(model.cohort.constant - looked_at)]
    if idle:
        info(f"Features without effect, since they never change within users: {', '.join(idle)}.")


def wrapped(items: Iterable[str], separator: str, width: int) -> list[str]:
    """Return lines of about `width` characters that join the items without breaking any."""
    separator = separator.rstrip().replace(" ", NBSP) + " "  # lines break after the space
    glued = separator.join(item.replace(" ", NBSP) for item in items)
    lines = textwrap.wrap(glued, max(width, 12), break_long_words=False, break_on_hyphens=False)
    return [line.replace(NBSP, " ") for line in lines]


def broken(composition: str, features: Sequence[str], width: int) -> str:
    """Return the name of a composition, given its label, with line breaks between candidates."""
    from kem_pymc.kernels.prose import named

    return "\n".join(wrapped(named(composition, features).split(" + "), " + ", width))


def evolutions(learned: "Evolutions") -> None:
    """Print a table of the main evolutions, by parent and child."""
    forms = dict.fromkeys(("probability", "in draws"), ".2f")
    rows: list[tuple[Cell, ...]] = []
    frame = learned.to_frame()
    main = frame[(frame["probability"] >= LEAST) & (frame["occurrence"] >= LEAST)]
    if len(main) < FEW:  # the posterior is diffuse: show the most frequent
        main = frame.loc[frame["occurrence"].nlargest(FEW).index.sort_values()]
    width = (console.width - 30) // 2
    by_parent = groupby(main.itertuples(index=False), key=lambda row: row.parent)
    for parent, children in islice(by_parent, PARENTS):
        for i, row in enumerate(islice(children, CHILDREN)):
            first = "" if i else broken(parent, learned.features, width)
            child = "stays" if row.child == parent else broken(row.child, learned.features, width)
            rows.append((first, child, row.probability, row.occurrence))
    heading("Learned evolutions")
    info("Probability of the next kernel, and share of posterior draws with this evolution.")
    table(("from", "to", *forms), rows, forms)
    info(f"{len(rows)} of {len(frame)} evolutions are shown; all are in {EVOLUTIONS}.")
    if learned.final is not None:
        from kem_pymc.evolutions.novelty import ends_of

        info(f"Final kernels, of which new ones are drawn: {ends_of(learned)}.")


def parts(diagnosis: "Diagnosis") -> None:
    """Print which parts of kernels are probable at users' last time steps."""
    from kem_pymc.diagnostics.parts import headline

    heading("Which parts matter")
    for sentence in headline(diagnosis.parts, diagnosis.shares):
        info(sentence)


def paths(trajectories: "Mapping[Hashable, Sequence[Selection]]", features: Sequence[str]) -> None:
    """Print one row per user: each new kernel, with the number of points when it was selected."""
    from kem_pymc.kernels.prose import named

    shown = dict(islice(trajectories.items(), USERS))
    rows = []
    width = console.width - max(len(str(user)) for user in shown) - len("points") - 12
    for user, trajectory in shown.items():
        changes = [next(same) for _, same in groupby(trajectory, key=lambda s: s.composition)]
        texts = [f"{named(s.composition, features)} ({len(s.y)})" for s in changes]
        lines = wrapped(texts, " → ", width)
        rows.append((str(user), "\n".join(lines), len(trajectory[-1].y)))
    table(("user", "kernel (number of points when selected)", "points"), rows)
    if len(trajectories) > USERS:
        info(f"The first {USERS} of {len(trajectories)} users.")
