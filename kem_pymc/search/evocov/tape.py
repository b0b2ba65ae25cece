"""Lowering of expression trees to tapes, the programs that compiled code interprets.

A tape is a list of operations, operands first. Equal subtrees are one operation. Operations that
don't depend on the points come first: they are done once, not for every block of pairs.
"""

from typing import Any, NamedTuple

import numpy as np

from kem_pymc.search.evocov.tree import Tree, is_hyperparameter

# Operations. Those from ADD on have one or two other operations as operands.
CONSTANT, HYPERPARAMETER, DISTANCE, PRODUCT = range(4)
ADD, MULTIPLY, POWER, INVERSE, EXP, ROOT, SQUARE = range(4, 11)

#: Operations by the names of primitives whose arguments are all covariances.
OPERATIONS = {
    "add": ADD,
    "multiply": MULTIPLY,
    "div": INVERSE,
    "exp": EXP,
    "sqrt": ROOT,
    "square": SQUARE,
}

#: Operations that depend on the points.
OF_POINTS = (DISTANCE, PRODUCT)


class Tape(NamedTuple):
    """A kernel as arrays, for compiled code. The last operation gives the covariance.

    Attributes
    ----------
    code : (m, 6) int64
        Of each operation: which it is; its first and second operand, as rows of the tape, which are
        equal if it has only one; the place of its hyperparameter or lengthscale among the k of the
        tree; that of its shift; and the number of its frequency in `frequencies`, from 1 on, zero
        for the inputs themselves. Zero where it has none.
    constants : (m,) float64
        Values of constants.
    frequencies : (s,) int64
        Places of the hyperparameters that are frequencies of spectral features.
    uniform : int
        Number of operations that don't depend on the points, the first ones.
    positive : (k,) bool
        Which hyperparameters are positive: their coordinates are logs.
    """

    code: np.ndarray
    constants: np.ndarray
    frequencies: np.ndarray
    uniform: int
    positive: np.ndarray


def lower(tree: Tree) -> Tape:
    """Return the tape of a tree."""
    places = {name: i for i, name in enumerate(tree.hyperparameters)}
    builder = _Builder()
    stack: list[Any] = []
    for node in reversed(tree):
        given = [stack.pop() for _ in range(node.arity)]
        if is_hyperparameter(node):
            stack.append(places[node.name])
        elif node.name == "x" or node.name == "euc":
            stack.append(0)
        elif node.name == "spectral":
            stack.append(builder.waves.setdefault(given[1], len(builder.waves) + 1))
        elif node.name == "sq_dist":
            wave, lengthscale = given
            stack.append(builder.row(DISTANCE, place=lengthscale, wave=wave))
        elif node.name == "dot_prod":
            wave, shift, lengthscale = given
            stack.append(builder.row(PRODUCT, place=lengthscale, shift=shift, wave=wave))
        elif node.name == "hp":
            stack.append(builder.row(HYPERPARAMETER, place=given[0]))
        elif node.name == "power":
            base, exponent = given
            stack.append(builder.row(POWER, base, place=exponent))
        elif node.arity == 0:
            stack.append(builder.row(CONSTANT, constant=node.value))
        else:  # sums and products don't depend on the order of their operands
            stack.append(builder.row(OPERATIONS[node.name], *sorted(given)))
    return builder.tape(np.array(tree.positive, dtype=np.bool_))


class _Builder:
    """Rows of a tape, each once."""

    def __init__(self) -> None:
        self.rows: dict[tuple, int] = {}
        self.of_points: list[bool] = []
        self.waves: dict[int, int] = {}

    def row(
        self,
        kind: int,
        first: int = 0,
        second: int | None = None,
        *,
        place: int = 0,
        shift: int = 0,
        wave: int = 0,
        constant: float = 0.0,
    ) -> int:
        """Return the number of a row, which is added if it is new."""
        second = first if second is None else second
        key = (kind, first, second, place, shift, wave, constant)
        if key not in self.rows:
            self.rows[key] = len(self.rows)
            depends = kind >= ADD and (self.of_points[first] or self.of_points[second])
            self.of_points.append(kind in OF_POINTS or depends)
        return self.rows[key]

    def tape(self, positive: np.ndarray) -> Tape:
        """Return the tape, with the operations that don't depend on the points first."""
        order = np.argsort(self.of_points, kind="stable")
        new = np.argsort(order)  # rows by their old numbers
        keys = list(self.rows)
        code = np.array([keys[i][:6] for i in order], dtype=np.int64)
        with_operands = code[:, 0] >= ADD
        code[with_operands, 1:3] = new[code[with_operands, 1:3]]
        return Tape(
            code=code,
            constants=np.array([keys[i][6] for i in order]),
            frequencies=np.array(list(self.waves), dtype=np.int64),
            uniform=len(order) - sum(self.of_points),
            positive=positive,
        )
