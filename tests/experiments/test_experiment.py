"""Methods x studies x trials: the same wherever they run, and what is there isn't run again."""

import shutil
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from kem_pymc import priors as prior_tables
from kem_pymc.code_cache import PACKAGE
from kem_pymc.commands.reproduce import chains_of
from kem_pymc.datasets import DataFileNotFoundError
from kem_pymc.errors import InputError
from kem_pymc.evolution.cluster_model import scaling_for
from kem_pymc.experiments import runner, store
from kem_pymc.experiments import settings as given
from kem_pymc.experiments.data import load
from kem_pymc.experiments.learning import Lesson, priors_of
from kem_pymc.experiments.piece import Outcome, Piece, run
from kem_pymc.experiments.runner import pieces_of, run_pieces
from kem_pymc.experiments.store import ONLOOKERS, Store, code, source_digest
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.workers import Here, Processes
from tests.evolution.conftest import make_cohort
from tests.experiments.conftest import TINY

POOL = CandidatePool(["SE0"])  # of which these priors know nothing


@pytest.fixture
def figure(tiny):
    return tiny.figures["kem-fig5"]


def replaced(figure, **changes):
    """A figure with other settings."""
    return figure.model_copy(update=changes)


def numbers(table):
    """All but times, which are never the same."""
    return table.drop(columns="seconds")


def forbidden(piece):
    raise AssertionError(f"{piece.name} is run again")


def test_every_user_and_time_step_has_a_row(tiny, figure, done):
    table = done.selections(pieces_of(tiny, [figure]))
    counts = table.groupby(["method", "trial"]).size()
    assert (counts == 4 * 2).all()
    assert len(counts) == 2 * 2
    assert table["log_likelihood"].notna().all()
    assert set(table["truth"]) == {"LIN0 + PER0", "SE0"}


def test_the_last_step_has_no_next_batch(tiny, done):
    table = done.selections(pieces_of(tiny, [tiny.figures["kem-table2"]]))
    assert (table["log_likelihood"].isna() == (table["time_step"] == 2)).all()


def test_all_methods_see_the_same_users(tiny):
    pieces = pieces_of(tiny, tiny.figures.values())
    pieces = [p for p in pieces if p.name == "tiny" and p.folds is None]
    targets = {(p.trial, load(p.study, p.generator("users")).test.targets[0][0]) for p in pieces}
    assert len(targets) == 2  # trials


def test_pilot_users_are_held_out_in_turn(tiny):
    pieces = pieces_of(tiny, [replaced(tiny.figures["kem-defaults"], folds=4, studies=["tiny"])])
    pieces = [replace(pieces[0], trial=trial) for trial in range(8)]
    for drawn in (0, 1):
        pilot = replace(pieces[0], folds=None, trial=drawn).users().pilot
        parts = [piece.users() for piece in pieces[4 * drawn : 4 * drawn + 4]]
        assert sorted(u for part in parts for u in part.test.users) == sorted(pilot.users)
        for part in parts:
            assert set(part.pilot.users) == set(pilot.users) - set(part.test.users)
            (user,) = part.test.users
            own = pilot.targets[pilot.users.index(user)]
            np.testing.assert_array_equal(part.test.targets[0], own)


def test_held_out_users_are_judged_by_their_next_batch(tiny, done):
    table = done.selections(pieces_of(tiny, [tiny.figures["kem-defaults"]]))
    last = table.groupby("study")["time_step"].transform("max")
    assert (table["log_likelihood"].isna() == (table["time_step"] == last)).all()


@pytest.mark.parametrize("folds", [1, 5])
def test_there_are_folds_for_pilot_users(tiny, folds):
    (piece, *_) = pieces_of(tiny, [replaced(tiny.figures["kem-defaults"], folds=folds)])
    with pytest.raises(InputError, match=f"4 pilot users can't be held out in {folds} parts"):
        piece.users()


def test_processes_give_the_same(tiny, figure, done, tmp_path):
    pieces = pieces_of(tiny, [figure])
    elsewhere = run_pieces(pieces, Store(tmp_path), Processes(2))
    here = done.selections(pieces)
    pd.testing.assert_frame_equal(numbers(elsewhere), numbers(here))


