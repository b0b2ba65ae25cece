"""Posteriors that ``kem fit`` writes, with a hash of their content: writing, and validation."""

import json
from hashlib import sha256
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np

from kem_pymc.errors import InputError
from kem_pymc.evolutions.files import content_hash
from kem_pymc.evolutions.from_posterior import DATASET, DRAW, study_settings
from kem_pymc.kernels.pool import CandidatePool

if TYPE_CHECKING:
    from xarray import DataTree

#: Required variables, with their dimensions and the kinds of their dtypes.
VARIABLES = {
    "assignment": (DATASET, "iu"),
    "inclusion": ((*DATASET, "candidate"), "iub"),
    "hyperparameters": ((*DATASET, "hyperparameter"), "f"),
    "noise": (DATASET, "f"),
    "dataset_log_likelihood": (DATASET, "f"),
    "n_clusters": (DRAW, "iu"),
    "log_joint": (DRAW, "f"),
}


#: Attribute with the hash of the content.
HASH = "sha256"


def write_posterior(idata: "DataTree", path: Path) -> None:
    """Write the posterior of an ``EvolutionModel``, with a hash of its content, to a folder."""
    hashed = idata.copy()
    hashed.attrs = {**idata.attrs, HASH: _hash(idata)}
    hashed.to_zarr(path)


def _hash(idata: "DataTree") -> str:
    """Return a hash of all values, labels and attributes but itself."""
    content: dict[str, Any] = {}
    for node in idata.subtree:
        content[node.path] = _plain({k: value for k, value in node.attrs.items() if k != HASH})
        for name, variable in node.dataset.variables.items():
            values = variable.values
            if values.dtype.kind == "M":  # Zarr may keep dates in another unit, and text as another
                values = values.astype("M8[ns]").astype(int)
            numbers = values.dtype.kind in "biuf"
            text = "" if numbers else "\0".join(map(str, values.flat))
            kind = values.dtype.str if numbers else "text"
            data = np.ascontiguousarray(values) if numbers else text.encode("utf-8", "replace")
            digest = sha256(data).hexdigest()
            shape = [variable.dims, variable.shape, kind]
            content[f"{node.path}/{name}"] = [*shape, digest, _plain(variable.attrs)]
    return content_hash(content)


def _plain(attributes: dict[Any, Any]) -> str:
    """Return attributes as JSON, in which files contain them."""
    return json.dumps(attributes, sort_keys=True, default=lambda value: np.asarray(value).tolist())


def read_posterior(path: Path) -> "DataTree":
    """Read the posterior of an ``EvolutionModel`` from the folder that ``kem fit`` wrote.

    Raises
    ------
    InputError
        If the posterior can't be read, was changed, or isn't valid; the message states why.
    """
    import xarray as xr

    try:
        with xr.open_datatree(path, engine="zarr") as opened:
            idata = opened.load()
    except Exception as error:  # for a damaged store, Zarr can raise almost any exception
        raise _unreadable(path, str(error)) from error
    try:
        given = idata.attrs.pop(HASH, None)
        if given is None:
            raise ValueError(
                "it has no hash of its content, so kem fit of this version didn't write it"
            )
        if given != _hash(idata):
            raise ValueError("it was changed after it was written")
        settings = study_settings(idata)
        pool = CandidatePool(settings["pool"], settings["dimension"])
        fault = _fault(idata, pool)
    except Exception as error:  # labels are decoded from bytes when they are used, which can fail
        raise _unreadable(path, str(error).split(". ")[0]) from error
    if fault:
        raise _unreadable(path, fault)
    return idata


def _unreadable(path: Path, reason: str) -> InputError:
    why = shorten(reason, 300).rstrip(".").replace(". ", ", ")
    return InputError(
        f"The posterior in {path} can't be read ({why}). Restore it, or run kem fit again."
    )


def _fault(idata: "DataTree", pool: CandidatePool) -> str:
    """Return what is wrong with the draws, as text; "" if they are valid."""
    if "posterior" not in idata.children:
        return "it has no group posterior"
    posterior = idata["posterior"]
    arrays: dict[str, np.ndarray] = {}
    for name, (dims, kinds) in VARIABLES.items():
        if name not in posterior:
            return f"it lacks {name}"
        variable: Any = posterior[name]
        if set(variable.dims) != set(dims) or variable.dtype.kind not in kinds:
            return f"{name} has dimensions {variable.dims} and type {variable.dtype}"
        arrays[name] = variable.transpose(*dims).values
    expected = {
        "candidate": pool.names,
        "hyperparameter": [h.name for h in pool.hyperparameters],
    }
    for name, labels in expected.items():
        present = posterior.coords[name].values if name in posterior.coords else ()
        if [str(label) for label in present] != labels:
            return f"its labels of {name} aren't those of its settings"
    for name in DATASET:
        if name not in posterior.coords:
            return f"it lacks labels of {name}"
    if not arrays["log_joint"].size:
        return "it contains no draws"
    return _fault_of_draws(arrays, pool)


def _fault_of_draws(arrays: dict[str, np.ndarray], pool: CandidatePool) -> str:
    assignment, inclusion = arrays["assignment"], arrays["inclusion"]
    flat = assignment.reshape(*assignment.shape[:2], -1)
    here = flat >= 0
    first = np.take_along_axis(flat, np.clip(flat, 0, flat.shape[-1] - 1), axis=-1)
    if flat.max() >= flat.shape[-1] or flat.min() < -1 or (first != flat)[here].any():
        return "assignment refers to datasets that don't represent a cluster"
    if not here.any() or (here != here[:1, :1]).any():
        return "assignment has no datasets, or not the same ones in every draw"
    if inclusion.min() < 0 or inclusion.max() > 1:
        return "inclusion has values other than 0 and 1"
    noise = arrays["noise"][assignment >= 0]
    if not (np.isfinite(noise) & (noise > 0)).all():
        return "noise has values that aren't positive numbers"
    counts = [len(c.hyperparameters) for c in pool]
    active = np.repeat(inclusion.astype(bool), counts, axis=-1) & (assignment >= 0)[..., None]
    positive = np.array([h.positive for h in pool.hyperparameters])
    values = arrays["hyperparameters"]
    with np.errstate(invalid="ignore"):
        wrong = active & ~(np.isfinite(values) & ((values > 0) | ~positive))
    return "hyperparameters has values that are out of range" if wrong.any() else ""
