"""Jobs of ``kem fit``: the request, kept in the run's folder so that a killed run can resume."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt

from kem_pymc._system.files import read_part_of_run, write_atomically
from kem_pymc.cli.folders import EVOLUTIONS, LOCK
from kem_pymc.cli.tables import Names, Table
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from kem_pymc.data.cohort import Cohort
    from kem_pymc.data.scaling import Scaling
    from kem_pymc.kernels.pool import CandidatePool
    from kem_pymc.model.evolution_model import EvolutionModel

#: Names in the folder of a run: the job file, a copy of the study file, and the draft of results.
NAME, COPY, DRAFT = "fit.json", "study.py", "results"

#: File in the folder of results with the settings of the fit, for users to read.
SETTINGS = "settings.json"

#: Patterns of the names that commands write to the folder of a run.
OWN = (
    *(NAME, COPY, DRAFT, LOCK, ".lock", "run.json", "chain-[0-9]*", "final", "unshared"),
    *("relearn.json", ".relearn.json.*", "half-[0-9]"),
    *(f".{NAME}.*", ".run.json.*"),  # left by processes that were killed while writing
)

SCHEMA_VERSION = 2

#: Default arguments of the sampler, if neither the study file nor the command line gives them.
SAMPLER = {"draws": 300, "tune": 300, "chains": 4, "random_seed": 0}


class Job(Table, frozen=True):
    """A request to ``kem fit``: the options of the command line, by name, and where it was typed.

    Attributes
    ----------
    schema_version : int
    kem_pymc : str
        Version of kem_pymc that wrote the file.
    study, data : Path or None
        The study file or the table; one of them is None.
    out : Path
        Folder of the results.
    directory : str
        Working directory of the command, to which paths are relative, also those in study files.
    command : str
        Command line as typed.
    """

    schema_version: Literal[2] = 2
    kem_pymc: str = Field(default_factory=lambda: version("kem-pymc"))
    study: Path | None = None
    transform: Literal["sqrt", "log", "log1p", "yeo-johnson"] | None = None
    candidates: Names = None
    base: Names = None
    interactions: bool = False
    shared: str | None = None
    feedback: Literal["cut", "joint"] | None = None
    draws: PositiveInt | None = None
    tune: NonNegativeInt | None = None
    chains: PositiveInt | None = None
    cores: PositiveInt | None = None
    seed: NonNegativeInt | None = None
    out: Path
    directory: str = Field(min_length=1)
    command: str

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Return the job that the current command line requests by its options."""
        typed = shlex.join(["kem", *sys.argv[1:]])
        return super().from_options({**options, "directory": os.getcwd(), "command": typed})

    @classmethod
    def load(cls, run: Path) -> Self:
        """Return the job of the run in a folder.

        Raises
        ------
        InputError
            If its file can't be read, has another format, or an invalid entry.
        """
        return read_part_of_run(cls, run / NAME, SCHEMA_VERSION, "kem_pymc")

    def save(self, run: Path) -> None:
        """Create the folder of a run, and write this job and a copy of the study file to it.

        Raises
        ------
        InputError
            If the folder can't be written to.
        """
        try:
            run.mkdir(parents=True, exist_ok=True)
            if self.study is not None:
                shutil.copy(self.study, run / COPY)
            write_atomically(run / NAME, self.model_dump_json(indent=2).encode())
        except OSError as error:
            raise InputError(
                f"The folder {run} can't be written to ({error.strerror}). "
                "Choose another with --out."
            ) from error

    def may_replace(self, out: Path) -> bool:
        """Return whether results in a folder are of this job, or this job may replace them."""
        if "--overwrite" in self.command.split():
            return True
        try:
            written = json.loads((out / SETTINGS).read_text("utf-8"))["command"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return False
        return (out / EVOLUTIONS).is_file() and bool(written == self.command)

    def read(self) -> "tuple[EvolutionModel, dict[str, Any]]":
        """Read the study file, or read the table and learn what its users share.

        Returns
        -------
        model : EvolutionModel
        sampler : dict
            Arguments of the sampler.

        Raises
        ------
        InputError
            If a file or the working directory is missing, or a file can't be used.
        """
        from kem_pymc.cli.study import load_study

        if not os.path.isdir(self.directory):  # False for names that no file may have
            raise InputError(
                f"The folder {self.directory}, in which the run was started, doesn't exist. "
                "Restore it, with the data in it."
            )
        of_study: dict[str, Any] = {}
        with chdir(self.directory):
            if self.study is None:
                model = self._model()
            else:
                study = load_study(self.study)
                model, of_study = study.model, study.sampler
        options = self.model_dump(include={"draws", "tune", "chains", "cores"})
        options["random_seed"] = self.seed
        given = {name: value for name, value in options.items() if value is not None}
        return model, SAMPLER | of_study | given

    def pool(self, cohort: "Cohort") -> "CandidatePool":
        """Return the requested candidates, by default those of `kem_pymc.datasets.default_pool`.

        Raises
        ------
        InputError
            If candidates are given in two ways, or one of them isn't valid.
        """
        from kem_pymc.data.categories import suits
        from kem_pymc.data.datasets import default_pool
        from kem_pymc.kernels.pool import CandidatePool

        if self.candidates is not None:
            if self.base is not None or self.interactions:
                raise InputError(
                    "The candidates are given twice. Use either --candidates, or --base and "
                    "--interactions."
                )
            return CandidatePool(self.candidates, cohort.dimension)
        if self.base is None:
            return default_pool(cohort, self.interactions)
        pool = CandidatePool.from_base(self.base, cohort.dimension, self.interactions)
        return CandidatePool([c for c in pool if suits(c, cohort)], cohort.dimension)

    def scaling(self, cohort: "Cohort") -> "Scaling | None":
        """Return the scaling with the requested transform of the target; None without a transform.

        Raises
        ------
        InputError
            If a target can't be transformed.
        """
        from kem_pymc.data.scaling import Scaling

        return None if self.transform is None else Scaling.unit(cohort, self.transform)

    def _model(self) -> "EvolutionModel":
        """Read the table, learn what its users share, and return the model."""
        from kem_pymc.model.evolution_model import EvolutionModel

        cohort = self.cohort()
        pool, scaling, feedback = self.pool(cohort), self.scaling(cohort), self.feedback or "cut"
        if self.shared == "none":
            return EvolutionModel(cohort, pool, scaling=scaling, feedback=feedback)
        shared = self.shared or "auto"
        return EvolutionModel.from_cohort(
            cohort, pool, scaling=scaling, shared=shared, feedback=feedback
        )


def run_folder(out: Path) -> Path:
    """Return the folder of the run whose results go to `out`: next to it, ending in .run."""
    return out.with_name(f"{out.name}.run")


def find_run(path: Path) -> Path:
    """Return the folder of an unfinished run, given that folder or the one of its results.

    Raises
    ------
    InputError
        If there is no unfinished run.
    """
    for folder in (path, run_folder(path)):
        if (folder / NAME).is_file():
            return folder
    raise InputError(
        f"There is no unfinished run in {path}. Give the folder of a run, which ends in .run."
    )


def check_free(run: Path, overwrite: bool) -> None:
    """Check that a new run may be written to a folder.

    Raises
    ------
    InputError
        If the folder contains other files, or an unfinished run that may not be replaced.
    """
    if not run.exists():
        return
    if not run.is_dir() or (not (run / NAME).is_file() and any(_strange(run))):
        raise InputError(f"{run} exists, but isn't a run of kem fit. Choose another with --out.")
    if (run / NAME).is_file() and not overwrite:
        raise InputError(
            f"The folder {run} contains an unfinished run. "
            f"Resume it with --resume {run}, or add --overwrite to start again."
        )


def remove_run(run: Path) -> None:
    """Delete the folder of a run; files in it that no command wrote are kept."""
    clear_run(run)
    (run / LOCK).unlink(missing_ok=True)
    with suppress(OSError):
        run.rmdir()


def clear_run(run: Path) -> None:
    """Delete the files that commands wrote to the folder of a run, except the lock file.

    The job file is deleted first: files that are left if the process is killed then don't count as
    a run, and a new run may replace them.
    """
    (run / NAME).unlink(missing_ok=True)
    for path in set(run.iterdir()) - {run / LOCK, *_strange(run)}:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _strange(run: Path) -> Iterator[Path]:
    """Yield the files and folders in the folder of a run that no command wrote."""
    for path in run.iterdir():
        if not any(path.match(pattern) for pattern in OWN):
            yield path
