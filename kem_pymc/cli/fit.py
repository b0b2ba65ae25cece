"""``kem fit``: learn evolutions from a table of pilot users, or from a study file."""

import json
import shlex
import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from kem_pymc.cli import folders, options, screen
from kem_pymc.errors import InputError, SamplingError

if TYPE_CHECKING:
    from kem_pymc._system.executors import Executor
    from kem_pymc.cli.job import Job
    from kem_pymc.model.evolution_model import EvolutionModel
    from kem_pymc.runs.sampling import RunResult

EXAMPLE = "Example: kem fit --data trial.csv --user id --time week --target steps --out kem-fit"


def fit(
    ctx: typer.Context,
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
    drop_short: options.DropShort = False,
    date_format: options.DateFormat = None,
    transform: options.Transform = None,
    family: options.Family = None,
    noise: options.Noise = None,
    size: options.Size = None,
    candidates: options.Candidates = None,
    base: options.Base = None,
    interactions: options.Interactions = False,
    shared: options.Shared = None,
    feedback: options.Feedback = None,
    draws: options.Draws = None,
    tune: options.Tune = None,
    chains: options.Chains = None,
    cores: options.Cores = None,
    cluster: options.ClusterAddress = None,
    seed: options.Seed = None,
    out: options.Out = Path("kem-fit"),
    overwrite: options.Overwrite = False,
    resume: options.Resume = None,
) -> None:
    """Learn evolutions of kernels from pilot users.

    The users come from a study file or from a table. A table needs the options --data, --user,
    --time and --target; all other options have defaults. While sampling, draws are written to a
    folder next to the results, whose name ends in .run. Ctrl-C stops sampling and keeps the draws;
    --resume continues a run that was stopped or killed.
    """
    from kem_pymc._system.executors import make_executor
    from kem_pymc._system.progress import waiting
    from kem_pymc.cli.job import Job, check_free, clear_run, find_run, run_folder

    if resume is not None:
        options.alone_with_resume(ctx)
        run = find_run(resume)
        job = Job.load(run)
        out = Path(job.directory, job.out)
        overwrite = job.may_replace(out)
    else:
        if (study is None) == (data is None):
            raise InputError("Give either a study file or a table (with --data), not both.")
        if study is not None:
            options.only_with_table(ctx)
        job, run = Job.from_options(ctx.params), run_folder(out)
        check_free(run, overwrite)
    folders.check(out, overwrite)
    with waiting("Reading the data and learning what users share"):
        model, sampler = job.read()
    if cores is None and cluster is None:
        cores = sampler.get("cores")
    with (
        closing(make_executor(cores, cluster, sampler["chains"])) as executor,
        folders.locked(run),
    ):
        if resume is None:
            check_free(run, overwrite)
            clear_run(run)
            job.save(run)
        _sample_and_write(job, model, sampler, run, executor, out, overwrite)


def _sample_and_write(
    job: "Job",
    model: "EvolutionModel",
    sampler: dict[str, Any],
    run: Path,
    executor: "Executor",
    out: Path,
    overwrite: bool,
) -> None:
    """Sample and write the results; delete the folder of the run once the run is complete."""
    from kem_pymc.cli import learning
    from kem_pymc.cli.job import COPY, DRAFT, SETTINGS, remove_run
    from kem_pymc.runs import models
    from kem_pymc.runs.interruption import noticing_interruption

    screen.study(model.cohort, model.pool)
    screen.modelled(model.cohort, model.scaling)
    screen.shared(model)
    again = f"kem fit --resume {shlex.quote(str(run))}"
    try:
        step = models.ready(model, executor)
        with noticing_interruption():
            runs = models.sample_all(model, step, sampler, run, executor, screen.info)
            with folders.results(out, overwrite, run / DRAFT) as folder:
                learning.write(runs, folder, out)
                if job.study is not None:
                    shutil.copy(run / COPY, folder / "study.py")
                settings = json.dumps(_settings(job, model, sampler, runs[models.MAIN]), indent=2)
                (folder / SETTINGS).write_text(settings + "\n", "utf-8")
    except KeyboardInterrupt:
        if not models.has_begun(run):
            remove_run(run)
            raise
        screen.warn(f"Interrupted before there were results. To resume, run: {again}")
        raise typer.Exit(130) from None
    except SamplingError as error:
        screen.error(str(error))
        screen.warn(f"The draws so far are kept. To resume, run: {again}")
        raise typer.Exit(1) from error
    except OSError as error:
        raise InputError(
            f"The results can't be written to {out} ({error.strerror or error}). "
            f"Make room, then run: {again}"
        ) from error
    screen.info(f"Results are in {out}.")
    planned = 1 + len(models.models_of(model))
    if len(runs) == planned and all(result.complete for result in runs.values()):
        remove_run(run)
        if run.exists():
            screen.warn(f"The run is complete. Files that kem fit didn't write are still in {run}.")
        return
    failures = [failure for result in runs.values() for failure in result.failures]
    for failure in failures:
        screen.warn(f"The results lack a chain: {failure}. See {run}.")
    what = "A chain failed." if failures else "Sampling was interrupted."
    screen.warn(f"{what} The draws so far are kept. To resume, run: {again}")
    raise typer.Exit(1 if failures else 130)


def _settings(
    job: "Job", model: "EvolutionModel", sampler: dict[str, Any], outcome: "RunResult"
) -> dict[str, Any]:
    """Return the settings of the fit, for users to read."""
    return {
        "command": job.command,
        "data": repr(model.cohort),
        **model.settings(),
        "priors": dict(model.priors.to_frame().to_numpy().tolist()),
        "sampler": sampler,
        "seconds": round(outcome.idata["posterior"].attrs["sampling_time"], 1),
        "interrupted": outcome.interrupted,
        "failed_chains": [failure.chain for failure in outcome.failures],
    }
