"""Input and output of the functions that make figures and tables."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from kem_pymc.comparison.settings import Settings
from kem_pymc.comparison.store import Store
from kem_pymc.comparison.task import Task


@dataclass(frozen=True)
class Evidence:
    """Results of tasks from which a figure is made.

    Attributes
    ----------
    settings : Settings
    tasks : list of Task
        Tasks that the figure needs; their results are stored.
    store : Store
    """

    settings: Settings
    tasks: list[Task]
    store: Store

    @cached_property
    def selections(self) -> pd.DataFrame:
        """Selections, with one row for every study, trial, method, user and time step.

        Studies and methods are in the order of the settings. The column ``person`` identifies
        distinct users: in studies where every trial has different users, it also contains the
        trial.
        """
        table = self.store.selections(self.tasks)
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
        """Return a random number generator for a bootstrap, in the same state for every table."""
        return np.random.default_rng(0)

    def title(self, study: str) -> str:
        """Return the title of a study."""
        return self.settings.studies[study].title


@dataclass
class Output:
    """A figure, its tables, and the values from which they were made.

    Attributes
    ----------
    tidy : DataFrame
        Values that are drawn or counted, one in each row.
    figure : Figure or None
        The figure, if there is one.
    tables : dict of str to DataFrame
        Formatted tables for readers, by title.
    notes : list of str
        Explanations for readers.
    """

    tidy: pd.DataFrame
    figure: Figure | None = None
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
