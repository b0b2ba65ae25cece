"""New artefacts of a trial: evolutions learned anew from pilot users and accrued participants.

Nothing else changes: who takes part keeps the artefact that they have until they are moved.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sqlalchemy import select
from sqlalchemy.engine import RowMapping as Row

from kem_pymc._system.display import plural
from kem_pymc._system.executors import make_executor
from kem_pymc._system.files import write_atomically
from kem_pymc._system.resources import one_blas_thread
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.families import Family
from kem_pymc.data.scaling import Scaling
from kem_pymc.diagnostics.diagnosis import diagnose, disagreements
from kem_pymc.errors import InputError, SamplingError
from kem_pymc.evolutions.differences import differences
from kem_pymc.evolutions.evolutions import DISAGREE, Evolutions
from kem_pymc.model.cluster_model import scaling_for
from kem_pymc.model.concentration import Concentration
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.population.design import LEVEL
from kem_pymc.population.model import robust
from kem_pymc.priors import Priors
from kem_pymc.runs.interruption import noticing_interruption
from kem_pymc.runs.models import FINAL, MAIN, UNSHARED, models_of, ready, sample_all
from kem_pymc.runs.sampling import RunResult
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.online import points_of, select_online_for_user
from kem_pymc.selection.pilots import calibrate
from kem_pymc.selection.scores import points_to_predict
from kem_pymc.trial import schema
from kem_pymc.trial.artefacts import Artefact, Comparison, artefact
from kem_pymc.trial.store import Observations, Store, insert_artefact, log

if TYPE_CHECKING:
    from xarray import DataTree


#: Posteriors of the model, the final model, and the unshared one if there is one.
type Posteriors = tuple["DataTree", "DataTree", "DataTree | None"]

#: Arguments of the sampler.
SAMPLER = {"draws": 300, "tune": 300, "chains": 4, "random_seed": 0}

#: File in the folder of a run with the numbers of the observations from which it learns.
DATA = "relearn.json"

#: Halves of participants: next rows of each are predicted by what is learned without it.
HALVES = (0, 1)

#: Least number of time steps of a participant from whom evolutions are learned.
STEPS = 2

#: Largest difference of scalings that are the same, relative to ranges and sds.
ROUNDING = 1e-6


class _Learned(NamedTuple):
    """What evolutions are learned from: participants come after the pilot users."""

    cohort: Cohort
    participants: list[Row]
    data: list[Observations]

    @property
    def observations(self) -> list[list[int]]:
        return [one.observations for one in self.data]


@one_blas_thread()
def relearn(
    store: Store,
    pilots: Cohort,
    sampler: Mapping[str, int | None],
    *,
    shared: Any = None,
    priors: Priors | None = None,
    folder: Path | None = None,
    say: Callable[[str], Any] = lambda _: None,
) -> Artefact:
    """Learn evolutions anew; see :meth:`kem_pymc.trial.Trial.relearn`.

    `sampler` has its arguments of the sampler and ``cores``, of which None is the default, and
    `say` shows a message to the user.
    """
    first = store.selector(_first(store)).evolutions
    given = _given_priors(first) if priors is None else priors
    _check_pilots(pilots, first, given)
    with ExitStack() as stack:
        path = Path(stack.enter_context(TemporaryDirectory())) if folder is None else folder
        learned = _data(store, pilots, path)
        members = plural(len(learned.data), "participant")
        say(f"Learning from {plural(pilots.n_users, 'pilot user')} and {members}.")
        terms = _shared_terms(first) if shared is None else shared
        plan: dict[str, Any] = SAMPLER | {k: v for k, v in sampler.items() if v is not None}
        cores = plan.get("cores")
        executor = stack.enter_context(closing(make_executor(cores, None, plan["chains"])))

        def posteriors(users: Iterable[int], place: Path) -> Posteriors:
            cohort = learned.cohort.subset([learned.cohort.users[u] for u in users])
            model = _model(cohort, first, given, terms)
            step = ready(model, executor)
            with noticing_interruption():
                runs = sample_all(model, step, plan, place, executor, say)
            return _complete(runs, 1 + len(models_of(model)))

        n, everyone = pilots.n_users, range(learned.cohort.n_users)
        found = _evolutions(store, *posteriors(everyone, path))
        pairs = {}
        for half in HALVES:
            out = [u for u in everyone if u >= n and (u - n) % len(HALVES) == half]
            if out:
                say(f"Without {plural(len(out), 'participant')}, whose next rows are predicted:")
                chosen = [u for u in everyone if u not in out]
                idata, final, unshared = posteriors(chosen, path / f"half-{half}")
                others = Evolutions.from_posterior(idata, final=final, unshared=unshared)
                # One of eleven weights, from all users: any one of them hardly matters.
                others = replace(others, novelty=found.novelty)
                with noticing_interruption() as interruption:
                    for u in out:
                        pairs[u] = _paired(store, learned, u, KEMSelector(others))
                        if interruption.happened:
                            raise KeyboardInterrupt
        pairs = {u: densities for u, densities in pairs.items() if densities.size}
    return _keep(store, learned, found, pairs)


def _first(store: Store) -> int:
    """Return the number of the artefact that wasn't learned anew."""
    with schema.reading(store.engine) as db:
        query = select(schema.artefacts.c.id).where(schema.artefacts.c.about.is_(None))
        return int(db.execute(query.order_by(schema.artefacts.c.id).limit(1)).scalar_one())


