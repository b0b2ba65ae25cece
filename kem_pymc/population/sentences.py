"""What a population model says, in sentences."""

from collections.abc import Iterator, Sequence
from typing import Any

from kem_pymc.population.model import PopulationModel
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
            yield _comparison(row, model)
    for feature in model.numbers:
        (row,) = posterior.slopes(feature).itertuples()
        curved = feature == cohort.time and not model.own_scale
        subject = f"The mean curve of {cohort.target}" if curved else _named(model)
        derivative = ": its derivative" if feature == cohort.time else ""
        sure = "" if feature == cohort.time else f"; {_direction(row)}"
        sentence = (
            f"{subject} changes by {_change(row, model)} per unit of {feature}, on average over "
            f"{_over(model)}{derivative}{sure}."
        )
        if model.logarithm_of is not None:
            sentence += f" A unit more is a factor of {' '.join(_factor(row))}"
            sentence += f" for a user's {model.logarithm_of}."
        yield sentence
        for group in groups:
            if f"{feature}:{group}" in [term.name for term in model.shared.terms]:
                every = posterior.slopes(feature, by=group).itertuples()
                slopes = (f"with {group} {row.group} by {_change(row, model)}" for row in every)
                name = f"the {model.mean_label}" if model.own_scale else model.mean_label
                yield f"Per unit of {feature}, {name} changes {', '.join(slopes)}."
    table = posterior.variance_shares().sort_values("share", ascending=False)
    shares = [
        f"{name} {100 * share:.0f} % ({100 * low:.0f} to {100 * high:.0f} %)"
        for name, share, low, high, *_ in table.itertuples(index=False)
        if share >= LEAST
    ]
    less = "; the estimates of the others are below 1 %" if len(shares) < len(table) else ""
    beside = ""
    if model.own_scale:
        beside = "; targets vary around these latent values besides, as their family has it"
    elif model.has_known_noise:
        beside = "; noise includes that which is known, on average over the observed rows"
    yield (
        f"Of the variance of {cohort.target} that the model expects over all users: "
        f"{', '.join(shares)}{less}{beside}."
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
    """Return the sign of the difference that is said, with its probability.

    That on the target's own scale may be on the other side of zero than that of latent values.
    """
    said, sure = getattr(row, "difference", row.estimate), row.probability_of_direction
    sign = "positive" if said > 0 else "negative"
    sure = sure if said * row.estimate > 0 else 1 - sure
    return f"it is {sign} with probability {probability(sure)}"


def _comparison(row: Any, model: PopulationModel) -> str:
    """Return a sentence on the difference between two levels, on the target's own scale."""
    one, other = row.contrast.split(" - ", 1)
    subject = f"{_named(model)} with {row.variable} {one} minus that with {other}"
    sentence = (
        f"{subject} is {_change(row, model)}, on average over {_over(model)}; {_direction(row)}."
    )
    if model.logarithm_of is None:
        return sentence
    verb, those = ("are", "those") if model.logarithm_of.startswith("odds") else ("is", "that")
    factor, interval = _factor(row)
    return (
        f"{sentence} A user's {model.logarithm_of} with {row.variable} {one} {verb} {factor} times "
        f"{those} with {other} {interval}."
    )


def _named(model: PopulationModel) -> str:
    """Return what changes, at the start of a sentence: "The rate of y"."""
    return f"The {model.mean_label}" if model.own_scale else model.mean_label


def _over(model: PopulationModel) -> str:
    """Return what answers are averages over."""
    return "the observed rows and all users" if model.own_scale else "the observed rows"


def _change(row: Any, model: PopulationModel) -> str:
    """Return a difference on the target's own scale, of probabilities in percentage points."""
    if not model.own_scale:
        return _interval(row)
    points = model.mean_label.startswith("probability")
    names = ("difference", "difference_low_95", "difference_high_95")
    values = [number((100 if points else 1) * getattr(row, name)) for name in names]
    unit = " percentage points" if points else ""
    return f"{values[0]}{unit} (95 % interval {values[1]} to {values[2]})"


def _factor(row: Any) -> tuple[str, str]:
    """Return a ratio and its interval as text."""
    ends = f"{number(row.ratio_low_95)} to {number(row.ratio_high_95)}"
    return number(row.ratio), f"(95 % interval {ends})"


def _interval(row: Any) -> str:
    values = (number(getattr(row, name)) for name in ("estimate", "low_95", "high_95"))
    return "{} (95 % interval {} to {})".format(*values)


def number(value: float) -> str:
    """Return a number with three significant digits, also where they are zeros."""
    return f"{value:#.3g}".rstrip(".")


def probability(value: float) -> str:
    """Return the probability of a direction as text."""
    return "above 0.999" if value > 0.999 else f"{value:.3f}"
