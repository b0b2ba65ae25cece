"""Sample all models from which evolutions are learned, with progress bars, into one folder."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kem_pymc._system.executors import Executor
from kem_pymc._system.progress import waiting
from kem_pymc.model.ablations import final_model_of, unshared_model_of
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.model.step import EvolutionStep
from kem_pymc.runs.folder import NAME, Plan, Run
from kem_pymc.runs.sampling import RunResult, carry_out, fresh_seed, new_run, ready_step

#: Number of draws per file of a run.
CHUNK = 100

#: Names of the runs of the model, the final model and the unshared final model. The first has the
#: folder of the run, and the others have subfolders of it.
MAIN, FINAL, UNSHARED = "", "final", "unshared"


def ready(model: EvolutionModel, executor: Executor) -> EvolutionStep:
    """Compile and return the sampling step of a model, with a message while this takes time."""
    with waiting("Compiling the sampler, about a minute the first time"):
        return ready_step(model, executor)


def has_begun(path: Path) -> bool:
    """Return whether a folder contains a run that can be resumed."""
    return (path / NAME).is_file()


def sample(
    model: EvolutionModel,
    step: EvolutionStep,
    sampler: dict[str, Any],
    path: Path,
    executor: Executor,
    say: Callable[[str], Any],
) -> RunResult:
    """Sample with progress bars until complete or interrupted; resume a run if there is one.

    Parameters
    ----------
    model : EvolutionModel
    step : EvolutionStep
        Sampling step of the model, from :func:`ready`.
    sampler : dict
        ``draws``, ``tune``, ``chains`` and optionally ``random_seed``; ignored if a run is resumed.
    path : Path
        Folder of the run, to which draws are written while sampling.
    executor : Executor
    say : callable
        Function that shows a message to the user.

    Returns
    -------
    RunResult
        The posterior draws, and whether chains failed or were interrupted.

    Raises
    ------
    KeyboardInterrupt
        If an interruption came before the first posterior draw.
    InputError, SamplingError
        As in :func:`kem_pymc.sample` and :func:`kem_pymc.resume`.
    """
    if has_begun(path):
        run = Run.open(path)
        say(f"Resuming the run in {path}")
        return carry_out(model, step, run, executor, progress=True)
    counts = {name: sampler[name] for name in ("draws", "tune", "chains")}
    seed = sampler.get("random_seed")
    plan = Plan(**counts, random_seed=fresh_seed() if seed is None else seed, chunk=CHUNK)
    text = "Sampling {chains} x {tune} tuning draws and {chains} x {draws} posterior draws"
    say(text.format(**counts))
    run = new_run(model, step, plan, path)
    return carry_out(model, step, run, executor, progress=True)


def models_of(model: EvolutionModel) -> dict[str, Callable[[EvolutionModel], EvolutionModel]]:
    """Return functions that make the models to sample beside a model, by name.

    The final model learns the kernels with which users end up, from their last datasets; if users
    share a mean process, there is the same model without it.
    """
    return {FINAL: final_model_of, **({UNSHARED: unshared_model_of} if model.shared else {})}


def sample_all(
    model: EvolutionModel,
    step: EvolutionStep,
    sampler: dict[str, Any],
    path: Path,
    executor: Executor,
    say: Callable[[str], Any],
) -> dict[str, RunResult]:
    """Sample a model and then those of :func:`models_of`, up to the first incomplete run.

    The arguments and errors are those of :func:`sample`. If one of the other models is interrupted
    before its first draw, the result lacks it.
    """
    results = {MAIN: sample(model, step, sampler, path, executor, say)}
    for name, of in models_of(model).items():
        if not all(run.complete for run in results.values()):
            break
        other = of(model)
        say(f"{name.capitalize()} model of pilot users:")
        try:
            results[name] = sample(
                other, ready(other, executor), sampler, path / name, executor, say
            )
        except KeyboardInterrupt:
            break
    return results
