"""What a population model says, in sentences."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from kem_pymc.population.posterior import PopulationPosterior

#: A user whose deviation is unusual with at least this probability is named.
NAMED = 0.5

#: Smallest share of the variance that is named.
LEAST = 0.01


def sentences(posterior: PopulationPosterior, groups: Sequence[str]) -> list[str]:
    """Return sentences on differences between groups, change with numbers, shares and users.

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
    model, cohort = posterior.model, posterior.model.cohort
    for group in groups:
        for row in posterior.comparisons(group).itertuples():
            yield (
                f"{cohort.target} with {group} {row.contrast.replace(' - ', ' minus that with ')} "
                f"is {_interval(row)}, on average over the observed rows"
                f"{_ratio(row, cohort.target)}; {_direction(row)}."
            )
    for feature in model.numbers:
        (row,) = posterior.slopes(feature).itertuples()
        curve = f"The mean curve of {cohort.target}" if feature == cohort.time else cohort.target
        yield (
            f"{curve} changes by {_interval(row)} per unit of {feature}, on average over the "
            f"observed rows{': its derivative' if feature == cohort.time else ''}"
            f"{'' if feature == cohort.time else f'; {_direction(row)}'}."
        )
        for group in groups:
            if f"{feature}:{group}" in [term.name for term in model.shared.terms]:
                every = posterior.slopes(feature, by=group).itertuples()
                slopes = (f"with {group} {row.group} by {_interval(row)}" for row in every)
                yield f"Per unit of {feature}, {cohort.target} changes {', '.join(slopes)}."
    table = posterior.variance_shares().sort_values("share", ascending=False)
    shares = [
        f"{name} {100 * share:.0f} % ({100 * low:.0f} to {100 * high:.0f} %)"
        for name, share, low, high, *_ in table.itertuples(index=False)
        if share >= LEAST
    ]
    less = "; the estimates of the others are below 1 %" if len(shares) < len(table) else ""
    known = "; noise includes that which is known, on average over the observed rows"
    yield (
        f"Of the variance of {cohort.target} that the model expects over all users: "
        f"{', '.join(shares)}{less}{known if model.has_known_noise else ''}."
    )
    for row in posterior.correlations().itertuples():
        ends = f"{row.low_95:.2f} to {row.high_95:.2f}"
        yield (
            f"Users' levels, at the mean of {row.line}, and lines in {row.line} have a correlation "
            f"of {row.correlation:.2f} ({ends})."
        )
    users = posterior.users()
    unusual = users[users["unusual"] >= NAMED]
    if len(unusual):
        rows = unusual.itertuples()
        named = ", ".join(f"{row.user} ({row.unusual_in}, {row.unusual:.2f})" for row in rows)
        yield (
            "Users whose level or line probably deviates by more than two sds of users' deviations "
            "in it, as about one user in twenty does in each, with the probability of the one "
            f"named: {named}."
        )


def _direction(row: Any) -> str:
    sign = "positive" if row.estimate > 0 else "negative"
    return f"it is {sign} with probability {probability(row.probability_of_direction)}"


def _ratio(row: Any, target: str) -> str:
    """Return a difference of logarithms as a ratio, nothing for other targets."""
    if not target.startswith("log("):
        return ""
    names = ("estimate", "low_95", "high_95")
    values = (number(math.exp(getattr(row, name))) for name in names)
    return ", a ratio of {} ({} to {})".format(*values)


def _interval(row: Any) -> str:
    values = (number(getattr(row, name)) for name in ("estimate", "low_95", "high_95"))
    return "{} (95 % interval {} to {})".format(*values)


def number(value: float) -> str:
    """Return a number with three significant digits, also where they are zeros."""
    return f"{value:#.3g}".rstrip(".")


def probability(value: float) -> str:
    """Return the probability of a direction as text."""
    return "above 0.999" if value > 0.999 else f"{value:.3f}"