def test_what_is_there_is_not_run_again(tiny, done, monkeypatch):
    monkeypatch.setattr(runner, "run", forbidden)
    told = []
    pieces = pieces_of(tiny, tiny.figures.values())
    run_pieces(pieces, done, Here(), told.append)
    assert told == pieces


def test_an_interrupted_experiment_goes_on(tiny, figure, done, tmp_path):
    pieces = pieces_of(tiny, [figure])
    store = Store(tmp_path)

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_pieces(pieces, store, Here(), stop)
    left = [piece for piece in pieces if store.missing(piece)]
    assert len(left) == len(pieces) - 1
    table = run_pieces(pieces, store, Here())
    pd.testing.assert_frame_equal(numbers(table), numbers(done.selections(pieces)))


def test_another_method_goes_by_what_was_learned(tiny, done, tmp_path):
    shutil.copytree(done.folder, tmp_path / "copy")
    store = Store(tmp_path / "copy")
    (piece,) = [
        p
        for p in pieces_of(tiny, [tiny.figures["kem-ablation"]], trials=1)
        if (p.learns, p.supposes) == ("cut", "study")
    ]
    store.table(piece, "KEM, ml, bic").unlink()
    assert store.missing(piece) == ["KEM, ml, bic"]
    known = store.known(piece)
    assert list(known) == ["cut"]
    outcome = run(
        replace(piece, known=known, methods={"KEM, ml, bic": piece.methods["KEM, ml, bic"]})
    )
    assert outcome.seconds == 0.0
    store.keep(replace(piece, known=known), outcome)
    assert store.missing(piece) == []
    pd.testing.assert_frame_equal(
        numbers(store.selections([piece])), numbers(done.selections([piece]))
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 1},
        {"test_users": 2},
        {"folds": 3},
        {"supposes": "few-enter"},
        {"sampling": {"cut": given.Sampling(chains=1, tune=5, draws=11)}},
        {"cohort": make_cohort(((1, 2),) * 4)},  # another table under the same name
    ],
)
def test_other_settings_are_run_anew(tiny, figure, done, changed):
    for piece in pieces_of(tiny, [figure]):
        assert done.missing(replace(piece, **changed)) == list(piece.methods)


def test_other_code_makes_other_results(tiny, figure, done, monkeypatch):
    """Fails where what an earlier version learned or selected is taken for this one's."""
    pieces = pieces_of(tiny, [figure])
    assert all(done.missing(piece) == [] for piece in pieces)
    monkeypatch.setattr(store, "code", lambda: "another")
    for piece in pieces:
        assert done.missing(piece) == list(piece.methods)
        assert done.known(piece) == {}


def test_the_code_of_results_is_all_that_makes_them(tmp_path):
    """A change of any source but those that only look at results changes the digest."""
    for name in ("gp/fit.py", "selection/kem.py", "experiments/scores.py", *ONLOOKERS):
        path = tmp_path / (name if name.endswith(".py") else f"{name}/a.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1")
        source_digest.cache_clear()
        before = source_digest(tmp_path)
        path.write_text("x = 2")
        source_digest.cache_clear()
        assert (source_digest(tmp_path) == before) == (name in ONLOOKERS), name
    for onlooker in ONLOOKERS:
        assert (PACKAGE / onlooker).exists(), onlooker
    modules = [name.removesuffix(".py").replace("/", ".") for name in ONLOOKERS if "/" in name]
    for path in PACKAGE.joinpath("experiments").glob("*.py"):
        if f"experiments/{path.name}" not in ONLOOKERS:
            assert not [m for m in modules if f"kem_pymc.{m}" in path.read_text()], path


def test_quick_is_little(tiny, figure):
    pieces = pieces_of(tiny, [figure], quick=True)
    assert {(p.trial, p.test_users, p.steps) for p in pieces} == {(0, 2, 20)}
    assert {p.sampling["cut"].draws for p in pieces} == {4}
    assert {p.trial for p in pieces_of(tiny, [figure], trials=1)} == {0}


def test_baselines_depend_on_the_noise_without_a_parent_alone(tiny, figure, monkeypatch):
    def lessons():
        return {piece.learns: piece.lesson() for piece in pieces_of(tiny, [figure], trials=1)}

    before = lessons()
    table = priors_of("synthetic", POOL)
    monkeypatch.setattr(prior_tables, "synthetic", lambda: table.replace(noise=lambda _: 1.0))
    changed = {learns for learns, lesson in lessons().items() if lesson != before[learns]}
    assert changed == {"cut"}
    assert set(before) > changed


