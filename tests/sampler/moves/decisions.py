"""Run moves in the interpreter, and see with what log ratios they decide.

All moves accept where ``math.log(rng.random()) < log_ratio``. In the interpreter the generator and
the logarithm are those of this module, which record the right side and give the answer. So a ratio
that no function returns can be compared with one computed by brute force, and a proposal that would
hardly ever be accepted can be, to go back from where it leads.
"""

import math
from collections.abc import Callable, Iterable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kem_pymc.model.engine import Engine
from kem_pymc.sampler import state as state_functions
from kem_pymc.sampler.moves import kernel_change
from kem_pymc.sampler.moves.sweep import JOINT, check_density


class Uniform(float):
    """A uniform draw that knows the generator it comes from."""

    source: "Decisions"


class LogUniform(float):
    """Its logarithm, which leaves comparisons to the generator."""

    source: "Decisions"

    def __lt__(self, log_ratio: float) -> bool:
        return self.source.decide(float(log_ratio))


class Decisions(np.random.Generator):
    """A generator that records what the logs of its uniform draws are compared with.

    Compiled functions draw from it as from any other; what is written here holds for draws made in
    the interpreter.

    Attributes
    ----------
    uniforms, normals : list of float
        The first draws; later ones are random. Draws are recorded in `drawn` and `stepped`.
    answers : list of bool
        The first decisions; later ones are to accept.
    orders : list of (k,) int64
        The first permutations.
    log_ratios : list of float
        What decisions have compared with.
    """

    def __init__(
        self,
        seed: int,
        uniforms: Iterable[float] = (),
        normals: Iterable[float] = (),
        answers: Iterable[bool] = (),
        orders: Iterable[np.ndarray] = (),
    ) -> None:
        super().__init__(np.random.PCG64(seed))
        self.uniforms, self.normals = list(uniforms), list(normals)
        self.answers, self.orders = list(answers), list(orders)
        self.drawn: list[float] = []
        self.stepped: list[float] = []
        self.log_ratios: list[float] = []

    def random(self) -> Uniform:
        draw = Uniform(self.uniforms.pop(0) if self.uniforms else super().random())
        draw.source = self
        self.drawn.append(float(draw))
        return draw

    def normal(self) -> float:
        self.stepped.append(self.normals.pop(0) if self.normals else super().normal())
        return self.stepped[-1]

    def permutation(self, x: np.ndarray) -> np.ndarray:
        return self.orders.pop(0) if self.orders else super().permutation(x)

    def decide(self, log_ratio: float) -> bool:
        self.log_ratios.append(log_ratio)
        return self.answers.pop(0) if self.answers else True


def _log(x: float) -> float:
    if not isinstance(x, Uniform):
        return math.log(x) if x > 0 else -math.inf
    log = LogUniform(math.log(x) if x > 0 else -math.inf)
    log.source = x.source
    return log


_MATH = SimpleNamespace(**{**vars(math), "log": _log})


@pytest.fixture
def interpret(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> Callable[..., None]:
    """Return what lets the functions of modules run in the interpreter during a test.

    What other modules have imported from these stays compiled, or is to be called before: it can't
    be compiled while what it calls is interpreted.

    With `state`, what changes states is interpreted as well: to compile each of these functions for
    Python would take longer than the test.
    """
    check_density(engine.model, engine.load(engine.model, *engine.simplest(), schedule=JOINT))

    def functions_of(*modules: ModuleType, state: bool = False) -> None:
        if state:
            modules = (*modules, state_functions, kernel_change)
        names = {module.__name__ for module in modules}
        for module in modules:
            monkeypatch.setattr(module, "math", _MATH, raising=False)
            for name, value in list(vars(module).items()):
                function: Any = getattr(value, "py_func", None)
                if function is not None and function.__module__ in names:
                    monkeypatch.setattr(module, name, function)

    return functions_of
