import math
from itertools import pairwise

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from kem_pymc.gp.covariance import covariance
from kem_pymc.gp.likelihood import Data, as_active, prefix_log_likelihood
from kem_pymc.kernels.base import BaseKernel, base_kernels, register_kernel
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.library import kernels
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.kernels.to_pymc import ElementwiseCovariance
from tests.refusals import refused

DIMENSION = 3
NAMES = [k.name for k in base_kernels()]


class Case:
    """A composition with hyperparameters, inputs and targets of one user."""

    def __init__(self, text, points=7):
        rng = np.random.default_rng(len(text))
        self.composition = Composition.parse(text, DIMENSION)
        self.pool = CandidatePool(list(self.composition) or ["SE0"], DIMENSION)
        self.x = rng.uniform(-3, 3, (points, DIMENSION))
        self.x[1] = self.x[0]
        self.y = rng.normal(size=points)
        self.h = rng.normal(0, 0.5, len(self.pool.hyperparameters))
        self.active = as_active(self.pool.inclusion(self.composition))
        self.hyperparameters = self.pool.named(self.h, self.composition)

    def to_pymc(self):
        return self.composition.to_pymc(self.hyperparameters, DIMENSION)

    def covariance(self, x):
        """The covariance (n, n) that the sampler uses, of points x (n, D)."""
        n = len(x)
        out, scratch = np.empty((2, n, n))
        x = np.ascontiguousarray(x.T)
        covariance(kernels(), self.pool.layout, self.active, self.h, x, out, scratch)
        return np.triu(out) + np.triu(out, 1).T

    def log_likelihood(self, noise):
        n = len(self.x)
        x = np.ascontiguousarray(self.x.T)[None]
        data = Data(x, self.y[None, None], np.array([[n]]), np.array([1]), True)
        out, counts = np.empty(1), np.zeros(2, dtype=np.int64)
        code = kernels(), self.pool.layout, self.active, self.h
        prefix_log_likelihood(*code, math.log(noise), data, 0, 1, out, counts)
        return out[0]


def evaluated(*variables):
    # Small matrices: interpreting the graphs is faster than compiling them.
    return pytensor.function([], variables, mode=pytensor.compile.Mode("py", None))()


def assert_equals_ours(case):
    old, new = case.x[:5], case.x[3:]
    cov = case.to_pymc()
    assert isinstance(cov, pm.gp.cov.Covariance)
    full, cross, diagonal = evaluated(cov(old), cov(old, new), cov(case.x, diag=True))
    ours = case.covariance(case.x)
    same = {"rtol": 1e-10, "atol": 1e-10 * np.abs(ours).max()}
    np.testing.assert_allclose(full, ours[:5, :5], **same)
    np.testing.assert_allclose(cross, ours[:5, 3:], **same)
    np.testing.assert_allclose(diagonal, np.diag(ours), **same)


@pytest.mark.parametrize(
    "text",
    [
        *(f"{one}0 x {other}1" for one, other in pairwise([*NAMES, NAMES[0]])),
        "ARD + SE0",
        "PER0 x PER0",
        "LIN0 + LIN0 x LIN0 + LIN0 x PER1 x SE2 + RQ1",
        *("WHITE", "CONST", "CONST + SE0 + LIN1 x PER0"),
    ],
)
def test_compositions(text):
    """Catches values of another copy, factor or candidate."""
    assert_equals_ours(Case(text))


def test_white_is_zero_and_adds_to_others():
    white, other = Case("WHITE"), Case("SE0")
    alone, both = evaluated(other.to_pymc()(other.x), (white.to_pymc() + other.to_pymc())(other.x))
    np.testing.assert_array_equal(both, alone)


def test_built_in_kernels_are_pymcs_own():
    lin, per, rq, se = Case("LIN0 + PER0 + RQ0 + SE0").to_pymc()._factor_list
    for term, cls in {lin: "Linear", per: "Periodic", rq: "RatQuad", se: "ExpQuad"}.items():
        assert type(term._factor_list[0]) is getattr(pm.gp.cov, cls)
    (density,) = evaluated(se.power_spectral_density(np.array([[0.0]])))
    amplitude, lengthscale = Case("LIN0 + PER0 + RQ0 + SE0").h[-2:]
    expected = math.exp(amplitude + lengthscale) * math.sqrt(2 * math.pi)
    np.testing.assert_allclose(density, expected)


