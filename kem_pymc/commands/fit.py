"""``kem fit``: learn evolutions from a table of pilot users, or from a study file."""

import json
import shlex
import shutil
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import typer

from kem_pymc.commands import folders, options, screen
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from kem_pymc.cohort import Cohort
    from kem_pymc.evolution.model import EvolutionModel

EXAMPLE = "Example: kem fit --data trial.csv --user id --time week --target steps --out kem-fit"

#: How to sample where neither the study nor the command line says.
SAMPLER = {"draws": 300, "tune": 300, "chains": 4, "random_seed": 0}


def fit(
    study: options.PilotStudy = None,
    data: options.Data = None,
    user: options.User = None,
    time: options.Time = None,
    target: options.Target = None,
    features: options.Features = None,
    batch: options.Batch = None,
    skip_gaps: options.SkipGaps = False,
    candidates: options.Candidates = None,
    base: options.Base = None,
    interactions: options.Interactions = False,
    priors: options.PriorTable = None,
    feedback: options.Feedback = None,
    draws: options.Draws = None,
    tune: options.Tune = None,
    chains: options.Chains = None,
    cores: options.Cores = None,
    seed: options.Seed = None,
    out: options.Out = Path("kem-fit"),
    overwrite: options.Overwrite = False,
) -> None:
    """Learn evolutions of kernels from pilot users.

    They come from a study file, or from a table: then --data, --user, --time and --target are
    needed, and the rest has defaults. Ctrl-C stops sampling and keeps what was drawn.
    """
    from kem_pymc.commands.learning import learn
    from kem_pymc.commands.study import Study, load_study

    columns: dict[str, Any] = {
        "user": user,
        "time": time,
        "target": target,
        "features": _listed(features),
        "batch": batch,
        "skip_gaps": skip_gaps,
    }
    model_of: dict[str, Any] = {
        "candidates": _listed(candidates),
        "base": _listed(base),
        "interactions": interactions,
        "priors": priors,
    }
    asked = {"draws": draws, "tune": tune, "chains": chains, "cores": cores, "random_seed": seed}
    if (study is None) == (data is None):
        raise InputError("Give either a study file or a table. The table comes with --data.")
    with folders.results(out, overwrite) as folder:
        if study is not None:
            options.only_with_table(columns | model_of)
            found = load_study(study)
            shutil.copy(study, folder / "study.py")
        else:
            from kem_pymc.commands.tables import read_cohort

            found = Study(
                _model(read_cohort(cast(Path, data), **columns, scope="pilot"), **model_of)
            )
        model = _with_feedback(found.model, feedback)
        sampler = SAMPLER | found.sampler | {k: v for k, v in asked.items() if v is not None}
        screen.study(model.cohort, model.pool)
        started = perf_counter()
        _, interrupted = learn(model, sampler, folder)
        _write_settings(folder / "settings.json", model, sampler, started, interrupted)
    screen.say(f"Results are in {out}.")
    if interrupted:
        screen.warn("Sampling was interrupted. What was drawn until then is kept.")
        raise typer.Exit(130)


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [part.strip() for part in text.split(",")]


def _model(
    cohort: "Cohort",
    *,
    candidates: list[str] | None,
    base: list[str] | None,
    interactions: bool,
    priors: str | None,
) -> "EvolutionModel":
    from kem_pymc import priors as tables
    from kem_pymc.evolution.model import EvolutionModel
    from kem_pymc.kernels.pool import CandidatePool

    if candidates is None:
        names = base or ["LIN", "PER", "SE"]
        pool = CandidatePool.from_base(names, cohort.dimension, interactions)
    elif base is not None or interactions:
        raise InputError("The candidates are given twice. Use --candidates or --base, not both.")
    else:
        pool = CandidatePool(candidates, cohort.dimension)
    table = tables.synthetic() if priors == "synthetic" else tables.unit_scale()
    return EvolutionModel(cohort, pool, table)


def _with_feedback(model: "EvolutionModel", feedback: Any) -> "EvolutionModel":
    """Return the model with the other target, if the command line asks for it."""
    if feedback in (None, model.feedback):
        return model
    return type(model)(
        model.cohort,
        model.pool,
        model.priors,
        model.concentration,
        feedback,
        scaling=model.scaling,
        likelihood_power=model.engine.likelihood_power,
    )


def _write_settings(
    path: Path, model: "EvolutionModel", sampler: dict[str, Any], started: float, interrupted: bool
) -> None:
    """Write what was done, for people to read."""
    settings = {
        "command": shlex.join(["kem", *sys.argv[1:]]),
        "data": repr(model.cohort),
        **model.settings(),
        "priors": dict(model.priors.to_frame().to_numpy().tolist()),
        "sampler": sampler,
        "seconds": round(perf_counter() - started, 1),
        "interrupted": interrupted,
    }
    path.write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
