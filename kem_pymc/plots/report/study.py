"""Settings, candidates, priors and versions of a study, as tables."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd
from markupsafe import Markup

from kem_pymc.errors import InputError
from kem_pymc.kernels.prose import describe_candidate, named
from kem_pymc.plots.report.gather import Material
from kem_pymc.plots.report.pictures import table
from kem_pymc.population.shared_part import SharedPart
from kem_pymc.priors import Priors

#: What there is to say without a shared function.
UNSHARED = "Users share nothing: kernels describe all of a user's function."

#: Descriptions of the two posteriors that can be sampled.
TARGETS = {
    "cut": "cut: kernels of early time steps don't depend on later data, as at deployment",
    "joint": "joint: the posterior of the whole model, in which kernels of early time steps "
    "depend on later data as well",
}


def tables(material: Material) -> list[Markup]:
    """Return the tables of settings, candidates, priors and versions."""
    learned = material.evolutions
    candidates = (
        (named((c,), learned.features), describe_candidate(c, learned.features))
        for c in learned.pool
    )
    titled: dict[str, Iterable[tuple[str, str]]] = {
        "Settings": settings(material),
        "Candidates: the possible parts of kernels": candidates,
        "Priors, in the model's units": priors(material),
        "Versions when sampled": learned.versions.items(),
    }
    frames = {name: pd.DataFrame(rows, columns=["name", "value"]) for name, rows in titled.items()}
    return [table(frame, name) for name, frame in frames.items() if len(frame)]


def settings(material: Material) -> Iterator[tuple[str, str]]:
    """Yield the settings of a study as pairs of name and value."""
    settings, learned = material.settings, material.evolutions
    sampled = None if material.idata is None else material.idata["posterior"]
    feedback = str(learned.settings.get("feedback", "unknown"))
    target = learned.scaling.target_label(learned.target)
    data = str(settings.get("data", "")).removeprefix("Cohort(").removesuffix(")")
    shared = UNSHARED if learned.shared is None else str(SharedPart(learned.shared, (), ()))
    pairs: dict[str, object] = {
        "Data": data.replace(f" -> {learned.target}", f" -> {target}"),
        "Target": target,
        "Features": ", ".join(learned.features),
        "Shared function": shared,
        "Command": settings.get("command"),
        "Chains and draws": sampled and f"{sampled.sizes['chain']} x {sampled.sizes['draw']}",
        "Tuning draws per chain": sampled and sampled.attrs.get("tuning_steps"),
        "Seed": (settings.get("sampler") or {}).get("random_seed"),
        "Evolutions computed from": f"{learned.n_draws} draws",
        "Posterior": TARGETS.get(feedback, feedback),
        "Concentration": _learned(learned.concentration),
        **{f"Population parameter {k}": _learned(v) for k, v in learned.population.items()},
        "Likelihood of a time step": learned.settings.get("likelihood", "cumulative"),
        "Likelihood power": learned.settings.get("likelihood_power"),
        "Interrupted": "Sampling was interrupted; the results are based on the draws before that."
        if settings.get("interrupted")
        else None,
        "Failed chains": settings.get("failed_chains"),
    }
    yield from ((name, str(value)) for name, value in pairs.items() if value not in (None, "", []))


def _learned(values: float | Sequence[float]) -> str:
    """Return a fixed value, or the median and 90 % interval of draws, as text."""
    if not isinstance(values, Sequence):
        return f"{values:g}, fixed"
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95))
    return f"learned: median {middle:.2f}, 90 % interval {low:.2f} to {high:.2f}"


def priors(material: Material) -> Iterable[tuple[str, str]]:
    """Return the table of priors; empty if it isn't known."""
    written = material.settings.get("priors")
    if isinstance(written, dict):
        return [(str(what), str(prior)) for what, prior in written.items()]
    try:
        frame = Priors.from_dict(material.evolutions.priors).to_frame()
    except (InputError, KeyError, TypeError):
        return []
    return frame.astype(str).itertuples(index=False, name=None)
