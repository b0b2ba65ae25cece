"""Tasks: the same wherever they run, a row for every user and step, and nothing is run twice."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from experiments.kem.trials import settings
from kem_pymc._system.executors import Processes, Serial
from kem_pymc._system.jit.cache import PACKAGE
from kem_pymc.comparison import stored, task
from kem_pymc.comparison.methods import METHODS, Method, Sampling, register
from kem_pymc.comparison.output import Evidence, Output, markdown
from kem_pymc.comparison.pages import PAGES
from kem_pymc.comparison.stored import ONLOOKERS, code, run_tasks
from kem_pymc.comparison.study import SPLITS, Study
from kem_pymc.comparison.task import FULL, QUICK, Scale, r_hats, scored, tasks_of
from kem_pymc.data.cohort import Cohort, Split
from kem_pymc.data.families import Family
from tests.tiny_study import make_cohort

SCALE = Scale({"cut": Sampling(1, 5, 5)})
STUDY = Study(name="table", title="Table", cohort=make_cohort(((1, 2, 4),) * 6), pool=("SE0",))


def numbers(table):
    """All but times, which are never the same."""
    return table.drop(columns=["seconds", "cpu", "learning"])


@pytest.fixture(scope="module")
def tasks():
    methods = {name: METHODS[name] for name in ("KEM", "Final", "Pooled GP", "Mixed model")}
    return tasks_of(STUDY, methods, 2, SCALE)


@pytest.fixture(scope="module")
def done(tasks, tmp_path_factory):
    """The folder of all results."""
    out = tmp_path_factory.mktemp("comparison")
    shown = []
    run_tasks(tasks, out, Serial(), shown.append)
    assert shown == tasks
    return out


def test_methods_that_learn_the_same_share_a_task(tasks):
    trial = [{"KEM"}, {"Final"}, {"Mixed model", "Pooled GP"}]
    assert [set(own.methods) for own in tasks] == 2 * trial
    without = replace(METHODS["KEM"], without=("CONST",))
    own = {"KEM": METHODS["KEM"], "no level": without, "single": replace(without, single=True)}
    assert [list(t.methods) for t in tasks_of(STUDY, own, 1)] == [["KEM"], ["no level", "single"]]


def test_every_user_and_time_step_has_a_row(tasks, done):
    """All methods see the same users; the last step has no next batch; trainings count once."""
    table = stored.read_results(tasks, done)
    counts = table.groupby(["method", "trial"]).size()
    assert (counts == 3 * 3).all()
    assert (table["cpu"] > 0).all()
    last = table["time_step"] == table["time_step"].max()
    assert (table["kilobytes"] > 0).eq(last).all()
    assert len(counts) == 4 * 2
    assert (table["log_likelihood"].isna() == (table["time_step"] == 2)).all()
    users = table.groupby(["trial", "method"])["user"].unique().map(tuple)
    assert users.groupby("trial").nunique().tolist() == [1, 1]
    assert users[0].iloc[0] != users[1].iloc[0]
    assert (table.groupby("method")["learning"].max()[["KEM", "Final"]] > 0).all()


def test_trainings_count_once_for_r_hat():
    """Catches a training that is counted once for each method, and one without chains counted."""
    table = pd.DataFrame(
        {
            "study": "s",
            "trial": [0, 0, 0, 0, 1],
            "method": ["KEM", "KEM, ml", "Final", "ARD", "KEM"],
            "learning": [1.0, 1.0, 2.0, 0.0, 3.0],
            "r_hat": [1.2, 1.2, 1.01, np.nan, 1.1],
        }
    )
    assert sorted(r_hats(table)) == [1.01, 1.1, 1.2]


@pytest.mark.integration
def test_processes_give_the_same(tasks, done, tmp_path):
    elsewhere = run_tasks(tasks[:2], tmp_path, Processes(2))
    pd.testing.assert_frame_equal(numbers(elsewhere), numbers(stored.read_results(tasks[:2], done)))


def test_an_interrupted_comparison_goes_on(tasks, done, tmp_path, monkeypatch):
    """What is stored is read, not run; the rest is run."""
    calls = []

    def results(self):
        calls.append(self)
        return pd.read_csv(self.file(done), keep_default_na=False, na_values=[""])

    def stop(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(task.ComparisonTask, "run", results)
    with pytest.raises(KeyboardInterrupt):
        run_tasks(tasks, tmp_path, Serial(), stop)
    table = run_tasks(tasks, tmp_path, Serial())
    assert calls == tasks
    pd.testing.assert_frame_equal(table, stored.read_results(tasks, done))


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 1},
        {"trial": 7},
        {"scale": replace(SCALE, test_users=2)},
        {"scale": Scale({"cut": Sampling(1, 5, 6)})},
        {"study": replace(STUDY, cohort=make_cohort(((1, 2),) * 4))},  # under the same name
        {"study": replace(STUDY, priors="synthetic")},
        {"study": replace(STUDY, transform="yeo-johnson")},
        {"methods": {"KEM": replace(METHODS["KEM"], options={"fit": "ml"})}},
        {"methods": {"KEM": replace(METHODS["KEM"], shared=False)}},
    ],
)
def test_other_settings_are_run_anew(tasks, done, changed):
    assert not replace(tasks[0], **changed).file(done).is_file()


def test_other_code_makes_other_results(tasks, done, monkeypatch):
    """Fails where what an earlier version selected is taken for this one's."""
    assert all(own.file(done).is_file() for own in tasks)
    monkeypatch.setattr(task, "code", lambda: "another")
    assert not any(own.file(done).is_file() for own in tasks)