def _given_priors(evolutions: Evolutions) -> Priors | None:
    """Return the priors with which evolutions were learned; None if they are the default ones."""
    if evolutions.settings.get("default_priors"):
        return None
    try:
        return Priors.from_dict(evolutions.priors)
    except InputError as error:
        raise InputError(
            f"The priors of the trial's evolutions can't be read from them. {error} "
            "Give Trial.relearn the study's priors."
        ) from error


def _shared_terms(evolutions: Evolutions) -> Any:
    """Return how what users share was learned: chosen by the data, unless terms were given."""
    before = evolutions.settings.get("shared")
    if before is None or len(before["scores"]) > 1:
        return "auto"
    if before["scores"]:
        return [name for name in before["terms"] if name != LEVEL]
    raise InputError(
        "The mean that pilot users share was given, and can't be read from the trial's evolutions. "
        "Give Trial.relearn the same {shared}.",
        shared=...,
    )


def _check_pilots(pilots: Cohort, evolutions: Evolutions, priors: Priors | None) -> None:
    """Check that a cohort is the one from which evolutions were learned."""
    transform, family = evolutions.scaling.transform, evolutions.scaling.family
    datasets = sum(c.count for c in evolutions.clusters if c.draw == 0)
    then: dict[str, Any] = {
        "features": evolutions.features,
        "target": evolutions.target,
        "levels of categories": evolutions.levels,
        "family": None if family is None else family.name,
        "number of data sets (users and their time steps)": datasets,
    }
    now = {
        "features": pilots.features,
        "target": pilots.target,
        "levels of categories": dict(pilots.levels),
        "family": None if pilots.family is None else pilots.family.name,
        "number of data sets (users and their time steps)": pilots.n_datasets,
    }
    wrong = next((name for name in then if then[name] != now[name]), None)
    if wrong is not None:
        raise InputError(
            f"The pilot users aren't those of the trial's evolutions: their {wrong} is "
            f"{now[wrong]}, and was {then[wrong]}. Give the pilot study of the trial."
        )
    scaling = _scaling(robust(pilots), None if transform is None else transform.name, priors)
    ranges = evolutions.scaling.feature_high - evolutions.scaling.feature_low
    away = [
        (scaling.feature_low - evolutions.scaling.feature_low) / ranges,
        (scaling.feature_high - evolutions.scaling.feature_high) / ranges,
        (scaling.target_mean - evolutions.scaling.target_mean) / evolutions.scaling.target_sd,
        scaling.target_sd / evolutions.scaling.target_sd - 1,
    ]
    if max(np.max(np.abs(one)) for one in away) > ROUNDING:
        raise InputError(
            "The pilot users aren't those of the trial's evolutions: their values have another "
            "range, mean or standard deviation. Give the pilot study of the trial."
        )