def test_what_a_default_is_belongs_to_what_selections_depend_on(tiny, figure, done, monkeypatch):
    (piece, *_) = [p for p in pieces_of(tiny, [figure]) if p.learns == "cut"]
    options = piece.exercise("KEM")["options"]
    assert (options["fit"], options["criterion"]) == ("pilot", "process")
    assert done.missing(piece) == []
    defaults = KEMSelector.__init__.__defaults__
    monkeypatch.setattr(KEMSelector.__init__, "__defaults__", ("ml", "bic"))
    assert done.missing(piece) == ["KEM"]
    monkeypatch.setattr(KEMSelector.__init__, "__defaults__", defaults)
    assert done.missing(piece) == []


def test_other_settings_lie_beside(tiny, figure, done, tmp_path):
    """A quick look never costs what took a night."""
    shutil.copytree(done.folder, tmp_path / "copy")
    store = Store(tmp_path / "copy")
    pieces = pieces_of(tiny, [figure])
    before = store.selections(pieces)
    run_pieces(pieces_of(tiny, [figure], quick=True, seed=3), store, Here())
    assert all(store.missing(piece) == [] for piece in pieces)
    pd.testing.assert_frame_equal(store.selections(pieces), before)
    assert store.codes(pieces) == [code()]


def test_maximum_a_posteriori_goes_by_the_priors_of_what_was_learned(tiny):
    """Methods that know no parent have one prior of the noise, whatever the parent."""
    (piece,) = [
        p for p in pieces_of(tiny, [tiny.figures["kem-ablation"]], trials=1) if p.learns == "final"
    ]
    users = piece.users()
    table = priors_of("synthetic", POOL)
    pool, scaling = CandidatePool(piece.candidates()), scaling_for(users.pilot, table)
    lesson = Lesson(users.pilot, pool, table, scaling)
    lesson.learn("final", piece.sampling, piece.generator("final"))
    judge = lesson.selector(piece.methods["Final, map"])._judge
    assert str(judge.priors.noise) == str(priors_of("synthetic", POOL).without_parent().noise)


@pytest.mark.parametrize("method", ["ARD", "Two-level"])
def test_scores_with_a_transform_are_of_the_target_itself(tiny, method):
    """The logarithm's Jacobian and the target's unit are counted, for models of users as well."""
    logs = make_cohort(((4, 8),) * 4)
    raw = replace(logs, targets=tuple(np.exp(y) for y in logs.targets))
    given_methods = {"ARD": tiny.methods["ARD"], "Two-level": given.Method(learns="two-level")}
    made = {"methods": {method: given_methods[method]}, "sampling": tiny.sampling, "trial": 0}
    table = {"title": "t", "data": "table", "pool": ["SE0"], "judged": "next", "trials": 1}

    def piece(cohort, transform):
        study = given.Study(**table, transform=transform)
        return Piece("t", study, learns=given_methods[method].learns, cohort=cohort, **made)

    through, plain = piece(raw, "log"), piece(logs, None)
    found, expected = (run(own).selections for own in (through, plain))
    y = [np.log(raw.targets[raw.users.index(user)][4:8]).mean() for user in found["user"]]
    found, expected = found["log_likelihood"], expected["log_likelihood"]
    pilots = [np.concatenate(own.users().pilot.targets).std() for own in (through, plain)]
    np.testing.assert_allclose(found, expected - y + np.log(pilots[0] / pilots[1]), rtol=1e-8)


def test_users_of_the_packages_settings():
    """Every trial can be dealt; the parts of pilot users, too."""
    settings = given.default()
    assert settings.methods["KEM, ml, bic"].options == {"fit": "ml", "criterion": "bic"}
    pieces = pieces_of(settings, settings.figures.values(), trials=1)
    looked_at = set()
    for piece in {(p.name, p.trial, p.folds): p for p in pieces}.values():
        with suppress(DataFileNotFoundError):
            users = piece.users()
            assert not set(users.pilot.users) & set(users.test.users) or piece.folds is None
            assert users.test.n_users >= 1
            looked_at.add(piece.name)
    assert looked_at >= {"synthetic", "similar", "complex"}