def test_the_code_of_results_is_all_that_makes_them(tmp_path):
    """A change of any source but those that only look at results changes the digest."""
    for name in ("gp/fit.py", "selection/kem.py", "selection/scores.py", *ONLOOKERS):
        path = tmp_path / (name if name.endswith(".py") else f"{name}/a.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1")
        code.cache_clear()
        before = code(tmp_path)
        path.write_text("x = 2")
        code.cache_clear()
        assert (code(tmp_path) == before) == (name in ONLOOKERS), name
    for onlooker in ONLOOKERS:
        assert (PACKAGE / onlooker).exists(), onlooker
    modules = [name.removesuffix(".py").replace("/", ".") for name in ONLOOKERS if "/" in name]
    for path in PACKAGE.joinpath("comparison").glob("*.py"):
        if f"comparison/{path.name}" not in ONLOOKERS:
            assert not [m for m in modules if f"kem_pymc.{m}" in path.read_text()], path


@pytest.mark.parametrize("method", ["ARD", "Two-level GP"])
def test_scores_with_a_transform_are_of_the_target_itself(method):
    """The logarithm's Jacobian and the target's unit are counted, for models of users as well."""
    logs = make_cohort(((4, 8),) * 4)
    raw = replace(logs, targets=tuple(np.exp(y) for y in logs.targets))
    own = {method: replace(METHODS[method], shared=False)}
    through = replace(STUDY, cohort=raw, transform="log")
    plain = replace(STUDY, cohort=logs)
    found, expected = (tasks_of(study, own, 1, SCALE)[0].run() for study in (through, plain))
    y = [np.log(raw.targets[raw.users.index(user)][4:8]).mean() for user in found["user"]]
    pilots = [np.concatenate(study.deal(0, 0).pilot.targets).std() for study in (through, plain)]
    np.testing.assert_allclose(
        found["log_likelihood"],
        expected["log_likelihood"] - y + np.log(pilots[0] / pilots[1]),
        rtol=1e-8,
    )


@pytest.mark.integration
def test_all_methods_mix_with_the_same_users_who_share_nothing(monkeypatch):
    """Catches a method without that mixture, and other posteriors or another run for each."""
    seen = []
    monkeypatch.setattr(task, "scored", lambda *_: [{"user": "u"}])
    learn = task.ComparisonTask.learn
    monkeypatch.setattr(
        task.ComparisonTask, "learn", lambda self, training, plain: seen.append(training) or learn(
            self, training, plain
        )
    )  # fmt: skip
    study = settings().studies["slopes"]  # whose users share a mean process
    for own in tasks_of(study, {name: METHODS[name] for name in ("Final", "ARD")}, 1, SCALE):
        own.run()
    final, ard = (training.evolutions["unshared"] for training in seen)
    assert final == ard
    assert final.shared is None
    assert "unshared" not in seen[0].evolutions["final"].to_dict()  # kept once
    assert seen[0].learned[0].unshared == final
    selectors = [METHODS[n].selector(own) for n, own in zip(("Final", "ARD"), seen, strict=True)]
    test = study.deal(0, 0).test
    first = test.subset(test.users[:1])
    without = replace(seen[0], evolutions={"final": seen[0].evolutions["final"]})
    rows = scored(selectors[0], first, "next")
    alone = scored(METHODS["Final"].selector(without), first, "next")
    found, expected = ([row.get("log_likelihood") for row in own] for own in (rows, alone))
    assert found != expected


