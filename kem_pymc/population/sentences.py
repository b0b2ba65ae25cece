"""What a population model says, in sentences."""

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
                f"In {group}, {row.contrast} is {_interval(row)} in {cohort.target}, on average "
                f"over the observed rows; it is {'positive' if row.estimate > 0 else 'negative'} "
                f"with probability {_probability(row.probability_of_direction)}."
            )
    if cohort.time is not None:
        (row,) = posterior.slopes().itertuples()
        yield f"On average, {cohort.target} changes by {_interval(row)} per unit of {cohort.time}."
    table = posterior.variance_shares().sort_values("share", ascending=False)
    shares = [
        f"{row.part} {row.share:.0%} ({row.low_95:.0%} to {row.high_95:.0%})"
        for row in table[table["share"] >= LEAST].itertuples()
    ]
    yield f"Of the variance of {cohort.target}: {', '.join(shares)}."
    users = posterior.users()
    unusual = users[users["unusual"] >= NAMED]
    if len(unusual):
        named = ", ".join(f"{row.user} ({row.unusual:.2f})" for row in unusual.itertuples())
        yield (
            "Users who probably deviate by more than two sds of users' deviations, with the "
            f"probability: {named}."
        )


def _interval(row: object) -> str:
    return "{:.3g} (95 % interval {:.3g} to {:.3g})".format(
        *(getattr(row, name) for name in ("estimate", "low_95", "high_95"))
    )


def _probability(value: float) -> str:
    return "above .999" if value > 0.999 else f"{value:.3f}".lstrip("0")
