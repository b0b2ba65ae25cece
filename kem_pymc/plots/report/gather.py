"""Read the inputs of a report: the files that commands wrote to a folder, or a posterior."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from kem_pymc._system.spreadsheet import unescape
from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.evolutions.posteriors import read_posterior
from kem_pymc.kernels.composition import Composition
from kem_pymc.selection.online import PREDICTED, QUANTILES

if TYPE_CHECKING:
    from xarray import DataTree

#: Names of the files in a folder of results.
EVOLUTIONS, SETTINGS = "evolutions.json", "settings.json"
POSTERIOR, FINAL, UNSHARED = "posterior.zarr", "final.zarr", "unshared.zarr"
SELECTIONS, PREDICTIONS = "selections.csv", "predictions.csv"

#: Columns that a table of selections must have.
SELECTED = ("user", "time_step", "n_points", "composition")


@dataclass(frozen=True)
class Material:
    """Inputs of a report.

    Attributes
    ----------
    title : str
    evolutions : Evolutions
    idata : DataTree or None
        Posterior of the pilot users.
    final, unshared : DataTree or None
        Posterior of their final kernels, also without what users share.
    settings : dict
        Settings that ``kem fit`` saved; empty if there are none.
    selections : DataFrame or None
        Selected compositions, one row per user and time step; users' labels are text.
    predictions : DataFrame or None
        Predictions of each selection for the points of the next time step.
    """

    title: str
    evolutions: Evolutions
    idata: "DataTree | None" = None
    final: "DataTree | None" = None
    unshared: "DataTree | None" = None
    settings: dict[str, Any] = field(default_factory=dict)
    selections: pd.DataFrame | None = None
    predictions: pd.DataFrame | None = None

    @classmethod
    def of_folder(cls, folder: Path) -> "Material":
        """Read a folder written by ``kem fit`` or ``kem quickstart``, and by ``kem select``.

        Raises
        ------
        InputError
            If the folder contains no evolutions, or a file in it can't be used.
        """
        if not os.path.isdir(folder):
            raise InputError(f"There is no folder {folder}. Give a folder written by kem fit.")
        if not (folder / EVOLUTIONS).is_file():
            raise InputError(
                f"The folder {folder} contains no {EVOLUTIONS}. Give a folder written by kem fit."
            )
        evolutions = Evolutions.load(folder / EVOLUTIONS)
        return cls(
            title=folder.resolve().name,
            evolutions=evolutions,
            idata=_posterior(folder / POSTERIOR, evolutions),
            final=_posterior(folder / FINAL, evolutions),
            unshared=_posterior(folder / UNSHARED, evolutions),
            settings=read_settings(folder),
            selections=_selections(folder / SELECTIONS, evolutions),
            predictions=_table(
                folder / PREDICTIONS, (*PREDICTED, *QUANTILES, *evolutions.features)
            ),
        )


def _posterior(path: Path, evolutions: Evolutions) -> "DataTree | None":
    if not path.exists():
        return None
    idata = read_posterior(path)
    candidates = [str(c) for c in idata["posterior"].coords["candidate"].values]
    if candidates != evolutions.pool.names:
        raise InputError(
            f"The posterior in {path} and {EVOLUTIONS} next to it have different candidates. "
            "Give a folder with the results of one kem fit."
        )
    return idata


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the settings that ``kem fit`` saved in its folder; empty if there are none.

    Raises
    ------
    InputError
        If the file can't be used.
    """
    path = folder / SETTINGS
    if not path.is_file():
        return {}
    with _reading(path):
        settings = json.loads(path.read_text("utf-8"))
        if not isinstance(settings, dict):
            raise ValueError("it contains no settings")
    return settings


def planned_chains(settings: Mapping[str, Any]) -> int | None:
    """Return the number of chains requested; None if the settings don't contain it."""
    try:
        return int(settings["sampler"]["chains"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _selections(path: Path, evolutions: Evolutions) -> pd.DataFrame | None:
    table = _table(path, SELECTED)
    if table is None:
        return None
    # The quickstart writes all compositions considered, the best first.
    table = table.groupby(["user", "time_step"], sort=False, as_index=False).first()
    compositions = {}
    for label in table["composition"].astype(str):
        try:
            compositions[label] = Composition.parse(label, evolutions.pool.dimension)
            evolutions.pool.inclusion(compositions[label])
        except InputError as error:
            raise InputError(
                f"The table of selections contains {label!r}, which isn't a kernel of this study. "
                "Run kem select again with these evolutions, or delete the table."
            ) from error
    return table.assign(composition=table["composition"].astype(str).map(compositions))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise an error with a remedy if a file that may be missing can't be read."""
    try:
        yield
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path} can't be read ({error}). Restore it, or delete it to continue without it."
        ) from error


def _table(path: Path, columns: tuple[str, ...]) -> pd.DataFrame | None:
    if not path.is_file():
        return None
    with _reading(path):
        table = unescape(pd.read_csv(path, dtype={"user": str}))
    missing = [name for name in columns if name not in table]
    if missing or table.empty:
        what = f"lacks the columns {', '.join(missing)}" if missing else "is empty"
        raise InputError(f"{path} {what}. Write it again with kem select, or delete it.")
    return table