def test_a_method_is_added_in_one_place():
    """A registered class is found by its name, and runs."""

    @register("First kernel", shared=False)
    class First(Method):
        training = "first"

        def selector(self, training):
            return METHODS["Pooled GP"].selector(training)

    try:
        (own,) = tasks_of(STUDY, {"First kernel": METHODS["First kernel"]}, 1, SCALE)
        assert set(own.run()["method"]) == {"First kernel"}
        assert isinstance(METHODS["First kernel"], First)
    finally:
        del METHODS["First kernel"]


def test_a_split_is_drawn_again_until_every_feature_varies(monkeypatch):
    """Fails where a pilot cohort without a feature's other value is used, or no end is seen."""
    cohort = make_cohort(((1, 2),) * 6)
    flat = [
        np.column_stack([x[:, 0], np.full(2, float(u < 1))]) for u, x in enumerate(cohort.inputs)
    ]
    study = replace(STUDY, cohort=replace(cohort, inputs=tuple(flat), features=("x", "rare")))
    for seed in range(6):
        pilot, test = study.deal(0, seed)
        assert cohort.users[0] in pilot.users
        assert not set(pilot.users) & set(test.users)
    never = tuple(np.column_stack([x[:, 0], np.ones(2)]) for x in flat)
    never = replace(study, cohort=replace(study.cohort, inputs=never))
    drawn = []
    monkeypatch.setattr(Cohort, "split", lambda self, _: drawn.append(1) or Split(self, self))
    never.deal(0, 0)
    assert len(drawn) == SPLITS


def test_quick_is_little():
    (first, *_) = quick = tasks_of(STUDY, {"KEM": METHODS["KEM"]}, 10, QUICK)
    assert len(quick) == 2
    assert first.scale.sampling["cut"].draws < FULL.sampling["cut"].draws


@pytest.mark.parametrize("name", [name for name in PAGES if name != "classes"])
def test_pages(tasks, done, name, tmp_path):
    """Each has values in long form, and a text with all its tables."""
    output = PAGES[name](Evidence(tasks, done, {"table": STUDY}))
    files = output.write(name, tmp_path, ["What was run."])
    assert all(file.stat().st_size > 0 for file in files)
    tidy = pd.read_csv(files[0])
    assert list(tidy.columns[:5]) == ["study", "trial", "method", "user", "time_step"]
    text = files[-1].read_text("utf-8")
    assert text.startswith(f"# {name}\n\nWhat was run.")
    assert (output.figure is None) == (f"{name}.png" not in text)
    assert all(f"## {title}" in text for title in output.tables)


def test_classes_have_a_page_of_their_own(tmp_path):
    """From the table to the picture; parameters of the family are those of pilot users only."""
    cohort = make_cohort(((1, 2, 4),) * 8)
    high = tuple((y > 0).astype(float) for y in cohort.targets)
    family = Family.learn("binary", high)
    study = replace(STUDY, cohort=replace(cohort, targets=high, family=family))
    pilot, test = study.deal(0, 0)
    assert pilot.family == test.family == Family.learn("binary", pilot.targets) != family
    levels = Family.learn("ordinal", high[:4], levels=[0, 2])
    assert levels.support() == (0, 2)
    (own,) = tasks_of(study, {"KEM": METHODS["Pooled GP"]}, 1, SCALE)
    run_tasks([own], tmp_path, Serial())
    evidence = Evidence([own], tmp_path, {"table": study})
    page = PAGES["classes"](evidence)
    assert set(page.tidy["level"]) == {1}
    assert page.tidy["rows"].sum() == 4 * (1 + 2)
    assert list(page.tables) == ["Class 1, of KEM"]
    assert len(page.figure.axes) == 1
    assert "Brier score (smaller is better)" in PAGES["calibration"](evidence).tables


def test_markdown(tmp_path):
    table = pd.DataFrame({"a": [1]}, index=pd.Index(["x"], name="method"))
    assert markdown(table) == "| method | a |\n| --- | --- |\n| x | 1 |"
    files = Output(pd.DataFrame({"a": [1]})).write("t", tmp_path, [])
    assert [file.name for file in files] == ["t.csv", "t.md"]
