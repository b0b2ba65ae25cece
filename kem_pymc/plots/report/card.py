"""The model card of evolutions: what they were learned from, how they predict, their limits."""

from collections.abc import Iterator

import pandas as pd

from kem_pymc._system.display import from_to, number
from kem_pymc.evolutions.evolutions import DISAGREE, Evolutions
from kem_pymc.gp.calibration import LEVELS, Outcome, share_interval
from kem_pymc.plots.report.pictures import table
from kem_pymc.selection.new_users import FAR

#: Number of pilot users below which calibrated intervals may cover less than they say
#: (:mod:`kem_pymc.gp.calibration`).
ENOUGH = 10

type Content = dict[str, object]


def card(learned: Evolutions) -> Content:
    """Return the tables of data and coverage, and sentences on limits."""
    held_out, found = learned.held_out, coverage(learned)
    users, points = len({one.user for one in held_out}), sum(one.points for one in held_out)
    caption = (
        f"How many of {points} targets of a next time step were within intervals, of {users} pilot "
        "users as if new"
    )
    return {
        "data": table(pd.DataFrame(data(learned), columns=["name", "value"]), "Learned from"),
        # Where intervals aren't calibrated, targets are 0 or 1, of which most are in any interval.
        "coverage": table(found, caption) if held_out and learned.calibration else "",
        "limits": [*limits(learned)],
    }


def pilots(learned: Evolutions) -> int | None:
    """Return the number of pilot users: each has one final kernel in every draw."""
    if learned.final is None:
        return None
    return sum(c.count for c in learned.final.clusters if c.draw == 0)


def data(learned: Evolutions) -> Iterator[tuple[str, str]]:
    """Yield what evolutions were learned from, as pairs of name and value."""
    count, scaling = pilots(learned), learned.scaling
    if count is not None:
        yield "Pilot users", str(count)
    datasets = sum(c.count for c in learned.clusters if c.draw == 0)
    yield "Data sets: users and their time steps", str(datasets)
    for d, name in enumerate(learned.features):
        ends = scaling.feature_low[d], scaling.feature_high[d]
        levels = learned.levels.get(name)
        yield f"Feature {name}", from_to(*ends) if levels is None else ", ".join(levels)
    mean, sd = number(scaling.target_mean), number(scaling.target_sd)
    yield f"Target {scaling.target_label(learned.target)}", f"mean {mean}, sd {sd}"
    yield "Hash of the content", learned.content_hash


def coverage(learned: Evolutions) -> pd.DataFrame:
    """Return shares of targets within intervals: means over users, with 95 % intervals of these."""
    rows = pd.DataFrame(learned.held_out, columns=[*Outcome._fields])
    sums, found = rows.groupby("user").sum(), []
    for level in LEVELS:
        shares = (sums[f"within{100 * level:.0f}"] / sums["points"]).to_numpy()
        if len(shares):
            found.append((f"{100 * level:.0f} %", shares.mean(), *share_interval(shares)))
    return pd.DataFrame(found, columns=["interval", "within", "low 95 %", "high 95 %"])


def limits(learned: Evolutions) -> Iterator[str]:
    """Yield sentences on what evolutions aren't for, as far as that is known from them."""
    count = pilots(learned)
    yield (
        "They are for users like the pilot users, with features and targets in the same units: "
        f"values further than {FAR:g} ranges from those of pilot users bring a warning, and smooth "
        "functions know nothing beyond the data."
    )
    if count is not None and count < ENOUGH:
        yield (
            f"There are {count} pilot users. With fewer than {ENOUGH}, intervals may cover less "
            "than they say, and probabilities of evolutions are mostly those of few users."
        )
    if DISAGREE in learned.settings:
        yield str(learned.settings[DISAGREE])
    if learned.calibration is None and learned.held_out:
        yield "Intervals of targets that are 0 or 1 aren't calibrated."
    elif learned.calibration is None:
        yield (
            "Intervals aren't calibrated, and how well left-out users are predicted wasn't "
            "recorded: kem.calibrate does both."
        )
    else:
        yield (
            "Coverage is that of all users' next time steps together, from the users on whom "
            "intervals were calibrated. It needn't be that of each user, or further ahead."
        )
    yield (
        "Kernels describe how a target varies; they don't say why. A feature that is in a kernel "
        "isn't shown to cause anything."
    )
