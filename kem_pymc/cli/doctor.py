"""``kem doctor``: check the installation, and report problems."""

import platform
import tempfile
import time
import warnings
from collections.abc import Callable

import typer

from kem_pymc.cli import screen
from kem_pymc.errors import InputError

EXAMPLE = "Example: kem doctor"


def doctor() -> None:
    """Check versions, and whether kernels are compiled correctly and models are sampled.

    The first time, compiling takes a minute or more. The exit code is 1 if a check fails.
    """
    failed = False
    for title, check in CHECKS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                screen.info(f"{title}: {check()}")
        except Exception as error:  # a broken installation may break any check
            failed = True
            name = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
            screen.error(f"{title}: {name}{error}")
    screen.info("" if failed else "No problems found.")
    raise typer.Exit(int(failed))


def versions() -> str:
    """Return the platform, and the versions of this package, Python and all dependencies."""
    from importlib import metadata

    from packaging.requirements import Requirement

    lines = [platform.platform(), f"Python {platform.python_version()}"]
    for needed in map(Requirement, ["kem-pymc", *(metadata.requires("kem-pymc") or ())]):
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            version = metadata.version(needed.name)
            if not needed.specifier.contains(version, prereleases=True):
                raise InputError(f'{version} is installed. Run: pip install "{needed}"')
            lines.append(f"{needed.name} {version}")
    return ", ".join(lines)


def code_cache() -> str:
    """Return the folder of compiled code, after a file was written to it."""
    from kem_pymc._system.jit.cache import cache_folder

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            return str(folder)
    except OSError as error:
        raise InputError(
            f"Compiled code can't be saved in {folder} ({error.strerror or error}), so it is "
            "compiled again in every run. Set KEM_CACHE to a folder that you can write to."
        ) from error


def draws() -> str:
    """Compare a compiled log likelihood with SciPy's, and time a few draws of a small model."""
    import numpy as np
    from scipy.stats import multivariate_normal

    import kem_pymc as kem
    from kem_pymc.gp.coordinates import Coordinates
    from kem_pymc.gp.objective import Objective

    began = time.perf_counter()
    cohort = kem.datasets.synthetic(users=2, time_steps=2, seed=0)
    x, n = cohort.inputs[0], cohort.ends[0][0]
    values = {"SE0.amplitude": 1.7, "SE0.lengthscale": 0.6}
    coordinates = Coordinates.alone("SE0", dimension=1)
    objective = Objective(coordinates, x[:n], cohort.targets[0][:n])
    value, _ = objective.terms(coordinates.from_named(values, noise=0.3))
    covariance = 1.7 * np.exp(-0.5 * ((x[:n] - x[:n].T) / 0.6) ** 2) + 0.3 * np.eye(n)
    expected = multivariate_normal(cov=covariance).logpdf(cohort.targets[0][:n])
    if not abs(value - expected) < 1e-8:
        raise InputError(
            f"A log likelihood is {value}, not {expected}. Delete the folder of compiled code."
        )
    model = kem.EvolutionModel(cohort, kem.CandidatePool(["LIN0", "SE0"]), kem.priors.synthetic())
    kem.sample(model, draws=4, tune=2, chains=1, cores=1, random_seed=0, progress=False)
    return f"made in {time.perf_counter() - began:.1f} s, from correct likelihoods"


CHECKS: dict[str, Callable[[], str]] = {
    "Versions": versions,
    "Compiled code": code_cache,
    "Draws": draws,
}
