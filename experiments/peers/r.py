"""Mixed models of R: lme4, fitted to pilot users once, and mgcv, fitted again at every update.

One process of R answers all requests of a deal (``mixed.R``).
"""

import json
import shutil
import subprocess
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.peers.forecast import Forecast, ForecastSelector, Pilots, Predictor
from experiments.peers.joint import Fitted, Joint
from kem_pymc.comparison.costs import Cost
from kem_pymc.errors import InputError
from kem_pymc.gp.mixture import Mixture

SCRIPT = Path(__file__).with_name("mixed.R")

#: Seconds until R has ended after its last request.
PATIENCE = 10.0


class RProcess:
    """A process of R with the rows of pilot users.

    Parameters
    ----------
    package : {"lme4", "mgcv"}
    pilots : Pilots

    Attributes
    ----------
    found : dict
        What it answered to the pilot users' rows.

    Raises
    ------
    InputError
        If R or the package isn't installed, or it can't use the rows.
    """

    def __init__(self, package: str, pilots: Pilots) -> None:
        program = shutil.which("Rscript")
        if program is None:
            raise InputError(f"{package} needs R. Install it (Debian: r-cran-{package}).")
        self.package = package
        self._process = subprocess.Popen(
            [program, "--vanilla", str(SCRIPT), package],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.close = weakref.finalize(self, _end, self._process)
        rows = table_of(pilots.x).assign(y=pilots.y, user=pilots.users)
        self.found = self.ask("pilots", rows)

    def ask(self, what: str, rows: pd.DataFrame) -> dict[str, Any]:
        """Return the answer to a request with rows.

        Raises
        ------
        InputError
            If R has ended, or answers with an error.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(f"{what} {len(rows) + 1}\n{rows.to_csv(index=False)}")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.close()
            raise InputError(
                f"R has ended. Install its packages {self.package} and jsonlite (Debian: "
                f"r-cran-{self.package}, r-cran-jsonlite), or run `Rscript {SCRIPT.name}` to see "
                "why."
            )
        answer = json.loads(line)
        if "error" in answer:
            raise InputError(f"{self.package} can't use the rows: {answer['error'][0]}")
        return answer


def _end(process: subprocess.Popen) -> None:
    """Close the standard input of a process of R, at which it ends; kill it if it doesn't."""
    with process:
        assert process.stdin is not None
        try:
            process.stdin.close()
            process.wait(PATIENCE)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            process.kill()


def table_of(x: np.ndarray) -> pd.DataFrame:
    """Return inputs (n, D) as a table with columns x1 to xD."""
    return pd.DataFrame(x, columns=[f"x{d + 1}" for d in range(x.shape[1])])


def mixed_model(pilots: Pilots, seed: int) -> Fitted:  # noqa: ARG001  nothing is drawn
    """Fit a linear mixed model with lme4, by REML.

    Fixed effects are an intercept and a slope for every feature, except features that are linear in
    others. Random effects are an intercept, or an intercept and a slope for the first feature (the
    time, if there is one), whichever has the lower AIC by maximum likelihood. The predictive
    covariance includes the uncertainty of the fixed effects. IntelligentPooling (Tomkins et al.
    2021) predicts with the same model.
    """
    process = RProcess("lme4", pilots)
    process.close()
    found = {name: np.array(value, dtype=np.float64) for name, value in process.found.items()}
    kept, noise = found["kept"].astype(int) - 1, found["noise"][0] ** 2
    fixed, uncertainty, own = found["fixed"], found["uncertainty"], found["own"]

    def joint(x: np.ndarray) -> Joint:
        one = np.ones(len(x))
        design = np.column_stack([one, x[:, kept]])
        effects = np.column_stack([one, x[:, : len(own) - 1]])
        covariance = design @ uncertainty @ design.T + effects @ own @ effects.T
        return Joint(design @ fixed, covariance + noise * np.eye(len(x)))

    return joint


@dataclass(frozen=True, eq=False)
class FittedInR:
    """A fit that a process of R keeps.

    Attributes
    ----------
    process : RProcess
    number : int
    """

    process: RProcess
    number: int

    def observations(self, x: np.ndarray) -> Mixture:
        """Return the distribution of new observations; see :class:`Predictor`."""
        found = self.process.ask(str(self.number), table_of(x))
        return Mixture(np.ones(1), np.array(found["mean"])[None], np.array(found["sd"])[None])


class FactorSmooths(ForecastSelector):
    """mgcv's factor smooths (Pedersen et al. 2019, model GS), by REML.

    A smooth function of every feature, and one of the first feature (the time, if there is one)
    for every user, with the same smoothing parameters, are fitted to the pilot users' rows and the
    user's rows so far. Predictive variances are those of the coefficients' posterior, in which
    smoothing parameters are uncertain, and of the residuals.

    Parameters
    ----------
    pilots : Pilots
    """

    def __init__(self, pilots: Pilots) -> None:
        self.scaling, self.process = pilots.scaling, RProcess("mgcv", pilots)

    def _update(
        self, x: np.ndarray, y: np.ndarray, previous: Forecast | None
    ) -> tuple[Predictor, Cost]:
        found = self.process.ask("update", table_of(x).assign(y=y))
        seconds, kilobytes = found["seconds"][0], found["kilobytes"][0]
        return FittedInR(self.process, int(found["number"][0])), Cost(seconds, kilobytes)
