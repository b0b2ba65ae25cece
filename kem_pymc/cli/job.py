"""Jobs of ``kem fit``: the request, kept in the run's folder so that a killed run can resume."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NotRequired,
    TypedDict,
)

from annotated_types import Ge, Le, MinLen

from kem_pymc._system.files import first_fault, write_atomically
from kem_pymc.cli.folders import EVOLUTIONS, LOCK
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from kem_pymc.data.cohort import Cohort
    from kem_pymc.data.scaling import Scaling
    from kem_pymc.kernels.pool import CandidatePool
    from kem_pymc.model.evolution_model import EvolutionModel
    from kem_pymc.priors import Priors

#: Names in the folder of a run: the job file, a copy of the study file, and the draft of results.
NAME, COPY, DRAFT = "fit.json", "study.py", "results"

#: File in the folder of results with the settings of the fit, for users to read.
SETTINGS = "settings.json"

#: Patterns of the names that commands write to the folder of a run.
OWN = (
    *(NAME, COPY, DRAFT, LOCK, ".lock", "run.json", "chain-[0-9]*", "final", "unshared"),
    *(f".{NAME}.*", ".run.json.*"),  # left by processes that were killed while writing
)

SCHEMA_VERSION = 1

#: Default arguments of the sampler, if neither the study file nor the command line gives them.
SAMPLER = {"draws": 300, "tune": 300, "chains": 4, "random_seed": 0}


#: A number of draws, or of rows.
Whole = Annotated[int, Ge(1), Le(1_000_000_000)]


class TableOptions(TypedDict):
    """Options for reading a table."""

    user: str | None
    time: str | None
    target: str | None
    features: list[str] | None
    batch: Whole | None
    skip_gaps: bool
    categorical: NotRequired[list[str] | None]
    missing: NotRequired[Literal["error", "drop"] | None]


class ModelOptions(TypedDict):
    """Options for building the model from a table."""

    candidates: list[str] | None
    base: list[str] | None
    interactions: bool
    priors: Literal["default", "unit", "synthetic"] | None
    shared: NotRequired[str | None]
    transform: NotRequired[Literal["sqrt", "log", "log1p", "yeo-johnson"] | None]


class SamplerOptions(TypedDict):
    """Arguments of the sampler; None where the command line doesn't give one."""

    draws: Whole | None
    tune: Annotated[int, Ge(0), Le(1_000_000_000)] | None
    chains: Annotated[int, Ge(1), Le(10_000)] | None
    random_seed: Annotated[int, Ge(0)] | None
    cores: Annotated[int, Ge(1), Le(100_000)] | None


@dataclass(frozen=True)
class Job:
    """A request to ``kem fit``: data, model, sampler and output.

    Attributes
    ----------
    study, data : str or None
        Paths of the study file and of the table; one of them is None.
    columns, model_of : dict
        Options for reading the table, and for building the model from it.
    feedback, likelihood : str or None
        Values given on the command line; None keeps those of the study file, or the defaults.
    sampler : dict
        Arguments of the sampler that the command line gives.
    out : str
        Path of the results.
    directory : str
        Working directory of the command, to which paths are relative, also those in study files.
    command : str
        Command line as typed.
    """

    #: How Pydantic reads a job from its file, of which this class is the schema.
    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True}

    study: str | None
    data: str | None
    columns: TableOptions
    model_of: ModelOptions
    feedback: Literal["cut", "joint"] | None
    sampler: SamplerOptions
    out: Annotated[str, MinLen(1)]
    directory: str
    command: str
    likelihood: Literal["cumulative", "sequential"] | None = None

    @classmethod
    def asked(cls, study: Path | None, data: Path | None, out: Path, **described: Any) -> "Job":
        """Return the job that the current command line requests."""
        return cls(
            study=None if study is None else str(study),
            data=None if data is None else str(data),
            out=str(out),
            directory=os.getcwd(),
            command=shlex.join(["kem", *sys.argv[1:]]),
            **described,
        )

    @classmethod
    def load(cls, run: Path) -> "Job":
        """Return the job of the run in a folder.

        Raises
        ------
        InputError
            If its file can't be read, has another format, or an invalid entry.
        """
        from pydantic import TypeAdapter, ValidationError

        try:
            data = json.loads((run / NAME).read_text("utf-8"))
            version = data.pop("schema_version")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"{run / NAME} can't be read. Restore the file.") from error
        if version != SCHEMA_VERSION:
            raise InputError(
                f"{run / NAME} has format {str(version)[:40]}, not {SCHEMA_VERSION}. "
                "Resume the run with the version of kem_pymc that began it."
            )
        try:
            job = TypeAdapter(cls).validate_json(json.dumps(data))
            fault = job.fault()
        except ValidationError as error:
            fault = first_fault(error)
        if fault:
            raise InputError(
                f"{run / NAME} isn't a valid file of a run ({fault}). Restore the file."
            )
        return job

    def fault(self) -> str:
        """Return what is wrong with the entries, taken together; "" if nothing is."""
        if (self.study is None) == (self.data is None):
            return "it names both a study file and a table, or neither"
        paths = (self.study, self.data, self.out, self.directory)
        return "a path contains a null character" if any("\0" in (p or "") for p in paths) else ""

    def save(self, run: Path) -> None:
        """Create the folder of a run, and write this job and a copy of the study file to it.

        Raises
        ------
        InputError
            If the folder can't be written to.
        """
        text = json.dumps({"schema_version": SCHEMA_VERSION, **asdict(self)}, indent=2) + "\n"
        try:
            run.mkdir(parents=True, exist_ok=True)
            if self.study is not None:
                shutil.copy(self.study, run / COPY)
            write_atomically(run / NAME, text.encode())
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

    def build(self) -> "tuple[Callable[[], EvolutionModel], dict[str, Any]]":
        """Read the study file or the table, and return what is to be sampled.

        Returns
        -------
        make_model : callable
            Function without arguments that returns the model. For a table it first learns what
            users share, which takes longer than reading it.
        sampler : dict
            Arguments of the sampler.

        Raises
        ------
        InputError
            If a file or the working directory is missing, or a file can't be used.
        """
        from kem_pymc.cli.study import load_study

        if not Path(self.directory).is_dir():
            raise InputError(
                f"The folder {self.directory}, in which the run was started, doesn't exist. "
                "Restore it, with the data in it."
            )
        target: dict[str, Any] = {"feedback": self.feedback, "likelihood": self.likelihood}
        of_study: dict[str, Any] = {}
        with chdir(self.directory):
            if self.study is not None:
                study = load_study(Path(self.study))
                make_model, of_study = partial(with_target, study.model, **target), study.sampler
            else:
                from kem_pymc.cli.tables import read_cohort

                cohort = read_cohort(Path(str(self.data)), **self.columns, scope="pilot")
                make_model = partial(model_of, cohort, **self.model_of, **target)
        asked = {name: value for name, value in self.sampler.items() if value is not None}
        return make_model, SAMPLER | of_study | asked


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