def _scaling(cohort: Cohort, transform: Any, priors: Priors | None) -> Scaling:
    if transform is None and priors is not None:
        return scaling_for(cohort, priors)
    return Scaling.unit(cohort, transform)


def _data(store: Store, pilots: Cohort, path: Path) -> _Learned:
    """Return pilot users and participants with their live observations.

    A folder that has a run already says which observations it learns from.
    """
    begun = path / DATA
    chosen = json.loads(begun.read_text("utf-8")) if begun.is_file() else None
    p, o = schema.participants.c, schema.observations.c
    members, data = [], []
    with schema.reading(store.engine) as db:
        for known in db.execute(select(schema.participants).order_by(p.id)).mappings().all():
            which = o.state == "live"
            if chosen is not None:
                which = o.id.in_(chosen.get(str(known["id"]), []))
            gone = which & (o.state == "removed") & (o.participant == known["id"])
            if db.execute(select(o.id).where(gone).limit(1)).first() is not None:
                raise InputError(
                    "A participant from whom this run learns was removed. Delete the folder "
                    f"{path}, and start again."
                )
            found = store.read(db, which & (o.participant == known["id"]), known["artefact"])
            if found is not None and _is_usable(found, pilots):
                members.append(known)
                data.append(found)
    if not data:
        raise InputError(
            f"No participant has {STEPS} time steps, so that there is nothing to learn from. "
            "Wait for more rows."
        )
    numbers = {str(known["id"]): one.observations for known, one in zip(members, data, strict=True)}
    if chosen is None:
        path.mkdir(parents=True, exist_ok=True)
        write_atomically(begun, json.dumps(numbers).encode())
    return _Learned(_cohort(pilots, members, data), members, data)


def _is_usable(data: Observations, pilots: Cohort) -> bool:
    """Whether there are enough time steps, and no level of a category that pilot users lack."""
    codes = [pilots.features.index(name) for name in pilots.levels]
    return len(data.points.ends) >= STEPS and bool((data.points.x[:, codes] >= 0).all())


def _cohort(pilots: Cohort, members: list[Row], data: list[Observations]) -> Cohort:
    """Return a cohort of pilot users and participants, in this order."""
    points = [one.points for one in data]
    parts: dict[str, Any] = {
        "users": (*map(str, pilots.users), *(f"participant {one['label']}" for one in members)),
        "inputs": (*pilots.inputs, *(one.x for one in points)),
        "targets": (*pilots.targets, *(one.y for one in points)),
        "ends": (*pilots.ends, *(one.ends for one in points)),
    }
    for name in ("noise", "sizes"):
        own, others = getattr(pilots, name), [one.given.get(name) for one in points]
        if (own is None) != (others[0] is None):
            raise InputError(
                f"Either the pilot users or the participants have no {name}. "
                "Give the pilot study of the trial."
            )
        parts[name] = None if own is None else (*own, *others)
    family = pilots.family
    if family is not None:
        family = Family.learn(family.name, parts["targets"], parts["sizes"], parts["users"])
    nothing: dict[str, Any] = dict.fromkeys(("truth", "latent", "latent_noise"))
    return replace(pilots, **parts, **nothing, family=family)


def _model(
    cohort: Cohort, evolutions: Evolutions, priors: Priors | None, shared: Any
) -> EvolutionModel:
    """Return the model with the settings of earlier evolutions."""
    settings, transform = evolutions.settings, evolutions.scaling.transform
    alpha: Any = evolutions.concentration
    if isinstance(alpha, tuple):
        prior = settings["concentration"]
        alpha = Concentration(prior["shape"] / prior["rate"], **prior)
    names = ("feedback", "likelihood", "likelihood_power")
    options = {name: settings[name] for name in names if name in settings}
    options |= {"concentration": alpha}
    cohort = robust(cohort)
    scaling = _scaling(cohort, None if transform is None else transform.name, priors)
    options |= {"scaling": scaling}
    return EvolutionModel.from_cohort(cohort, evolutions.pool, priors, shared=shared, **options)


