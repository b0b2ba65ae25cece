"""Report sections on the settings, candidates, priors and versions of a study."""

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import Any

from kem_pymc.errors import InputError
from kem_pymc.evolutions.novelty import ends_of
from kem_pymc.kernels.prose import describe, describe_candidate
from kem_pymc.plots.style import spelled
from kem_pymc.priors import Priors
from kem_pymc.reports.charts import DASH
from kem_pymc.reports.gather import Material

#: Descriptions of the two posteriors that can be sampled.
TARGETS = {
    "cut": "cut: kernels of early time steps don't depend on later data, as at deployment",
    "joint": "joint: the posterior of the whole model, in which kernels of early time steps "
    "depend on later data as well",
}
LIKELIHOODS = {
    "cumulative": "cumulative: the likelihood of a time step includes all points so far, as in the "
    "paper",
    "sequential": "sequential: the likelihood of a time step is that of its new points, given the "
    "earlier ones",
}


def settings(material: Material) -> list[tuple[str, str]]:
    """Return the settings of the study as pairs of name and value."""
    return list(_settings(material))


def candidates(material: Material) -> list[tuple[str, str]]:
    """Return the candidates' labels, each with a description in plain English."""
    pool, features = material.evolutions.pool, material.evolutions.features
    return [(spelled(c.label(pool.dimension)), describe_candidate(c, features)) for c in pool]


def priors(material: Material) -> list[tuple[str, str]]:
    """Return the table of priors; empty if it isn't known."""
    written = material.settings.get("priors")
    if isinstance(written, dict):
        return [(str(what), str(prior)) for what, prior in written.items()]
    try:
        table = Priors.from_dict(material.evolutions.priors)
    except (InputError, KeyError, TypeError):
        return []
    return [(str(what), str(prior)) for what, prior in table.to_frame().to_numpy().tolist()]


def versions(material: Material) -> list[tuple[str, str, str]]:
    """Return packages with their versions when the study was sampled and their current versions."""
    then = material.evolutions.versions
    names = dict.fromkeys(["kem-pymc", "pymc", "pytensor", "arviz", *then])
    return [(name, str(then.get(name, DASH)), _now(name)) for name in names]


def _now(name: str) -> str:
    try:
        return version(name)
    except ModuleNotFoundError:
        return DASH


def _shared(material: Material) -> str:
    learned = material.evolutions
    if learned.shared is None:
        return "nothing"
    shared = learned.settings.get("shared", {}).get("shares", {})
    text = describe(learned.shared.kernel.composition, learned.features)
    parts = [f"{share:.0%} {name}" for name, share in shared.items()]
    return f"{text}; shares of the variance: {', '.join(parts)}" if parts else text


def _settings(material: Material) -> Iterator[tuple[str, str]]:
    found, learned = material.settings, material.evolutions
    posterior = None if material.idata is None else material.idata["posterior"]
    sampler: dict[str, Any] = found.get("sampler") or {}
    if isinstance(found.get("data"), str):
        yield "Data", found["data"].removeprefix("Cohort(").removesuffix(")")
    yield "Target", learned.target
    yield "Features", ", ".join(learned.features)
    yield "Shared by all users", _shared(material)
    if learned.final is not None:
        yield "Where users end up", ends_of(learned)
    if "command" in found:
        yield "Command", str(found["command"])
    if posterior is not None:
        sizes = posterior.sizes
        yield (
            "Sampling",
            f"{sizes['chain']} chains of {sizes['draw']} draws"
            + (
                f", after {int(posterior.attrs['tuning_steps'])} tuning draws per chain"
                if "tuning_steps" in posterior.attrs
                else ""
            ),
        )
        if "sampling_time" in posterior.attrs:
            yield "Time for sampling", f"{float(posterior.attrs['sampling_time']):.0f} s"
    if sampler.get("random_seed") is not None:
        yield "Seed", str(sampler["random_seed"])
    yield "Evolutions computed from", f"{learned.n_draws} draws"
    feedback = str(learned.settings.get("feedback", DASH))
    yield "Posterior", TARGETS.get(feedback, feedback)
    yield "Concentration", _concentration(material)
    for name, values in material.evolutions.population.items():
        yield f"Population parameter {name}", _learned(values)
    likelihood = str(learned.settings.get("likelihood", "cumulative"))
    yield "Likelihood", LIKELIHOODS.get(likelihood, likelihood)
    power = learned.settings.get("likelihood_power", 1.0)
    if power != 1:
        yield "Likelihood power", f"{power:g}"
    yield "Scaling", _scaling(material)
    if found.get("interrupted"):
        yield "Note", "Sampling was interrupted; the results are based on the draws before that."
    if found.get("failed_chains"):
        yield (
            "Note",
            f"Chains {found['failed_chains']} failed; the results are based on the other chains.",
        )


def _concentration(material: Material) -> str:
    alpha = material.evolutions.concentration
    return _learned(alpha) if isinstance(alpha, tuple) else f"{alpha:g}, fixed"


def _learned(values: Sequence[float]) -> str:
    """Return the posterior median and 90 % interval of a parameter as text, from its draws."""
    ordered = sorted(values)
    low, middle, high = (ordered[round(share * (len(ordered) - 1))] for share in (0.05, 0.5, 0.95))
    return f"learned: median {middle:.2f}, 90 % interval {low:.2f} to {high:.2f}"


def _scaling(material: Material) -> str:
    scaling = material.evolutions.scaling
    plain = scaling.target_mean == 0 and scaling.target_sd == 1
    if plain and not scaling.feature_low.any() and (scaling.feature_high == 1).all():
        return "none: the data are in their own units"
    target = material.evolutions.target
    if scaling.transform is None:
        what, but = "the target", ""
    else:
        what = scaling.target_label(target)
        but = f", except where {what} is given as the unit"
    return (
        f"features to [0, 1] and {what} to mean 0 and sd 1, based on the pilot users' data; "
        f"values in this report are in the study's own units{but}"
    )
