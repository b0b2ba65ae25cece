"""What a figure is made of, and what comes of it."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from kem_pymc.experiments.piece import Piece
from kem_pymc.experiments.settings import Settings
from kem_pymc.experiments.store import Store


@dataclass(frozen=True)
class Evidence:
    """Pieces that are there, for a figure to be made of.

    Attributes
    ----------
    settings : Settings
    pieces : list of Piece
        Those that the figure asked for.
    store : Store
    """

    settings: Settings
    pieces: list[Piece]
    store: Store

    @cached_property
    def selections(self) -> pd.DataFrame:
        """One row for every study, trial, method, user and time step; methods in their order.

        ``person`` is a label for the user that no other user has: where every trial makes users of
        its own, users of two trials are two persons.
        """
        table = self.store.selections(self.pieces)
        own = [name for name, study in self.settings.studies.items() if study.users == "new"]
        table["person"] = table["user"].mask(
            table["study"].isin(own), table["trial"].astype(str) + ": " + table["user"]
        )
        order = {name: place for place, name in enumerate(self.settings.methods)}
        studies = {name: place for place, name in enumerate(self.settings.studies)}
        places = pd.DataFrame(
            {"study": table["study"].map(studies), "method": table["method"].map(order)}
        )
        return table.loc[places.sort_values(["study", "method"], kind="stable").index]

    def generator(self) -> np.random.Generator:
        """Return the random numbers of a bootstrap: the same for every table."""
        return np.random.default_rng(0)

    def title(self, study: str) -> str:
        """Return how a study is called."""
        return self.settings.studies[study].title


@dataclass
class Output:
    """A figure or table, with the values behind it.

    Attributes
    ----------
    tidy : DataFrame
        What is drawn or counted, one value in each row.
    figure : Figure or None
    tables : dict of str to DataFrame
        By title, for people to read.
    notes : list of str
        What a reader should know.
    """

    tidy: pd.DataFrame
    figure: Figure | None = None
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