def _complete(runs: Mapping[str, RunResult], planned: int) -> Posteriors:
    """Return the posteriors of the model, the final and the unshared one.

    Raises
    ------
    SamplingError
        If a chain failed.
    KeyboardInterrupt
        If a run is incomplete.
    """
    failures = [failure for run in runs.values() for failure in run.failures]
    if failures:
        raise SamplingError(f"A chain failed: {failures[0]}.")
    if len(runs) < planned or not all(run.complete for run in runs.values()):
        raise KeyboardInterrupt
    unshared = runs[UNSHARED].idata if UNSHARED in runs else None
    return runs[MAIN].idata, runs[FINAL].idata, unshared


def _evolutions(
    store: Store, idata: "DataTree", final: "DataTree | None", unshared: "DataTree | None"
) -> Evolutions:
    """Return what is kept: evolutions, whether chains disagree, and calibrated intervals."""
    found = Evolutions.from_posterior(idata, final=final, unshared=unshared)
    apart = " ".join(disagreements(diagnose(idata, final=final)))
    if apart:
        found = replace(found, settings={**found.settings, DISAGREE: apart})
    if store.evolutions.calibration is None:
        return found
    return calibrate(found, idata, final=final, unshared=unshared)


def _paired(store: Store, learned: _Learned, user: int, selector: KEMSelector) -> np.ndarray:
    """Return log densities (2, rows) of a participant's next rows, before and by a selector.

    Before is by the first selection that was made from the same data, if its artefact wasn't
    learned from the rows to be predicted: what was served, unless the rows came together.
    """
    s, cohort = schema.selections.c, learned.cohort
    place = user - cohort.n_users + len(learned.data)
    known, data = learned.participants[place], learned.data[place]
    path = select_online_for_user(selector, points_of(cohort, user))
    found: list[np.ndarray] = []
    with schema.reading(store.engine) as db:
        query = select(schema.selections).where(s.participant == known["id"]).order_by(s.number)
        made = db.execute(query).mappings().all()
        for step, selection in enumerate(path[:-1]):
            n, until = (int(end) for end in data.points.ends[step : step + 2])
            rows = {*data.observations[n:until]}
            same = (one for one in made if one["data_hash"] == data.hash(n))
            before = next((one for one in same if not rows & _seen(db, one["artefact"])), None)
            coming = points_to_predict(cohort, user, step, "next")
            if before is None or before["content"] is None or coming is None:
                continue
            x, y, given = coming
            both = (store.selection(db, before), selection)
            predicted = [each.predict(x, include_noise=True, **given) for each in both]
            found.append(np.stack([each.observation.log_density(y) for each in predicted]))
    return np.hstack(found) if found else np.empty((2, 0))


def _seen(db: Any, number: int) -> set[int]:
    """Return the numbers of the observations from which an artefact was learned."""
    query = select(schema.artefacts.c.about).where(schema.artefacts.c.id == number)
    about = json.loads(db.execute(query).scalar_one() or "{}")
    return {*about.get("observations", [])}


def _keep(
    store: Store, learned: _Learned, found: Evolutions, pairs: Mapping[int, np.ndarray]
) -> Artefact:
    """Write an artefact, or find the same one."""
    against, every = store.artefact, [n for one in learned.observations for n in one]
    table = differences(store.selector(against).evolutions, found)
    about = {
        "against": against,
        "pilots": learned.cohort.n_users - len(learned.data),
        "participants": len(learned.data),
        "rows": len(every),
        "observations": every,
        "differences": json.loads(table.to_json(orient="values", double_precision=15)),
        "comparison": asdict(Comparison.of(pairs)) if pairs else None,
    }
    a, o = schema.artefacts.c, schema.observations.c
    with schema.writing(store.engine) as db:
        gone = select(o.participant).where(o.state == "removed").distinct()
        removed = {*db.execute(gone).scalars()}
        if removed & {known["id"] for known in learned.participants}:
            raise InputError(
                "A participant was removed while evolutions were learned from their data, too. "
                "They weren't kept. Start again."
            )
        same = db.execute(select(a.id).where(a.hash == found.content_hash)).scalar()
        if same is None:
            same = insert_artefact(db, found, json.dumps(about))
            log(db, None, "learned", f"Artefact {same}.")
    return artefact(store, same)
