"""Study files: Python files that define the data, candidates, priors and model of a study.

They are run as any program, with all rights of the user: nothing in them is checked before.
"""

import runpy
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from kem_pymc.data.cohort import Cohort
    from kem_pymc.model.evolution_model import EvolutionModel

#: Arguments of ``pm.sample`` that a study's ``sampler`` may contain.
SAMPLER = ("draws", "tune", "chains", "cores", "random_seed")


@dataclass(frozen=True)
class StudyFile:
    """Definitions of a study file.

    Attributes
    ----------
    model : EvolutionModel
        Model of the pilot users.
    test : Cohort or None
        New users to select kernels for.
    sampler : dict
        Arguments of ``pm.sample``.
    """

    model: "EvolutionModel"
    test: "Cohort | None" = None
    sampler: dict[str, Any] = field(default_factory=dict)


def load_study(path: Path) -> StudyFile:
    """Run a study file and return its ``model`` and, if defined, ``test`` and ``sampler``.

    Raises
    ------
    InputError
        If the file is missing, raises an error, lacks a model, or defines an invalid ``test`` or
        ``sampler``.
    """
    if path.suffix != ".py":
        raise InputError(f"{path} isn't a Python file. Give a study file, or a table with --data.")
    if not path.is_file():
        raise InputError(f"There is no study file {path}. Write one with `kem init {path.name}`.")
    from kem_pymc.data.cohort import Cohort
    from kem_pymc.model.evolution_model import EvolutionModel

    names = _run(path)
    model, test, sampler = names.get("model"), names.get("test"), names.get("sampler", {})
    if not isinstance(model, EvolutionModel):
        raise InputError(
            f"{path} defines no model. Add model = kem.EvolutionModel(cohort, pool, priors)."
        )
    if not isinstance(test, Cohort | None):
        raise InputError(f"test in {path} isn't a cohort. Set it to a kem.Cohort of new users.")
    if not isinstance(sampler, dict) or not set(sampler) <= set(SAMPLER):
        raise InputError(
            f"sampler in {path} is {sampler!r}. Set it to a dict "
            f"with some of the keys {', '.join(SAMPLER)}."
        )
    return StudyFile(model, test, sampler)


def _run(path: Path) -> dict[str, Any]:
    """Run a file as a module and return its names.

    Its folder comes first in ``sys.path``, as if Python ran it, so it can import what is beside it.
    The module isn't registered in ``sys.modules``, so its functions are sent to other processes by
    value.
    """
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return runpy.run_path(str(path))
    except InputError:
        raise  # the message already says what to do
    except SyntaxError as error:
        raise InputError(
            f"{path} isn't valid Python in line {error.lineno}: {error.msg}. Correct the line."
        ) from error
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next(f.lineno for f in reversed(frames) if f.filename == str(path))
        raise InputError(
            f"{path} fails in line {line}: {type(error).__name__}: {error}. Correct the line."
        ) from error
