"""What ``kem fit`` was asked for, in a file of the run's folder: a run that was killed goes on."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import chdir, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kem_pymc.commands.folders import EVOLUTIONS, LOCK
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from kem_pymc.cohort import Cohort
    from kem_pymc.commands.study import Study
    from kem_pymc.evolution.model import EvolutionModel
    from kem_pymc.kernels.pool import CandidatePool
    from kem_pymc.priors import Priors
    from kem_pymc.scaling import Scaling

#: In the folder of a run: what was asked for, a copy of the study file, and results on their way.
NAME, COPY, DRAFT = "fit.json", "study.py", "results"

#: In the folder of results: what was done, for people to read.
SETTINGS = "settings.json"

#: What commands write to the folder of a run.
OWN = (
    *(NAME, COPY, DRAFT, LOCK, ".lock", "run.json", "chain-[0-9]*", "final", "unshared"),
    *(f".{NAME}.*", ".run.json.*"),  # of processes that were killed while they wrote
)

SCHEMA_VERSION = 1

#: How to sample where neither the study nor the command line says.
SAMPLER = {"draws": 300, "tune": 300, "chains": 4, "random_seed": 0}


@dataclass(frozen=True)
class Job:
    """What was asked for.

    Attributes
    ----------
    study, data : str or None
        Path of a study file, or of a table.
    columns, model_of : dict
        How to read the table and what to make of it.
    feedback, likelihood : str or None
    sampler : dict
        What the command line said of sampling.
    out : str
        Path of the results.
    directory : str
        Where the command ran: studies read files from there.
    command : str
        As it was typed.
    """

    study: str | None
    data: str | None
    columns: dict[str, Any]
    model_of: dict[str, Any]
    feedback: str | None
    sampler: dict[str, Any]
    out: str
    directory: str
    command: str
    likelihood: str | None = None

    @classmethod
    def asked(cls, study: Path | None, data: Path | None, out: Path, **described: Any) -> "Job":
        """Return what this command asks for."""
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
        """Return what the run in a folder was begun for.

        Raises
        ------
        InputError
            If its file can't be read.
        """
        from kem_pymc.commands.job_schema import fault

        try:
            data = json.loads((run / NAME).read_text("utf-8"))
            version = data.pop("schema_version")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"{run / NAME} can't be read. Restore the file.") from error
        if version != SCHEMA_VERSION:
            raise InputError(
                f"{run / NAME} has format {str(version)[:40]}, not {SCHEMA_VERSION}. "
                "Go on with the run by the version of kem_pymc that began it."
            )
        wrong = fault(data)
        if wrong:
            raise InputError(f"{run / NAME} isn't what was written ({wrong}). Restore the file.")
        return cls(**data)

    def save(self, run: Path) -> None:
        """Make the folder of a run, with this in it.

        Raises
        ------
        InputError
            If it can't be written to.
        """
        from kem_pymc.evolution.chunks import write_whole

        text = json.dumps({"schema_version": SCHEMA_VERSION, **asdict(self)}, indent=2) + "\n"
        try:
            run.mkdir(parents=True, exist_ok=True)
            if self.study is not None:
                shutil.copy(self.study, run / COPY)
            write_whole(run / NAME, lambda file: file.write(text.encode()))
        except OSError as error:
            raise InputError(
                f"The folder {run} can't be written to ({error.strerror}). "
                "Choose another with --out."
            ) from error

    def may_replace(self, out: Path) -> bool:
        """Return whether results in a folder are of this job, or were to be replaced by it."""
        if "--overwrite" in self.command.split():
            return True
        try:
            written = json.loads((out / SETTINGS).read_text("utf-8"))["command"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return False
        return (out / EVOLUTIONS).is_file() and bool(written == self.command)

    def build(self) -> "Study":
        """Return the study, read anew, with everything that the command line says of it.

        Raises
        ------
        InputError
            If a file is missing or can't be used.
        """
        from kem_pymc.commands.study import Study, load_study

        if not Path(self.directory).is_dir():
            raise InputError(
                f"The folder {self.directory}, where the run began, isn't there. "
                "Put it back, with the data in it."
            )
        with chdir(self.directory):
            if self.study is not None:
                found = load_study(Path(self.study))
            else:
                from kem_pymc.commands.tables import read_cohort

                cohort = read_cohort(Path(str(self.data)), **self.columns, scope="pilot")
                found = Study(_model(cohort, **self.model_of))
        asked = {name: value for name, value in self.sampler.items() if value is not None}
        return replace(
            found,
            model=_with_target(found.model, self.feedback, self.likelihood),
            sampler=SAMPLER | found.sampler | asked,
        )


def run_folder(out: Path) -> Path:
    """Return where the run is written whose results go to a folder: beside it, ending in .run."""
    return out.with_name(f"{out.name}.run")


def find_run(path: Path) -> Path:
    """Return the folder of an unfinished run, given that folder or the one of its results.

    Raises
    ------
    InputError
        If there is none.
    """
    for folder in (path, run_folder(path)):
        if (folder / NAME).is_file():
            return folder
    raise InputError(
        f"There is no unfinished run in {path}. Give a folder that kem fit left, ending in .run."
    )


def check_free(run: Path, overwrite: bool) -> None:
    """Check that a new run may be written to a folder.

    Raises
    ------
    InputError
        If something is there that may not be replaced.
    """
    if not run.exists():
        return
    if not run.is_dir() or (not (run / NAME).is_file() and any(_strange(run))):
        raise InputError(f"{run} holds something else than a run. Choose another with --out.")
    if (run / NAME).is_file() and not overwrite:
        raise InputError(
            f"The folder {run} holds an unfinished run. "
            f"Go on with --resume {run}, or add --overwrite to start anew."
        )


def remove_run(run: Path) -> None:
    """Delete the folder of a run, unless something else is in it: that stays there."""
    clear_run(run)
    (run / LOCK).unlink(missing_ok=True)
    with suppress(OSError):
        run.rmdir()


def clear_run(run: Path) -> None:
    """Delete what commands wrote to the folder of a run, but not the lock of one that is at work.

    What a process leaves that is killed meanwhile is no run any more, and makes room for another.
    """
    (run / NAME).unlink(missing_ok=True)
    for path in set(run.iterdir()) - {run / LOCK, *_strange(run)}:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _strange(run: Path) -> Iterator[Path]:
    """Yield what is in the folder of a run that no command wrote."""
    for path in run.iterdir():
        if not any(path.match(pattern) for pattern in OWN):
            yield path


def _model(
    cohort: "Cohort",
    *,
    candidates: list[str] | None,
    base: list[str] | None,
    interactions: bool,
    priors: str | None,
    shared: str = "none",
    transform: Any = None,
) -> "EvolutionModel":
    from kem_pymc.evolution.model import EvolutionModel

    pool = pool_of(cohort, candidates, base, interactions)
    table = table_of(priors)
    scaling = scaling_of(cohort, priors, table, transform)
    process = None if shared == "none" else shared
    return EvolutionModel(cohort, pool, table, scaling=scaling, shared=process)


def scaling_of(
    cohort: "Cohort", priors: str | None, table: "Priors | None", transform: Any
) -> "Scaling | None":
    """Return the scaling with a transform of the target that was asked for; None without one.

    Raises
    ------
    InputError
        If the priors are for other targets, or a target can't be transformed.
    """
    from kem_pymc.scaling import Scaling

    if transform is None:
        return None
    if table is not None and table.scaling != "unit":
        raise InputError(
            f"--priors {priors} are for targets as they are, and --transform changes them. "
            "Use other priors, or leave --transform out."
        )
    return Scaling.unit(cohort, transform)


def table_of(name: str | None) -> "Priors | None":
    """Return the table of priors of a name on the command line; None for the model's default."""
    from kem_pymc import priors as tables

    if name in (None, "default"):
        return None
    return tables.synthetic() if name == "synthetic" else tables.paper()


def pool_of(
    cohort: "Cohort", candidates: list[str] | None, base: list[str] | None, interactions: bool
) -> "CandidatePool":
    """Return the candidates that a command line asks for.

    Where it says nothing, they are those of :func:`kem_pymc.datasets.default_pool`.

    Raises
    ------
    InputError
        If they are given in two ways, or one isn't a candidate.
    """
    from kem_pymc.categories import suits
    from kem_pymc.datasets import default_pool
    from kem_pymc.kernels.pool import CandidatePool

    if candidates is None:
        if base is not None:
            pool = CandidatePool.from_base(base, cohort.dimension, interactions)
            return CandidatePool([c for c in pool if suits(c, cohort)], cohort.dimension)
        return default_pool(cohort, interactions)
    if base is not None or interactions:
        raise InputError("The candidates are given twice. Use --candidates or --base, not both.")
    return CandidatePool(candidates, cohort.dimension)


def _with_target(model: "EvolutionModel", feedback: Any, likelihood: Any) -> "EvolutionModel":
    """Return the model with another feedback or likelihood, if the command line asks for it."""
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
    )
