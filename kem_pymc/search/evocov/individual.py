"""Individuals: kernels with fitted hyperparameters, and kernels that have yet to be fitted."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np
from annotated_types import Gt, Lt
from pydantic import BaseModel, ConfigDict, FiniteFloat, NonNegativeInt

from kem_pymc.errors import InputError
from kem_pymc.search.evocov.tree import Tree


@dataclass(frozen=True, eq=False)
class Offspring:
    """A kernel to fit, with the values that it inherits from its parents.

    Attributes
    ----------
    tree : Tree
        Its hyperparameters are h0, h1, ... in the order in which they occur.
    inherited : ndarray, shape (k + 1,)
        Natural hyperparameters and noise variance; NaN where there is nothing to inherit.
    """

    tree: Tree
    inherited: np.ndarray

    @classmethod
    def of(cls, tree: Tree) -> Self:
        """Return a kernel without parents."""
        return cls(tree, np.full(len(tree.hyperparameters) + 1, math.nan))

    def __str__(self) -> str:
        return str(self.tree)


class FittedKernel(BaseModel):
    """A fitted kernel in JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kernel: str
    hyperparameters: dict[str, FiniteFloat]
    noise: Annotated[FiniteFloat, Gt(0)]
    log_likelihood: Annotated[float, Lt(math.inf)]
    bic: Annotated[float, Gt(-math.inf)]
    outcomes: dict[str, NonNegativeInt]


@dataclass(frozen=True, eq=False)
class Individual:
    """A kernel with fitted hyperparameters.

    Attributes
    ----------
    tree : Tree
    natural : ndarray, shape (k + 1,)
        Hyperparameters, in the order of :attr:`Tree.hyperparameters`, and the noise variance.
    log_likelihood : float
        Log marginal likelihood; minus infinity if the kernel can't be evaluated.
    bic : float
        Bayesian information criterion (eq. 10), smaller for better kernels; infinite if the kernel
        can't be evaluated.
    outcomes : mapping of str to int
        Number of evaluations of the metric with its gradient, by the outcome, such as "fine" or
        "overflow".
    seconds : float
        Duration of the fit.
    elapsed : float
        Seconds from the start of the search to the end of the fit.
    """

    tree: Tree
    natural: np.ndarray
    log_likelihood: float
    bic: float
    outcomes: Mapping[str, int]
    seconds: float = 0.0
    elapsed: float = 0.0

    def __str__(self) -> str:
        return str(self.tree)

    @property
    def model(self) -> str:
        """The kernel as a formula, without noise."""
        return self.tree.formula()

    @property
    def score(self) -> float:
        """-1/2 times BIC, which is larger for better kernels."""
        return -self.bic / 2

    @property
    def gradients(self) -> int:
        """Number of evaluations of the metric with its gradient."""
        return sum(self.outcomes.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel, its values, its scores and outcomes as plain data."""
        *hyperparameters, noise = self.natural.tolist()
        return {
            "kernel": str(self),
            "hyperparameters": dict(zip(self.tree.hyperparameters, hyperparameters, strict=True)),
            "noise": noise,
            "log_likelihood": self.log_likelihood,
            "bic": self.bic,
            "outcomes": dict(self.outcomes),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return the individual that :meth:`to_dict` returned.

        Raises
        ------
        InputError
            If the data aren't an individual, the kernel is invalid, or values are missing or out of
            range.
        """
        try:
            file = FittedKernel.model_validate(data)
        except ValueError as error:
            raise InputError(
                f"This isn't an evolved kernel: {error}. Give what to_json or to_dict returned."
            ) from None
        tree = Tree.parse(file.kernel)
        if set(file.hyperparameters) != set(tree.hyperparameters):
            given = ", ".join(file.hyperparameters) or "no hyperparameters"
            needed = ", ".join(tree.hyperparameters) or "none"
            raise InputError(
                f"There are values of {given}; the kernel's hyperparameters are {needed}. "
                "Give one value of each."
            )
        values = {name: file.hyperparameters[name] for name in tree.hyperparameters}
        for (name, value), positive in zip(values.items(), tree.positive, strict=True):
            if positive and value <= 0:
                raise InputError(f"{name} of {file.kernel} is {value}. Give a positive value.")
        natural = np.array([*values.values(), file.noise])
        return cls(tree, natural, file.log_likelihood, file.bic, file.outcomes)

    def to_json(self) -> str:
        """Return the individual as a JSON object."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the individual that :meth:`to_json` wrote; see :meth:`from_dict`."""
        try:
            return cls.from_dict(json.loads(text))
        except (json.JSONDecodeError, RecursionError) as error:
            raise InputError(
                f"This isn't an evolved kernel: {error}. Give the text that to_json returned."
            ) from None

    def to_line(self) -> dict[str, Any]:
        """Return what a line in the file of a search contains."""
        return {"fitted": self.to_dict(), "seconds": self.seconds, "elapsed": self.elapsed}

    @classmethod
    def from_line(cls, line: dict[str, Any]) -> Self:
        """Return the individual of which :meth:`to_line` gave a line."""
        individual = cls.from_dict(line["fitted"])
        return replace(individual, seconds=line["seconds"], elapsed=line["elapsed"])
