"""Adam (Kingma and Ba 2015) by PyMC's updates, begun anew for every training."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor
from pymc.variational.updates import adam


class Adam:
    """A compiled step of Adam.

    Parameters
    ----------
    loss : scalar tensor variable
    parameters : sequence of shared variables
    inputs : sequence of tensor variables
        Inputs of a step.
    shown : tensor variable, optional
        What a step returns, before the update; by default the loss.
    """

    def __init__(
        self,
        loss: Any,
        parameters: Sequence[Any],
        inputs: Sequence[Any] = (),
        shown: Any = None,
    ) -> None:
        self.parameters = list(parameters)
        self._rate = pytensor.shared(0.0)
        updates = adam(loss, self.parameters, learning_rate=self._rate)
        # Each parameter comes after its two moments; the last variable counts steps.
        self._moments: list[list[Any]] = [[]]
        for variable in updates:
            if variable in self.parameters:
                self._moments.append([])
            else:
                self._moments[-1].append(variable)
        shown = loss if shown is None else shown
        self.step = pytensor.function(list(inputs), shown, updates=updates)

    def begin(self, values: Sequence[np.ndarray], rate: float) -> None:
        """Set the parameters and the learning rate, and forget earlier steps."""
        *of_parameters, counts = self._moments
        for parameter, moments, value in zip(self.parameters, of_parameters, values, strict=True):
            parameter.set_value(value)
            for moment in moments:
                moment.set_value(np.zeros_like(value))
        for count in counts:
            count.set_value(np.zeros_like(count.get_value()))
        self._rate.set_value(rate)

    def values(self) -> list[np.ndarray]:
        """Return the parameters."""
        return [parameter.get_value() for parameter in self.parameters]
