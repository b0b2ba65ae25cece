"""The random variables of the population model: hyperparameters and targets."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.abstract import _logprob
from pytensor.tensor.random.op import RandomVariable

from kem_pymc.population.hyperparameters import scales
from kem_pymc.population.likelihood import Rotation, Scales, Total
from kem_pymc.population.sites import moves_with
from kem_pymc.priors.distributions import fresh, random_variable

if TYPE_CHECKING:
    from kem_pymc.population.model import PopulationModel


class Tensors:
    """Operations of PyTensor, as :class:`~kem_pymc.population.likelihood.Arrays` has NumPy's."""

    arange = staticmethod(pt.arange)
    concatenate = staticmethod(pt.concatenate)
    diagonal = staticmethod(pt.diagonal)
    exp = staticmethod(pt.exp)
    eye = staticmethod(pt.eye)
    log = staticmethod(pt.log)
    cholesky = staticmethod(pt.linalg.cholesky)


class PopulationTargets(RandomVariable):
    """Targets (n,) of all users in scaled units, whose parameters are the hyperparameters.

    ``pm.CustomDist`` isn't used, because PyMC keeps its functions, and with them the model and its
    data, as long as Python runs.
    """

    name = "targets"
    dtype = "float64"
    _print_name = ("PopulationTargets", "\\operatorname{PopulationTargets}")
    __props__ = ("name", "signature", "dtype", "inplace", "model")

    def __init__(self, model: "PopulationModel", **kwargs: Any) -> None:
        self.model = model
        inputs = ",".join("()" for _ in model.hyperparameters)
        super().__init__(**{"signature": f"{inputs}->(n)"} | kwargs)

    def _supp_shape_from_params(self, *_: Any, **__: Any) -> tuple[Any, ...]:
        return (pt.constant(sum(map(len, self.model.cohort.targets)), dtype="int64"),)

    def rng_fn(self, rng, *parameters_and_size):
        model = self.model
        every = self._scales(map(np.asarray, parameters_and_size[:-1]))
        targets = []
        weights = every.shared * rng.normal(size=model.shared.size)
        for x, known in zip(model.cohort.inputs, model.known_noise, strict=True):
            own = every.personal @ rng.normal(size=model.personal.size)
            noise = np.sqrt(every.noise**2 + known) * rng.normal(size=len(x))
            targets.append(model.shared(x) @ weights + model.personal(x) @ own + noise)
        return np.concatenate(targets)

    def _scales(self, parameters: Any, *arrays: Any) -> Scales:
        names = (h.name for h in self.model.hyperparameters)
        natural = dict(zip(names, parameters, strict=True))
        return scales(self.model.shared, self.model.personal, natural, *arrays)

    def log_density(self, y: Any, *parameters: Any) -> Any:
        """Return the log density of targets (n,) as a PyTensor variable.

        It is that of :class:`~kem_pymc.population.likelihood.Products`, whose products with the
        targets are part of the graph here, so that other targets can be put into it.
        """
        model, products = self.model, self.model.products
        rows, ranks = products.rows, products.ranks
        shape = len(rows), rows.max()
        basis = np.zeros((len(rows), ranks.max(), rows.max()))
        left = np.zeros((*shape, model.shared.size))
        known, place, there = np.zeros(shape), np.zeros(shape, dtype=np.int64), np.zeros(shape)
        starts = np.cumsum(rows) - rows
        for u, (start, n, r) in enumerate(zip(starts, rows, ranks, strict=True)):
            x, known[u, :n] = model.cohort.inputs[u], model.known_noise[u]
            apart = moves_with(model.original)
            basis[u, :r, :n] = Rotation.of(model.personal(x), known[u, :n], apart).basis.T
            left[u, :n] = model.shared(x) - basis[u, :r, :n].T @ products.common[u, :r, :-1]
            place[u, :n], there[u, :n] = start + np.arange(n), 1.0
        every = self._scales(parameters, Tensors)
        variance = every.noise**2
        of_users = there * y[place]
        onto = (basis @ of_users[..., None])[..., 0]
        rest = of_users - (basis.mT @ onto[..., None])[..., 0]
        weighted = rest / (variance + known)
        shift = (weighted.reshape((1, -1)) @ left.reshape((-1, model.shared.size))).T
        square = (weighted * rest).sum()[None, None]
        levels, counts, squares = products.left_over
        upper = (squares[:, :-1, :-1] / (variance + levels)[:, None, None]).sum(axis=0)
        sums = pt.concatenate([upper, shift], axis=1)
        sums = pt.concatenate([sums, pt.concatenate([shift.T, square], axis=1)], axis=0)
        log_determinant = rows.sum() * np.log(2 * np.pi)
        log_determinant += (counts * pt.log(variance + levels)).sum()
        if ranks.max():
            spread = products.own @ every.personal
            noise = (variance + products.known)[..., None] * np.eye(ranks.max())
            factor = pt.linalg.cholesky(spread @ spread.mT + noise)
            both = pt.concatenate([products.common[..., :-1], onto[..., None]], axis=-1)
            white = pt.linalg.solve_triangular(factor, both, lower=True, b_ndim=2)
            white = white.reshape((-1, model.shared.size + 1))
            sums += white.T @ white
            diagonal = (factor * np.eye(ranks.max())).sum(axis=-1)
            padding = ranks.max() * len(rows) - ranks.sum()
            log_determinant += 2 * pt.log(diagonal).sum() - padding * pt.log(variance)
        return Total(log_determinant, sums).given(every, Tensors).log_likelihood


@_logprob.register(PopulationTargets)
def _logprob_of_targets(op, values, _rng, _size, *parameters, **kwargs):  # noqa: ARG001
    return op.log_density(values[0], *parameters)


def add_variables(model: "PopulationModel") -> None:
    """Add the hyperparameters and the targets, in scaled units, to a model."""
    every = [model.register_rv(fresh(h.prior), h.name) for h in model.hyperparameters]
    observed = (np.concatenate(model.cohort.targets) - model.target_mean) / model.target_sd
    targets = random_variable(PopulationTargets(model), *every)
    model.register_rv(targets, "targets", observed=observed)
