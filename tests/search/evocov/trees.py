"""Kernels of tests: one for every primitive, and the well-known ones of table 1."""

import numpy as np

SE = "multiply(square(hp(h0)), exp(multiply(-0.5, sq_dist(euc(x), h1))))"

#: For every primitive a tree whose value and gradient depend on it.
PRIMITIVES = {
    "euc": "sq_dist(euc(x), h0)",
    "spectral": "sq_dist(spectral(x, h0), h1)",
    "sq_dist": "exp(sq_dist(spectral(x, h0), h0))",
    "dot_prod": "dot_prod(euc(x), h0, h1)",
    "dot_prod of spectral": "dot_prod(spectral(x, h0), h1, h2)",
    "dot_prod, one for all": "dot_prod(spectral(x, h0), h0, h0)",
    "hp": "hp(h0)",
    "hp, shared": "multiply(hp(h0), add(hp(h0), sq_dist(euc(x), h0)))",
    "power": "power(sq_dist(euc(x), h0), h1)",
    "power of a constant": "power(3.0, h0)",
    "add": "add(sq_dist(euc(x), h0), hp(h1))",
    "multiply": "multiply(sq_dist(euc(x), h0), dot_prod(euc(x), h1, h2))",
    "add, twice the same": "add(sq_dist(euc(x), h0), sq_dist(euc(x), h0))",
    "multiply, twice the same": "multiply(dot_prod(euc(x), h0, h1), dot_prod(euc(x), h0, h1))",
    "div": "div(add(1.0, sq_dist(euc(x), h0)))",
    "exp": "exp(multiply(-0.5, sq_dist(euc(x), h0)))",
    "sqrt": "sqrt(sq_dist(euc(x), h0))",
    "square": "square(dot_prod(euc(x), h0, h1))",
    "two frequencies": "add(sq_dist(spectral(x, h0), h1), dot_prod(spectral(x, h2), h3, h0))",
}

_ROOT_3 = "sqrt(multiply(3.0, sq_dist(euc(x), h1)))"
_ROOT_5 = "sqrt(multiply(5.0, sq_dist(euc(x), h1)))"


def _product(text: str) -> str:
    return f"multiply(square(hp(h0)), {text})"


def _distance(x: np.ndarray, lengthscale: float) -> np.ndarray:
    return np.linalg.norm(x[:, None] - x[None], axis=-1) / lengthscale


def _m32(x, a, scale):
    r = np.sqrt(3) * _distance(x, scale)
    return a**2 * (1 + r) * np.exp(-r)


def _m52(x, a, scale):
    r = np.sqrt(5) * _distance(x, scale)
    return a**2 * (1 + r + r**2 / 3) * np.exp(-r)


#: Table 1: tree, closed form of inputs (n, 1) and hyperparameters, and values of these.
TABLE_1 = {
    "constant": ("hp(h0)", lambda x, c: np.full((len(x), len(x)), c), [0.7]),
    "exponential": (
        _product("exp(multiply(-1.0, sqrt(sq_dist(euc(x), h1))))"),
        lambda x, a, scale: a**2 * np.exp(-_distance(x, scale)),
        [1.3, 0.4],
    ),
    "gamma-exponential": (
        _product("exp(multiply(-1.0, power(sqrt(sq_dist(euc(x), h1)), h2)))"),
        lambda x, a, scale, g: a**2 * np.exp(-(_distance(x, scale) ** g)),
        [0.8, 0.3, 1.4],
    ),
    "squared exponential": (
        SE,
        lambda x, a, scale: a**2 * np.exp(-0.5 * _distance(x, scale) ** 2),
        [1.1, 0.2],
    ),
    "Matérn 3/2": (
        _product(f"multiply(add(1.0, {_ROOT_3}), exp(multiply(-1.0, {_ROOT_3})))"),
        _m32,
        [0.9, 0.5],
    ),
    "Matérn 5/2": (
        _product(
            f"multiply(add(add(1.0, {_ROOT_5}), multiply(multiply(5.0, div(3.0)), "
            f"sq_dist(euc(x), h1))), exp(multiply(-1.0, {_ROOT_5})))"
        ),
        _m52,
        [0.9, 0.5],
    ),
    "rational quadratic": (
        _product(
            "div(power(add(1.0, multiply(multiply(0.5, div(hp(h2))), sq_dist(euc(x), h1))), h2))"
        ),
        lambda x, a, shape, scale: a**2 * (1 + _distance(x, scale) ** 2 / (2 * shape)) ** -shape,
        [1.2, 0.8, 0.3],
    ),
    "periodic": (
        _product("exp(multiply(-0.5, sq_dist(spectral(x, h1), h2)))"),
        lambda x, a, w, p: (
            a**2 * np.exp(-2 * np.sin(np.pi * _distance(x, 2 * np.pi / w)) ** 2 / p**2)
        ),
        [1.2, 20.0, 0.9],
    ),
    "linear": (
        "dot_prod(euc(x), h0, h1)",
        lambda x, s, scale: (x - s) * (x - s).T / scale,
        [-0.4, 0.6],
    ),
}