class TestRegistered:
    @pytest.mark.usefixtures("few", "cosine")
    def test_evaluates_its_expression(self):
        assert_equals_ours(Case("COS0 x SE2 + COS1 + LIN1"))

    @pytest.mark.usefixtures("registry")
    def test_expression_of_one_input_still_fills_the_matrix(self):
        register_kernel(BaseKernel("ONE", (), lambda x, _: pt.ones_like(x)))
        cov = Composition.parse("ONE1").to_pymc({"ONE1.amplitude": 2.5}, 2)
        x = np.zeros((3, 2))
        full, cross, diagonal = evaluated(cov(x), cov(x, x[:2]), cov(x, diag=True))
        np.testing.assert_array_equal(full, np.full((3, 3), 2.5))
        np.testing.assert_array_equal(cross, np.full((3, 2), 2.5))
        np.testing.assert_array_equal(diagonal, np.full(3, 2.5))

    @pytest.mark.usefixtures("registry")
    def test_whole_numbers_count_as_floats(self):
        register_kernel(BaseKernel("POLY", ("lengthscale",), lambda x, z, ls: x * z / pt.sqr(ls)))
        values = {"POLY0.amplitude": 3, "POLY0.lengthscale": 200}
        cov = Composition.parse("POLY0").to_pymc(values, 1)
        (full,) = evaluated(cov(np.array([[2.0]])))
        assert full == pytest.approx(3 * 4 / 200**2)  # 200^2 is beyond 16 bits

    @pytest.mark.usefixtures("empty_registry")
    def test_is_used_even_under_the_name_of_a_built_in(self):
        register_kernel(BaseKernel("SE", ("lengthscale",), lambda x, z, ls: x * z / ls))
        cov = Composition.parse("SE0").to_pymc({"SE0.amplitude": 1.0, "SE0.lengthscale": 2.0}, 1)
        assert isinstance(cov._factor_list[0], ElementwiseCovariance)


class TestRefused:
    def test_missing_name(self):
        composition = Composition.parse("SE0 + LIN0")
        values = {"SE0.amplitude": 1.0, "LIN0.amplitude": 1.0, "LIN0.shift": 0.0}
        refused(
            lambda: composition.to_pymc(values, 1), "SE0.lengthscale has no value", "LIN0.shift"
        )


class TestMarginal:
    @pytest.mark.parametrize("text", ["WHITE", "LIN0 x PER1 + SE2 + RQ0"])
    def test_log_likelihood_equals_ours(self, text):
        case, noise = Case(text), 0.2
        gp = pm.gp.Marginal(cov_func=case.to_pymc())
        with pm.Model() as model:
            gp.marginal_likelihood("y", X=case.x, y=case.y, sigma=math.sqrt(noise), jitter=0.0)
        (got,) = evaluated(model.logp())
        np.testing.assert_allclose(got, case.log_likelihood(noise), rtol=1e-8)

    def test_hyperparameters_may_be_random_variables(self):
        case, noise = Case("LIN0 x PER1 + SE2"), 0.2
        with pm.Model() as model:
            variables = {
                h.name: (pm.LogNormal if h.positive else pm.Normal)(f"v{i}")
                for i, h in enumerate(case.composition.hyperparameters)
            }
            gp = pm.gp.Marginal(cov_func=case.composition.to_pymc(variables, DIMENSION))
            gp.marginal_likelihood("y", X=case.x, y=case.y, sigma=math.sqrt(noise), jitter=0.0)
        # PyMC's coordinates are ours: logs of positive hyperparameters, values of others.
        point = dict(zip((v.name for v in model.value_vars), case.h, strict=True))
        logp = model.compile_logp(vars=[model["y"]], mode="FAST_COMPILE")
        np.testing.assert_allclose(logp(point), case.log_likelihood(noise), rtol=1e-8)
