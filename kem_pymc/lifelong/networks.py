"""Feature maps: networks with three layers of tanh units, all of one size (section 3.1)."""

from typing import Any

import numpy as np
import pytensor.tensor as pt

#: Number of layers.
LAYERS = 3

#: Gain of tanh units: the inverse of how much they shrink activations of a standard deviation of 1.
GAIN = 5 / 3

#: Standard deviation of the first biases.
BIAS = 0.5


def sizes(columns: int, units: int) -> list[tuple[int, int]]:
    """Return the shapes of the weights of the layers, with a row for the biases."""
    return [(columns + 1, units), *((LAYERS - 1) * [(units + 1, units)])]


def draw(networks: int, columns: int, units: int, rng: np.random.Generator) -> np.ndarray:
    """Return random weights of networks (M, P) before training.

    Activations keep their scale from layer to layer, and biases spread the bends of the units.
    """
    parts = []
    for layer, (rows, out) in enumerate(sizes(columns, units)):
        scale = (GAIN if layer else 1.0) / np.sqrt(rows - 1)
        drawn = scale * rng.normal(size=(networks, rows, out))
        drawn[:, -1] = BIAS * rng.normal(size=(networks, out))
        parts.append(drawn.reshape(networks, -1))
    return np.concatenate(parts, axis=1)


def features(weights: np.ndarray, rows: np.ndarray, units: int) -> np.ndarray:
    """Return the features (M, n, units) of encoded points (n, D), by weights (M, P).

    Points are moved from [0, 1] to [-1, 1].
    """
    values = np.broadcast_to(2.0 * rows - 1.0, (len(weights), *rows.shape))
    for layer in _layers(weights, rows.shape[1], units):
        values = np.tanh(values @ layer[:, :-1] + layer[:, -1:])
    return values


def features_in_pytensor(weights: Any, rows: Any, columns: int, units: int) -> Any:
    """Return the features as a PyTensor expression; see :func:`features`."""
    # With one column a product is rewritten to one that broadcasts, for which shapes are needed.
    points = pt.specify_shape(2.0 * rows - 1.0, (None, columns))
    values: Any = pt.broadcast_to(points, (weights.shape[0], rows.shape[0], columns))
    for layer in _layers(weights, columns, units):
        values = pt.tanh(pt.matmul(values, layer[:, :-1]) + layer[:, -1][:, None, :])
    return values


def _layers(weights: Any, columns: int, units: int) -> list[Any]:
    """Return the weights (M, rows, units) of each layer."""
    layers, first = [], 0
    for rows, out in sizes(columns, units):
        part = weights[:, first : first + rows * out]
        layers.append(part.reshape((weights.shape[0], rows, out)))
        first += rows * out
    return layers
