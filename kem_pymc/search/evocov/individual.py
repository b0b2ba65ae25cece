"""Individuals: kernels with fitted hyperparameters, and kernels that have yet to be fitted."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from pydantic import BaseModel, ConfigDict, NonNegativeInt

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
    hyperparameters: dict[str, float]
    noise: float
    log_likelihood: float
    bic: float
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

    def to_file(self) -> FittedKernel:
        """Return what files contain of the individual."""
        *hyperparameters, noise = self.natural.tolist()
        return FittedKernel(
            kernel=str(self.tree),
            hyperparameters=dict(zip(self.tree.hyperparameters, hyperparameters, strict=True)),
            noise=noise,
            log_likelihood=self.log_likelihood,
            bic=self.bic,
            outcomes=dict(self.outcomes),
        )

    def to_json(self) -> str:
        """Return the individual as a JSON object."""
        return json.dumps(self.to_file().model_dump())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the individual that :meth:`to_json` wrote.

        Raises
        ------
        InputError
            If the text isn't a JSON object of an individual, the kernel is invalid, or values are
            missing or out of range.
        """
        try:
            file = FittedKernel.model_validate(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"This isn't an evolved kernel: {error}. Give the text that to_json returned."
            ) from None
        return cls.from_file(file)

    @classmethod
    def from_file(cls, file: FittedKernel) -> Self:
        """Return the individual in a file.

        Raises
        ------
        InputError
            If the kernel is invalid, or values are missing or out of range.
        """
        tree = Tree.parse(file.kernel)
        if set(file.hyperparameters) != set(tree.hyperparameters):
            given = ", ".join(file.hyperparameters) or "no hyperparameters"
            needed = ", ".join(tree.hyperparameters) or "none"
            raise InputError(
                f"There are values of {given}; the kernel's hyperparameters are {needed}. "
                "Give one value of each."
            )
        values = [file.hyperparameters[name] for name in tree.hyperparameters]
        natural = np.array([*values, file.noise])
        wrong = ~np.isfinite(natural) | (np.array([*tree.positive, True]) & (natural <= 0))
        if wrong.any():
            name = [*tree.hyperparameters, "noise"][int(np.argmax(wrong))]
            raise InputError(
                f"{name} of {file.kernel} is {natural[np.argmax(wrong)]}. "
                "Give a finite value, positive unless it is a shift."
            )
        if not (file.log_likelihood < math.inf and file.bic > -math.inf):
            raise InputError(
                f"{file.kernel} has the log likelihood {file.log_likelihood} and the BIC "
                f"{file.bic}. Give numbers; {-math.inf} and {math.inf} are for kernels that can't "
                "be evaluated."
            )
        return cls(tree, natural, file.log_likelihood, file.bic, file.outcomes)
