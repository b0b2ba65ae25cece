"""Mixed models of R: predictions against nlme's and mgcv's own, and what is said if R can't."""

import io
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from experiments.peers import r
from experiments.peers.forecast import Pilots
from kem_pymc.comparison.costs import Metered
from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import InputError


def r_says(code):
    """The standard output of R code."""
    done = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


THERE = shutil.which("Rscript") and r_says("library(lme4); library(mgcv); library(jsonlite)")
pytestmark = pytest.mark.skipif(THERE is None, reason="R or its packages aren't installed")

#: Bates et al. (2015), section 5: sds of levels and slopes, their correlation, and of residuals.
PUBLISHED = 24.740, 5.922, 0.066, 25.592


@pytest.fixture(scope="module")
def sleepstudy():
    """All 18 users of lme4's table."""
    table = pd.read_csv(io.StringIO(r_says("write.csv(lme4::sleepstudy, row.names = FALSE)")))
    users = [own for _, own in table.groupby("Subject")]
    return Cohort(
        tuple(range(18)),
        tuple(own[["Days"]].to_numpy(float) for own in users),
        tuple(own["Reaction"].to_numpy() for own in users),
        (np.arange(1, 11),) * 18,
        ("Days",),
    )


def test_lme4_has_the_moments_of_nlme(sleepstudy):
    """Means and covariance of a new user's rows: of nlme's fit, with uncertain fixed effects."""
    code = """
      library(nlme); d <- lme4::sleepstudy
      f <- lme(Reaction ~ Days, d, ~ Days | Subject,
               control = lmeControl(msTol = 1e-12, tolerance = 1e-12, opt = "optim"))
      X <- cbind(1, 0:9); D <- matrix(getVarCov(f), 2)
      V <- X %*% (D + vcov(f)) %*% t(X) + f$sigma^2 * diag(10)
      write.csv(cbind(X %*% fixef(f), V), row.names = FALSE)"""
    expected = pd.read_csv(io.StringIO(r_says(code))).to_numpy()
    pilots = Pilots.of(sleepstudy)
    mean, covariance = r.mixed_model(pilots, 0)(pilots.scaling.inputs(np.arange(10.0)[:, None]))
    np.testing.assert_allclose(pilots.scaling.mean_back(mean), expected[:, 0], rtol=1e-6)
    found = pilots.scaling.variance_back(covariance)
    np.testing.assert_allclose(found, expected[:, 1:], rtol=1e-3)
    level, slope, correlation, noise = PUBLISHED
    fixed = 6.825**2  # the intercept's standard error
    assert found[0, 0] == pytest.approx(level**2 + noise**2 + fixed, rel=1e-3)
    assert found[0, 1] == pytest.approx(level**2 + correlation * level * slope + 36.0, abs=15.0)


def test_mgcv_predicts_as_when_asked_by_hand(sleepstudy):
    """The user's rows so far count and later ones don't; an earlier update can still be asked."""
    pilots = Pilots.of(sleepstudy.subset(sleepstudy.users[:9]))
    selector = r.FactorSmooths(pilots)
    x, y = sleepstudy.inputs[9], sleepstudy.targets[9]
    metered = Metered(selector)
    first, second = (metered.select(x[:n], y[:n]) for n in (1, 4))
    low, unit = (pilots.scaling.target_mean, pilots.scaling.target_sd)
    for n, forecast in ((1, first), (4, second)):
        code = f"""
          suppressMessages(library(mgcv)); d <- lme4::sleepstudy
          who <- levels(d$Subject)[1:10]; d <- d[d$Subject %in% who, ]
          d$y <- (d$Reaction - {low!r}) / {unit!r}; d$x <- d$Days / 9
          new <- d$Subject == who[10]; now <- rbind(d[!new, ], d[new, ][1:{n}, ])
          now$user <- factor(now$Subject)
          suppressWarnings(f <- gam(y ~ s(x, k = 10) + s(x, user, bs = "fs", k = 5),
                                    data = now, method = "REML"))
          p <- predict(f, transform(d[new, ], user = Subject), se.fit = TRUE, unconditional = TRUE)
          write.csv(data.frame(p$fit, sqrt(p$se.fit^2 + f$sig2)), row.names = FALSE)"""
        expected = pd.read_csv(io.StringIO(r_says(code))).to_numpy()
        prediction = forecast.predict(x, include_noise=True)
        np.testing.assert_allclose((prediction.mean - low) / unit, expected[:, 0], atol=1e-5)
        np.testing.assert_allclose(prediction.sd / unit, expected[:, 1], rtol=1e-5)
    assert all(seconds > 0.01 for seconds in metered.seconds)  # of the R process
    assert metered.kilobytes(second) > 8 * 60**2 / 1000  # of coefficients and their covariance
    selector.process.close()


def test_few_rows_have_few_coefficients():
    """Four visits of six users: as many as there are rows would be too many for mgcv's bases."""
    rng = np.random.default_rng(0)
    x = tuple(np.arange(3.0)[:, None] for _ in range(6))
    y = tuple(rng.normal() + own[:, 0] + rng.normal(0, 0.3, 3) for own in x)
    few = Cohort(tuple(range(6)), x, y, (np.arange(1, 4),) * 6, ("time",))
    selector = r.FactorSmooths(Pilots.of(few))
    prediction = selector.select(x[0][:1], y[0][:1]).predict(x[0][1:], include_noise=True)
    assert np.isfinite(prediction.sd).all()
    selector.process.close()


def test_r_says_what_is_wrong(pilots, monkeypatch):
    process = r.RProcess("mgcv", pilots)
    with pytest.raises(InputError, match=r"can't use the rows: .*no longer kept"):
        process.ask("7", r.table_of(np.zeros((1, 1))))
    process.close()
    with pytest.raises(InputError, match="r-cran-nothing"):
        r.RProcess("nothing", pilots)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(InputError, match="needs R"):
        r.RProcess("lme4", pilots)
