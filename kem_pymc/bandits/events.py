"""What happens to a bandit, as lines of its file: choices, observations and what isn't played."""

from typing import Annotated, NamedTuple

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter

from kem_pymc._system.files import STRICT
from kem_pymc.data.validation import LARGEST

#: A number in a line of the file of events.
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]


class _BanditLine(BaseModel):
    model_config = STRICT


class Asked(_BanditLine):
    """The point `ask` was chosen in a context."""

    ask: list[Number]
    context: list[Number] = []


class Observed(_BanditLine):
    """Components and a value, None without an observation, were observed at the point `tell`.

    They are those of a new round, or replace the observations of the round `number`.
    """

    tell: list[Number]
    components: list[Number | None]
    value: Number | None
    context: list[Number] = []
    number: int | None = Field(default=None, ge=1)


class Dropped(_BanditLine):
    """The point `drop`, which was chosen in a context, isn't played."""

    drop: list[Number]
    context: list[Number] = []


type Event = Asked | Observed | Dropped

#: What a line of the file of events contains.
EVENT: TypeAdapter[Event] = TypeAdapter(Asked | Observed | Dropped)


class Round(NamedTuple):
    """One round.

    Attributes
    ----------
    x : ndarray, shape (D,)
    components : ndarray, shape (J,)
        NaN where a component wasn't observed.
    value : float
        NaN if it wasn't observed.
    context : ndarray, shape (C,)
    """

    x: np.ndarray
    components: np.ndarray
    value: float
    context: np.ndarray

    @property
    def inputs(self) -> np.ndarray:
        """Inputs of the components (C + D,)."""
        return np.append(self.context, self.x)