def test_choices_are_made_on_users_whom_nothing_reports():
    settings = given.default()
    choices = settings.figures["kem-choices"]
    others = [figure for name, figure in settings.figures.items() if name != "kem-choices"]
    assert not set(choices.studies) & {name for figure in others for name in figure.studies}
    seeds = lambda figures, **own: {p.seed for p in pieces_of(settings, figures, **own)}  # noqa: E731
    assert seeds([choices]) == {100}
    assert seeds([choices, *others], trials=1, seed=3) == {103, 3}


def test_new_users_share_what_pilot_users_share():
    study = given.default().studies["slopes"]
    pilot, test = load(study, np.random.default_rng(1))
    assert (pilot.n_users, test.n_users) == (16, 30)
    np.testing.assert_array_equal(pilot.truth.shared_test, test.truth.shared_test)
    assert pilot.truth.shared_test.any()
    assert pilot.targets[0][0] != test.targets[0][0]


def test_all_methods_mix_with_the_same_users_who_share_nothing():
    """Catches a method without that mixture, and other posteriors or another run for each."""
    settings = given.default()
    study = settings.studies["slopes"]
    study = study.model_copy(update={"options": study.options | {"test_users": 2}})
    sampling = {"cut": given.Sampling(chains=1, tune=5, draws=5)}
    pieces = [
        Piece("slopes", study, 0, learns, {name: settings.methods[name]}, sampling, shared="auto")
        for learns, name in (("final", "Final"), ("ard", "ARD"))
    ]
    outcomes = [run(piece) for piece in pieces]
    final, ard = (outcome.evolutions["unshared"] for outcome in outcomes)
    assert final == ard
    assert final.shared is None
    assert "unshared" not in outcomes[0].evolutions["final"].to_dict()  # kept once
    for piece, outcome in zip(pieces, outcomes, strict=True):
        again = run(replace(piece, known=outcome.evolutions)).selections
        pd.testing.assert_frame_equal(numbers(again), numbers(outcome.selections))
    known = {"final": outcomes[0].evolutions["final"]}
    without = run(replace(pieces[0], known=known)).selections
    assert (without.log_likelihood != outcomes[0].selections.log_likelihood).any()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[quick]", "[quick", "can't be used"),
        ('judged = "truth"', 'judged = "tea leaves"', "can't be used"),
        ('methods = ["KEM", "Final"]', 'methods = ["KEM", "Best"]', "needs 'Best'"),
        ("trials = 2", "trials = 0", "can't be used"),
    ],
)
def test_settings_are_checked(old, new, message):
    with pytest.raises(InputError, match=message):
        given.read(TINY.replace(old, new, 1))


def test_an_unknown_data_set(tiny):
    study = tiny.studies["tiny"].model_copy(update={"data": "tea"})
    piece = replace(pieces_of(tiny, tiny.figures.values())[0], study=study)
    with pytest.raises(InputError, match="no data set 'tea'"):
        run(piece)


def test_lessons_tell_in_how_many_chains_disagree(tiny, figure, tmp_path):
    """Catches a lesson that is counted once for each method, and one without chains counted."""
    pieces = pieces_of(tiny, [figure])
    store = Store(tmp_path)
    of_lesson = {}
    for number, piece in enumerate(pieces):
        r_hat = of_lesson.setdefault(store.place(piece), 1.0 + 0.1 * (number % 2))
        none = {"final": {"log_joint": None}, "cut": {"log_joint": r_hat, "n_clusters": None}}
        store.keep(piece, Outcome(pd.DataFrame({"method": []}), {}, 1.0, none))
    assert sorted(store.r_hats(pieces)) == sorted(of_lesson.values())
    apart = sum(value > 1.05 for value in of_lesson.values())
    assert 0 < apart < len(of_lesson)
    assert f"Chains disagree in {apart} of {len(of_lesson)} lessons" in chains_of(pieces, store)[0]
    store.keep(replace(pieces[0], seed=9), Outcome(pd.DataFrame({"method": []}), {}, 1.0, {}))
    assert chains_of([replace(pieces[0], seed=9)], store) == []
