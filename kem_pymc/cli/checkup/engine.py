"""Check that the engine compiles and computes the same likelihood as the formula."""

import subprocess
import sys
import time

from kem_pymc.cli.checkup.finding import Finding

#: Maximum number of seconds for compiling, on a slow and busy machine.
PATIENCE = 1200

#: Maximum absolute difference between the log likelihoods of the engine and the formula.
CLOSE = 1e-8


def engine(finding: Finding) -> None:
    """Compare a likelihood of the engine with the formula, in a separate process: it may crash."""
    started = time.perf_counter()
    # With the path of this process, the other one imports the same copy of the package.
    program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import difference; "
    command = [sys.executable, "-c", f"{program}print(difference())"]
    remedy = "Report it with the output of kem doctor --json."
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        finding.doubt(f"The engine wasn't compiled within {PATIENCE} s.", remedy, fails=True)
        return
    finding.facts["time"] = f"{time.perf_counter() - started:.1f} s"
    if done.returncode < 0:
        finding.doubt(
            f"The engine crashed with signal {-done.returncode}.",
            "Delete the folder of compiled code, and try again.",
            fails=True,
        )
    elif done.returncode:
        last = (done.stderr.strip().splitlines() or ["no error message"])[-1]
        finding.doubt(f"The engine fails ({last.rstrip('.')}).", remedy, fails=True)
    else:
        found = float(done.stdout.split()[-1])
        finding.facts["likelihood"] = f"differs from the formula by {found:.1g}"
        if not found < CLOSE:
            finding.doubt(
                "The engine's likelihood is wrong.",
                f"Delete the folder of compiled code, and try again. {remedy}",
                fails=True,
            )


def difference() -> float:
    """Return the absolute difference between log likelihoods of ten points, engine and NumPy."""
    import numpy as np

    from kem_pymc.data.cohort import Cohort
    from kem_pymc.gp.many import log_likelihoods

    rng = np.random.default_rng(0)
    x, y, noise = rng.uniform(0, 3, 10), rng.normal(size=10), 0.3
    values = {"SE0.amplitude": 1.7, "SE0.lengthscale": 0.6}
    cohort = Cohort((0,), (x[:, None],), (y,), (np.array([10]),), ("x",))
    (engine,) = log_likelihoods(cohort, "SE0", values, noise)
    gap = (x[:, None] - x) / values["SE0.lengthscale"]
    covariance = values["SE0.amplitude"] * np.exp(-0.5 * gap**2) + noise * np.eye(10)
    quadratic = y @ np.linalg.solve(covariance, y)
    formula = -0.5 * (quadratic + np.linalg.slogdet(2 * np.pi * covariance)[1])
    return float(abs(engine[0, 0] - formula))
