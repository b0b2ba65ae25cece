"""Fingerprints of all that draws depend on: a run is resumed only if nothing of it has changed."""

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import numpy as np

from kem_pymc._system.jit.cache import source_stamp
from kem_pymc.kernels.base import base_kernels
from kem_pymc.model.engine import Engine
from kem_pymc.model.evolution_model import EvolutionModel

PACKAGES = ("kem-pymc", "numba", "numpy", "pymc", "pytensor")

#: Arguments at which functions without a name are compared: densities (of logs or of values) and
#: kernels.
PLACES = np.linspace(-2.1, 2.3, 7)


def fingerprint(model: EvolutionModel, targets: np.ndarray) -> dict[str, Any]:
    """Return everything that the draws of a model depend on, as plain data.

    Short parts are stored as they are, others as hashes. Kernels and priors may be functions that
    users define; they are compared by their values.

    Parameters
    ----------
    model : EvolutionModel
    targets : ndarray, shape (U, T, n)
        Observed targets, in the model's units.
    """
    engine = model.engine
    cohort = model.cohort
    shared = vars(engine.known_by_user) if engine.known_by_user else {}
    arrays = [*cohort.inputs, *cohort.targets, *cohort.ends, targets]
    names = [[str(user) for user in cohort.users], list(cohort.features), cohort.target]
    # The prior of the noise may depend on parameters that the table of priors doesn't contain.
    priors = [model.priors.to_dict(), [parameter.name for parameter in engine.population]]
    return {
        "data": _hash(json.dumps(names), *arrays),
        "candidates": model.pool.names,
        "kernels": _hash(*_kernel_values(engine)),
        "priors": _hash(json.dumps(priors, sort_keys=True), *_prior_values(engine)),
        "concentration": engine.concentration.to_data(),
        "feedback": model.feedback,
        "likelihood": model.likelihood,
        "likelihood power": engine.likelihood_power,
        "schedule": _plain(engine.schedule),
        "scaling": model.scaling.to_dict(),
        "what users share": _hash(*map(_digits, shared.values())),
        "versions": {name: version(name) for name in PACKAGES} | {"source": source_stamp()[:16]},
    }


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the parts in which two fingerprints differ, with their values if these are short."""
    return [
        text
        for part, value in now.items()
        if value != then.get(part)
        for text in _difference(part, then.get(part), value)
    ]


def _difference(part: str, then: Any, now: Any) -> Iterator[str]:
    if isinstance(now, dict) and isinstance(then, dict):
        inner = sorted(name for name in now if now[name] != then.get(name))
        changes = (f"{n} was {_short(then.get(n))}, is {now[n]}" for n in inner)
        yield f"{part} ({', '.join(changes)})"
    elif isinstance(now, float) or part in ("feedback", "likelihood"):
        yield f"{part} (was {_short(then)}, is {now})"
    else:
        yield part


def _short(value: Any) -> str:
    return str(value)[:60].encode("utf-8", "replace").decode()  # files may contain any value


def _prior_values(engine: Engine) -> Iterator[np.ndarray]:
    """Yield prior densities of every hyperparameter, and of the noise for some parents."""
    priors = engine.model.priors
    size = len(engine.pool)
    # Population parameters at their reference values, then with one of them shifted at a time.
    shifts = np.vstack([np.zeros_like(priors.reference), np.diag(priors.population_width)])
    for population in priors.reference + shifts:
        for entry in (*priors.entry, *priors.population_entry):
            yield _digits([priors.log_density(int(entry), float(v), population) for v in PLACES])
        for parent in (np.zeros(size, bool), np.ones(size, bool), *np.eye(size, dtype=bool)):
            yield _digits([priors.noise_log_density(parent, float(v), population) for v in PLACES])
    yield _digits([*priors.stay, *priors.enter])


def _kernel_values(engine: Engine) -> Iterator[np.ndarray | str]:
    """Yield names and values of the base kernels that the candidates consist of."""
    used = {factor.base for candidate in engine.pool for factor in candidate.factors}
    for code, kernel in enumerate(base_kernels()):
        if kernel.name in used:
            h = np.linspace(0.7, 1.3, len(kernel.hyperparameters))
            values = np.ones((len(PLACES), len(PLACES)))
            engine.model.kernels.cross(code, PLACES, PLACES, h, values)
            yield kernel.name
            yield _digits(values)


def _digits(values: Any) -> np.ndarray:
    """Return numbers as text with nine digits, which don't depend on the order of summation."""
    return np.array([f"{value:.9g}" for value in np.ravel(values)])


def _plain(value: Any) -> Any:
    """Return a schedule, or a value in it, as plain data."""
    if hasattr(value, "_asdict"):
        return {name: _plain(item) for name, item in value._asdict().items()}
    return value.item() if isinstance(value, np.generic) else value


def _hash(*parts: str | np.ndarray) -> str:
    digest = sha256()
    for part in parts:
        if isinstance(part, str):
            digest.update(part.encode())
        else:
            array = np.ascontiguousarray(part)
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(array.tobytes())
    return digest.hexdigest()