def model_of(
    cohort: "Cohort",
    *,
    candidates: list[str] | None,
    base: list[str] | None,
    interactions: bool,
    priors: str | None,
    shared: str | None = "none",
    transform: Any = None,
    feedback: Any = None,
    likelihood: Any = None,
) -> "EvolutionModel":
    """Return the model that the command line requests for a table, with what users share."""
    from kem_pymc.model.evolution_model import EvolutionModel

    pool = pool_of(cohort, candidates, base, interactions)
    table = table_of(priors)
    scaling = scaling_of(cohort, priors, table, transform)
    target: dict[str, Any] = {
        "feedback": feedback or "cut",
        "likelihood": likelihood or "cumulative",
    }
    if shared in (None, "none"):
        return EvolutionModel(cohort, pool, table, scaling=scaling, **target)
    return EvolutionModel.from_cohort(
        cohort, pool, table, scaling=scaling, shared=str(shared), **target
    )


def scaling_of(
    cohort: "Cohort", priors: str | None, table: "Priors | None", transform: Any
) -> "Scaling | None":
    """Return the scaling with the requested transform of the target; None without a transform.

    Raises
    ------
    InputError
        If the priors are for unscaled targets, or a target can't be transformed.
    """
    from kem_pymc.data.scaling import Scaling

    if transform is None:
        return None
    if table is not None and table.scaling != "unit":
        raise InputError(
            f"--priors {priors} are for untransformed targets, but --transform changes them. "
            "Use other priors, or leave --transform out."
        )
    return Scaling.unit(cohort, transform)


def table_of(name: str | None) -> "Priors | None":
    """Return the table of priors with a name of the command line; None for the model's default."""
    from kem_pymc import priors as tables

    if name in (None, "default"):
        return None
    return tables.synthetic() if name == "synthetic" else tables.paper()


def pool_of(
    cohort: "Cohort", candidates: list[str] | None, base: list[str] | None, interactions: bool
) -> "CandidatePool":
    """Return the candidates that the command line requests.

    By default they are those of :func:`kem_pymc.datasets.default_pool`.

    Raises
    ------
    InputError
        If candidates are given in two ways, or one of them isn't valid.
    """
    from kem_pymc.data.categories import suits
    from kem_pymc.datasets import default_pool
    from kem_pymc.kernels.pool import CandidatePool

    if candidates is None:
        if base is not None:
            pool = CandidatePool.from_base(base, cohort.dimension, interactions)
            return CandidatePool([c for c in pool if suits(c, cohort)], cohort.dimension)
        return default_pool(cohort, interactions)
    if base is not None or interactions:
        raise InputError(
            "The candidates are given twice. Use either --candidates, or --base and --interactions."
        )
    return CandidatePool(candidates, cohort.dimension)


def with_target(model: "EvolutionModel", feedback: Any, likelihood: Any) -> "EvolutionModel":
    """Return the model with the feedback and likelihood of the command line, where given."""
    feedback, likelihood = feedback or model.feedback, likelihood or model.likelihood
    if (feedback, likelihood) == (model.feedback, model.likelihood):
        return model
    return type(model)(
        model.cohort,
        model.pool,
        model.priors,
        model.concentration,
        feedback,
        scaling=model.scaling,
        likelihood=likelihood,
        shared=model.shared,
        likelihood_power=model.engine.likelihood_power,
        # A schedule is for one of the targets.
        schedule=model.engine.schedule if feedback == model.feedback else None,
    )
