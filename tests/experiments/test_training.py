"""What is learned from pilot users, and the priors that methods suppose."""

from dataclasses import replace

import pandas as pd
import pytest

from experiments.command import chains_of
from kem_pymc import priors as prior_tables
from kem_pymc.comparison import settings as given
from kem_pymc.comparison.runner import tasks_of
from kem_pymc.comparison.store import Store
from kem_pymc.comparison.task import Outcome, Task, run
from kem_pymc.comparison.training import Training, priors_of, supposed
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.cluster_model import scaling_for
from tests.experiments.conftest import numbers

POOL = CandidatePool(["SE0"])  # of which these priors know nothing


def test_baselines_depend_on_the_noise_without_a_parent_alone(tiny, figure, monkeypatch):
    def trainings():
        return {task.learns: task.training() for task in tasks_of(tiny, [figure], trials=1)}

    before = trainings()
    table = priors_of("synthetic", POOL)
    monkeypatch.setattr(prior_tables, "synthetic", lambda: table.replace(noise=lambda _: 1.0))
    changed = {learns for learns, training in trainings().items() if training != before[learns]}
    assert changed == {"cut"}
    assert set(before) > changed


def test_maximum_a_posteriori_goes_by_the_priors_of_what_was_learned(tiny):
    """Methods that know no parent have one prior of the noise, whatever the parent."""
    (task,) = [
        p for p in tasks_of(tiny, [tiny.figures["kem-ablation"]], trials=1) if p.learns == "final"
    ]
    users = task.users()
    table = priors_of("synthetic", POOL)
    pool, scaling = CandidatePool(task.candidates()), scaling_for(users.pilot, table)
    training = Training(users.pilot, pool, table, scaling)
    training.learn("final", task.sampling, task.generator("final"))
    scorer = training.selector(task.methods["Final, map"])._scorer
    assert str(scorer.priors.noise) == str(priors_of("synthetic", POOL).without_parent().noise)


@pytest.mark.integration
def test_all_methods_mix_with_the_same_users_who_share_nothing():
    """Catches a method without that mixture, and other posteriors or another run for each."""
    settings = given.default()
    study = settings.studies["slopes"]
    study = study.model_copy(update={"options": study.options | {"test_users": 2}})
    sampling = {"cut": given.Sampling(chains=1, tune=5, draws=5)}
    tasks = [
        Task("slopes", study, 0, learns, {name: settings.methods[name]}, sampling, shared="auto")
        for learns, name in (("final", "Final"), ("ard", "ARD"))
    ]
    outcomes = [run(task) for task in tasks]
    final, ard = (outcome.evolutions["unshared"] for outcome in outcomes)
    assert final == ard
    assert final.shared is None
    assert "unshared" not in outcomes[0].evolutions["final"].to_dict()  # kept once
    for task, outcome in zip(tasks, outcomes, strict=True):
        again = run(replace(task, known=outcome.evolutions)).selections
        pd.testing.assert_frame_equal(numbers(again), numbers(outcome.selections))
    known = {"final": outcomes[0].evolutions["final"]}
    without = run(replace(tasks[0], known=known)).selections
    assert (without.log_likelihood != outcomes[0].selections.log_likelihood).any()


def test_trainings_report_in_how_many_chains_disagree(tiny, figure, tmp_path):
    """Catches a training that is counted once for each method, and one without chains counted."""
    tasks = tasks_of(tiny, [figure])
    store = Store(tmp_path)
    of_training = {}
    for number, task in enumerate(tasks):
        r_hat = of_training.setdefault(store.place(task), 1.0 + 0.1 * (number % 2))
        none = {"final": {"log_joint": None}, "cut": {"log_joint": r_hat, "n_clusters": None}}
        store.keep(task, Outcome(pd.DataFrame({"method": []}), {}, 1.0, none))
    assert sorted(store.r_hats(tasks)) == sorted(of_training.values())
    apart = sum(value > 1.05 for value in of_training.values())
    assert 0 < apart < len(of_training)
    assert (
        f"Chains disagree in {apart} of {len(of_training)} trainings" in chains_of(tasks, store)[0]
    )
    store.keep(replace(tasks[0], seed=9), Outcome(pd.DataFrame({"method": []}), {}, 1.0, {}))
    assert chains_of([replace(tasks[0], seed=9)], store) == []


@pytest.mark.parametrize("name", ["default", "synthetic"])
def test_what_methods_suppose(name):
    """By data: fails where a supposition is that of another, or changes more than it says."""
    pool = CandidatePool(["SE0", "LIN0", "PER0"])
    plain = supposed(name, "study", pool, 0.5)
    assert plain.to_dict() == priors_of(name, pool, 0.5).to_dict()
    floor = supposed(name, "floor", pool, 0.5).to_dict()
    assert floor == plain.to_dict() | {"noise_floor": 0.01}
    paper = prior_tables.paper() if name == "default" else prior_tables.synthetic()
    assert supposed(name, "paper", pool, 0.5).to_dict() == paper.to_dict()
    assert supposed(name, "one-noise", pool).to_dict() == paper.without_parent().to_dict()
    few = supposed(name, "few-enter", pool)
    assert sum(map(few.entering, pool)) == pytest.approx(0.4)
    assert few.to_dict()["hyperparameters"] == paper.to_dict()["hyperparameters"]
    assert priors_of("paper", pool).to_dict() == prior_tables.paper().to_dict()
