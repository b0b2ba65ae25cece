"""``kem fit``: learn evolutions from a table of pilot users, or from a study file."""

import json
import shlex
import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kem_pymc.cli import folders, options, screen
from kem_pymc.cli.job import (
    COPY,
    DRAFT,
    SETTINGS,
    Job,
    check_free,
    clear_run,
    find_run,
    remove_run,
    run_folder,
)
from kem_pymc.errors import InputError, SamplingError

if TYPE_CHECKING:
    from kem_pymc._system.executors import Executor
    from kem_pymc.cli.study import Study
    from kem_pymc.model.evolution_model import EvolutionModel
    from kem_pymc.runs.sampling import Outcome

EXAMPLE = "Example: kem fit --data trial.csv --user id --time week --target steps --out kem-fit"

OUT = Path("kem-fit")


def fit(
    study: options.PilotStudy = None,
    data: options.Data = None,
    user: options.User = None,
    time: options.Time = None,
    target: options.Target = None,
    features: options.Features = None,
    categorical: options.Categorical = None,
    batch: options.Batch = None,
    skip_gaps: options.SkipGaps = False,
    missing: options.Missing = None,
    transform: options.Transform = None,
    candidates: options.Candidates = None,
    base: options.Base = None,
    interactions: options.Interactions = False,
    priors: options.PriorTable = None,
    shared: options.Shared = None,
    feedback: options.Feedback = None,
    likelihood: options.Likelihood = None,
    draws: options.Draws = None,
    tune: options.Tune = None,
    chains: options.Chains = None,
    cores: options.Cores = None,
    cluster: options.ClusterAddress = None,
    seed: options.Seed = None,
    out: options.Out = OUT,
    overwrite: options.Overwrite = False,
    resume: options.Resume = None,
) -> None:
    """Learn evolutions of kernels from pilot users.

    The users come from a study file or from a table. A table needs the options --data, --user,
    --time and --target; all other options have defaults. While sampling, draws are written to a
    folder next to the results, whose name ends in .run. Ctrl-C stops sampling and keeps the draws;
    --resume continues a run that was stopped or killed.
    """
    columns: dict[str, Any] = {
        "user": user,
        "time": time,
        "target": target,
        "features": options.listed(features),
        "categorical": options.listed(categorical),
        "batch": batch,
        "skip_gaps": skip_gaps,
        "missing": missing,
    }
    model_of: dict[str, Any] = {
        "candidates": options.listed(candidates),
        "base": options.listed(base),
        "interactions": interactions,
        "priors": priors,
        "shared": shared,
        "transform": transform,
    }
    sampler = {"draws": draws, "tune": tune, "chains": chains, "random_seed": seed}
    if resume is not None:
        sources = {"study": study, "data": data, "seed": seed}
        target_of = {"feedback": feedback, "likelihood": likelihood}
        given = {**sources, **target_of, **columns, **model_of, **sampler, "overwrite": overwrite}
        options.alone_with_resume(given | {"out": None if out == OUT else out})
        run = find_run(resume)
        job = Job.load(run)
        overwrite = job.may_replace(Path(job.directory, job.out))
        _carry_out(job, run, cores, cluster, overwrite=overwrite)
        return
    if (study is None) == (data is None):
        raise InputError("Give either a study file or a table (with --data), not both.")
    if study is not None:
        options.only_with_table(columns | model_of)
    if data is not None:
        model_of["shared"] = shared or "auto"
    job = Job.asked(
        study,
        data,
        out,
        columns=columns,
        model_of=model_of,
        feedback=feedback,
        likelihood=likelihood,
        sampler=sampler | {"cores": cores},
    )
    _carry_out(job, run_folder(out), cores, cluster, new=True, overwrite=overwrite)


