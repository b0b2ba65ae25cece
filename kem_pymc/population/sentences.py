"""What a population model says, in sentences."""

import math
from collections.abc import Iterator, Sequence

from kem_pymc.population.posterior import PopulationPosterior

#: A user whose deviation is unusual with at least this probability is named.
NAMED = 0.5

#: Smallest share of the variance that is named.
LEAST = 0.01


def sentences(posterior: PopulationPosterior, groups: Sequence[str]) -> list[str]:
    """Return sentences on differences between groups, change over time, shares and users.

    Parameters
    ----------
    posterior : PopulationPosterior
    groups : sequence of str
        Features whose levels are compared.

    Returns
    -------
    list of str
    """
    return list(_sentences(posterior, groups))


def _sentences(posterior: PopulationPosterior, groups: Sequence[str]) -> Iterator[str]:
    cohort = posterior.model.cohort
    for group in groups:
        for row in posterior.comparisons(group).itertuples():
            yield (
                f"{group}: {row.contrast} is {_interval(row)} in {cohort.target}, on average over "
                f"the observed rows{_ratio(row, cohort.target)}; it is "
                f"{'positive' if row.estimate > 0 else 'negative'} with probability "
                f"{_probability(row.probability_of_direction)}."
            )
    if cohort.time is not None:
        (row,) = posterior.slopes().itertuples()
        yield (
            f"The mean curve of {cohort.target} changes by {_interval(row)} per unit of "
            f"{cohort.time}: its derivative, on average over the observed rows."
        )
    table = posterior.variance_shares().sort_values("share", ascending=False)
    shares = [
        f"{row.part} {100 * row.share:.0f} % ({100 * row.low_95:.0f} to {100 * row.high_95:.0f} %; "
        f"sd {row.sd:.3g})"
        for row in table[table["share"] >= LEAST].itertuples()
    ]
    less = ", and the rest less than 1 % each" if len(shares) < len(table) else ""
    yield f"Of the model's variance of {cohort.target}: {', '.join(shares)}{less}."
    users = posterior.users()
    unusual = users[users["unusual"] >= NAMED]
    if len(unusual):
        rows = unusual.itertuples()
        named = ", ".join(f"{row.user} ({row.unusual_in}, {row.unusual:.2f})" for row in rows)
        yield (
            "Users whose level or line probably deviates by more than two sds of users' "
            f"deviations, with the probability: {named}."
        )


def _ratio(row: object, target: str) -> str:
    """Return a difference of logarithms as a ratio, nothing for other targets."""
    if not target.startswith("log("):
        return ""
    names = ("estimate", "low_95", "high_95")
    return ", a ratio of {:.3g} ({:.3g} to {:.3g})".format(
        *(math.exp(getattr(row, name)) for name in names)
    )


def _interval(row: object) -> str:
    return "{:.3g} (95 % interval {:.3g} to {:.3g})".format(
        *(getattr(row, name) for name in ("estimate", "low_95", "high_95"))
    )


def _probability(value: float) -> str:
    return "above .999" if value > 0.999 else f"{value:.3f}".lstrip("0")