def _carry_out(
    job: Job,
    run: Path,
    cores: int | None,
    cluster: str | None,
    new: bool = False,
    overwrite: bool = False,
) -> None:
    """Build the model of a job, sample it, and write the results.

    If `new` is true, a run is started in the folder `run`; otherwise the run there is resumed.
    """
    from kem_pymc._system.executors import make_executor
    from kem_pymc._system.progress import waiting

    out = Path(job.out) if new else Path(job.directory, job.out)
    folders.check(out, overwrite)
    if new:
        check_free(run, overwrite)
    with waiting("Reading the data and learning what users share"):
        found = job.build()
    if cores is None and cluster is None:
        cores = found.sampler.get("cores")
    with (
        closing(make_executor(cores, cluster, found.sampler["chains"])) as executor,
        folders.locked(run),
    ):
        if new:
            check_free(run, overwrite)
        _sample_and_write(job, found, run, executor, out, new, overwrite)


def _sample_and_write(
    job: Job,
    found: "Study",
    run: Path,
    executor: "Executor",
    out: Path,
    new: bool,
    overwrite: bool,
) -> None:
    """Sample and write the results; delete the folder of the run once the run is complete."""
    from kem_pymc.cli import learning
    from kem_pymc.runs.interruption import noticing_interruption

    if new:
        clear_run(run)
        job.save(run)
    screen.study(found.model.cohort, found.model.pool)
    screen.modelled(found.model.cohort, found.model.scaling)
    screen.shared(found.model)
    again = f"kem fit --resume {shlex.quote(str(run))}"
    try:
        step = learning.ready(found.model, executor)
        with noticing_interruption():
            outcome = learning.sample(found.model, step, found.sampler, run, executor)
            ends: dict[str, Outcome] = {}
            if outcome.complete:
                ends = learning.sample_ends(found.model, found.sampler, run, executor)
            _write_results(job, found.model, found.sampler, (outcome, ends), out, overwrite, run)
    except KeyboardInterrupt:
        if not learning.has_begun(run):
            remove_run(run)
            raise
        screen.warn(f"Interrupted before there were results. To resume, run: {again}")
        raise typer.Exit(130) from None
    except SamplingError as error:
        screen.error(str(error))
        screen.warn(f"The draws so far are kept. To resume, run: {again}")
        raise typer.Exit(1) from error
    screen.info(f"Results are in {out}.")
    failures = [failure for own in (outcome, *ends.values()) for failure in own.failures]
    last = learning.FINAL if found.model.shared is None else learning.UNSHARED
    if last in ends and ends[last].complete:
        remove_run(run)
        if run.exists():
            screen.warn(f"The run is complete. Files that kem fit didn't write are still in {run}.")
        return
    for failure in failures:
        screen.warn(f"The results lack a chain: {failure}. See {run}.")
    what = "A chain failed." if failures else "Sampling was interrupted."
    screen.warn(f"{what} The draws so far are kept. To resume, run: {again}")
    raise typer.Exit(1 if failures else 130)


def _write_results(
    job: Job,
    model: "EvolutionModel",
    sampler: dict[str, Any],
    outcomes: "tuple[Outcome, dict[str, Outcome]]",
    out: Path,
    overwrite: bool,
    run: Path,
) -> None:
    from kem_pymc.cli import learning

    try:
        with folders.results(out, overwrite, run / DRAFT) as folder:
            learning.write(*outcomes, folder, out)
            if job.study is not None:
                shutil.copy(run / COPY, folder / "study.py")
            _write_settings(folder / SETTINGS, job, model, sampler, outcomes[0])
    except OSError as error:
        raise InputError(
            f"The results can't be written to {out} ({error.strerror or error}). "
            f"Make room, then run: kem fit --resume {shlex.quote(str(run))}"
        ) from error


def _write_settings(
    path: Path,
    job: Job,
    model: "EvolutionModel",
    sampler: dict[str, Any],
    outcome: "Outcome",
) -> None:
    """Write the settings of the fit to a JSON file, for users to read."""
    settings = {
        "command": job.command,
        "data": repr(model.cohort),
        **model.settings(),
        "priors": dict(model.priors.to_frame().to_numpy().tolist()),
        "sampler": sampler,
        "seconds": round(outcome.idata["posterior"].attrs["sampling_time"], 1),
        "interrupted": outcome.interrupted,
        "failed_chains": [failure.chain for failure in outcome.failures],
    }
    path.write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
