"""The Kernel Evolution Model: studies, methods, and every figure, on an experiment of seconds."""

from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from experiments.kem import fig5, fig8, studies, trials
from experiments.kem.figures import FIGURES
from experiments.kem.methods import METHODS, PRIOR_VARIANTS
from experiments.results import Options
from kem_pymc import priors as prior_tables
from kem_pymc.comparison.methods import Training
from kem_pymc.comparison.study import priors_of
from kem_pymc.data.datasets import DataFileNotFoundError
from kem_pymc.errors import InputError
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.cluster_model import scaling_for
from kem_pymc.priors import Unexplained
from tests.experiments.conftest import TINY, with_figure


def given(rows):
    """What a figure is made of, without an experiment."""
    own = pd.DataFrame(rows)
    names = dict.fromkeys(own["study"])
    return SimpleNamespace(selections=own, title=str, studies=names, methods=METHODS)


class TestSettings:
    def test_every_figure_can_be_made(self):
        own = trials.settings()
        assert set(own.figures) == set(FIGURES)
        for figure in own.figures.values():
            assert set(figure["studies"]) <= set(own.studies)
            assert set(figure["methods"]) <= set(own.methods)
            assert set(figure.get("only", {})) <= set(figure["methods"])

    def test_methods_for_some_studies_run_on_no_others(self, tiny, tmp_path):
        some = with_figure(tiny, "kem-peers", only={"Final": ["tiny"]})
        tasks = some.tasks("kem-peers", Options(tmp_path))
        found = {(task.study.name, name) for task in tasks for name in task.methods}
        assert found == {("tiny", "KEM"), ("tiny", "Final"), ("batches", "KEM")}

    @pytest.mark.integration
    def test_users_can_be_dealt(self, tmp_path):
        """Every trial, and the parts of pilot users."""
        own = trials.settings()
        options = Options(tmp_path, trials=1)
        tasks = [task for name in own.figures for task in own.tasks(name, options)]
        dealt = set()
        for task in {(t.study.name, t.study.folds): t for t in tasks}.values():
            with suppress(DataFileNotFoundError):
                users = task.study.deal(task.trial, task.seed)
                assert not set(users.pilot.users) & set(users.test.users) or not task.study.folds
                assert users.test.n_users >= 1
                dealt.add(task.study.name)
        assert dealt >= {"synthetic", "similar", "complex"}

    def test_choices_are_made_on_users_whom_nothing_reports(self, tmp_path):
        own = trials.settings()
        choices = own.figures["kem-choices"]
        others = [figure for name, figure in own.figures.items() if name != "kem-choices"]
        assert not set(choices["studies"]) & {s for figure in others for s in figure["studies"]}
        tasks = own.tasks("kem-choices", Options(tmp_path, trials=1, seed=3))
        assert {task.seed for task in tasks} == {103}

    def test_quick_is_little(self, tiny, tmp_path):
        tasks = tiny.tasks("kem-fig4", Options(tmp_path, quick=True))
        assert {(t.trial, t.scale.test_users, t.scale.sampling["cut"].draws) for t in tasks} == {
            (0, 2, 4)
        }
        memoryless = {"Memoryless": {"like": "Memoryless"}}
        plain = trials.KEMSettings.of(TINY | {"methods": memoryless})
        (own,) = (
            task.methods["Memoryless"]
            for task in plain.tasks("kem-fig4", Options(tmp_path, trials=1, quick=True))
            if "Memoryless" in task.methods
        )
        assert own.options["steps"] == trials.QUICK_STEPS

    @pytest.mark.parametrize("name", ["default", "synthetic"])
    def test_prior_variants(self, name):
        """By data: fails where a variant is another, or changes more than it says."""
        pool = CandidatePool(["SE0", "LIN0", "PER0"])
        left = Unexplained(0.5, 0.4)
        plain = PRIOR_VARIANTS["study"](name, pool, left)
        floor = PRIOR_VARIANTS["floor"](name, pool, left).to_dict()
        assert floor == plain.to_dict() | {"noise_floor": 0.01}
        paper = prior_tables.paper() if name == "default" else prior_tables.synthetic()
        assert PRIOR_VARIANTS["paper"](name, pool, left).to_dict() == paper.to_dict()
        one = PRIOR_VARIANTS["one-noise"](name, pool, None)
        assert one.to_dict() == paper.without_parent().to_dict()
        few = PRIOR_VARIANTS["few-enter"](name, pool, None)
        assert sum(map(few.entering, pool)) == pytest.approx(0.4)
        assert few.to_dict()["hyperparameters"] == paper.to_dict()["hyperparameters"]
        assert priors_of("unit", pool).to_dict() == prior_tables.paper().to_dict()


class TestStudies:
    def test_pilot_users_are_held_out_in_turn(self, tiny):
        study = replace(tiny.studies["tiny"], folds=4)
        for drawn in (0, 1):
            pilot = replace(study, folds=None).deal(drawn, 0).pilot
            parts = [study.deal(trial, 0) for trial in range(4 * drawn, 4 * drawn + 4)]
            assert sorted(u for part in parts for u in part.test.users) == sorted(pilot.users)
            for part in parts:
                assert set(part.pilot.users) == set(pilot.users) - set(part.test.users)
                (user,) = part.test.users
                own = pilot.targets[pilot.users.index(user)]
                np.testing.assert_array_equal(part.test.targets[0], own)

    @pytest.mark.parametrize("folds", [1, 5])
    def test_there_are_folds_for_pilot_users(self, tiny, folds):
        with pytest.raises(InputError, match=f"4 pilot users can't be held out in {folds} folds"):
            replace(tiny.studies["tiny"], folds=folds).deal(0, 0)

    def test_new_users_share_what_pilot_users_share(self):
        pilot, test = trials.settings().studies["slopes"].deal(0, 1)
        assert (pilot.n_users, test.n_users) == (16, 30)
        np.testing.assert_array_equal(pilot.truth.shared_test, test.truth.shared_test)
        assert pilot.truth.shared_test.any()
        assert pilot.targets[0][0] != test.targets[0][0]

    def test_default_candidates_are_those_of_tables(self, tiny):
        """Fails where the experiments' pool and that of the command line part."""
        study = replace(tiny.studies["panel"], pool=(), pool_name=studies.DEFAULT_POOL)
        pilot = study.deal(0, 0).pilot
        assert list(study.candidates(pilot)) == studies.default_pool(pilot).names


class TestTrainings:
    def test_another_method_goes_by_what_was_learned(self, tiny, out, evidence, monkeypatch):
        """Evolutions are read, with their R-hat and the time that learning took."""
        evidence("kem-table2")
        (task,) = tiny.tasks("kem-table2", Options(out, trials=1))
        monkeypatch.setattr(type(task.method), "learn", None)
        again = replace(task, methods={"KEM, ml, bic": task.methods["KEM, ml, bic"]}).run()
        first = pd.read_csv(task.file(out), keep_default_na=False, na_values=[""])
        first = first[first["method"] == "KEM, ml, bic"].reset_index(drop=True)
        columns = ["composition", "log_likelihood", "learning", "r_hat"]
        pd.testing.assert_frame_equal(again[columns], first[columns])
        assert list(task.evolutions()) == ["cut"]

    def test_maximum_a_posteriori_goes_by_the_priors_of_what_was_learned(self, tiny, out):
        """Methods that know no parent have one prior of the noise, whatever the parent."""
        (task,) = [
            t for t in tiny.tasks("kem-fig5", Options(out, trials=1)) if "Final" in t.methods
        ]
        pilot = task.study.deal(0, 0).pilot
        table, pool = prior_tables.synthetic(), CandidatePool(task.study.pool)
        scaling = scaling_for(pilot, table)
        training = Training(pilot, pool, table, scaling, None, task.scale.sampling)
        task.method.learn(training, np.random.default_rng(0))
        scorer = replace(task.method, options={"fit": "map"}).selector(training).scorer
        assert str(scorer.priors.noise) == str(table.without_parent().noise)


@pytest.mark.integration
@pytest.mark.parametrize("name", list(TINY["figures"]))
def test_files(evidence, name, tmp_path):
    output = FIGURES[name](evidence(name))
    files = output.write(name, tmp_path, ["What was run."])
    assert all(file.stat().st_size > 0 for file in files)
    tidy = pd.read_csv(files[0])
    assert len(tidy) > 0
    columns = ["study", "trial", "method", "user", "time_step"]
    assert name == "kem-fig3" or list(tidy.columns[:5]) == columns
    page = files[-1].read_text("utf-8")
    assert (output.figure is None) == (f"{name}.png" not in page)
    for title in output.tables:
        assert f"## {title}" in page


@pytest.mark.parametrize(
    ("composition", "truth", "expected"),
    [
        ("LIN0 + PER0", "LIN0 + PER0", True),
        ("LIN0 + PER0 + SE0", "LIN0 + PER0", True),
        ("LIN0 x PER0", "LIN0 + PER0", False),
        ("WHITE", "SE0", False),
    ],
)
def test_the_truth_is_in_a_composition(composition, truth, expected):
    assert fig5.contains(composition, truth) == expected


def test_figure_5_has_bars_that_add_up_to_one():
    names = ["SE0", "SE0", "LIN0", "PER0", "WHITE", "LIN0 + PER0", "LIN0 x PER0", "LIN0 + SE0"]
    rows = [
        {"truth": truth, "method": method, "time_step": step, "composition": name}
        for truth in ("LIN0", "SE0")
        for method in ("KEM", "ARD")
        for step in (0, 5)
        for name in (names if step else [truth])
    ]
    axes = np.reshape(fig5.draw(pd.DataFrame(rows)).axes, (4, 2))
    assert [ax.get_title() for ax in axes[0]] == ["KEM", "ARD"]
    assert axes[1, 0].get_ylabel() == "LIN0\ntime step 6"
    assert [bar.get_width() for bar in axes[2, 1].patches] == [1]
    widths = [bar.get_width() for bar in axes[1, 1].patches]
    assert widths == [2 / 8, 1 / 8, 1 / 8, 1 / 8, 1 / 8, 2 / 8]  # 2 / 8 of the others
    assert [text.get_text() for text in axes[1, 1].texts][-2:] == ["2 more", "25%"]


def test_the_papers_values_stand_beside_its_setting():
    """And there is no column of the paper's for a study that isn't in it."""
    rows = [
        {"study": study, "method": method, "trial": t, "user": 0, "time_step": 1, "dropped": t}
        | {"person": t}
        for study in ("energy", "tiny")
        for method in ("KEM", "KEM, ml, bic")
        for t in (0, 1, 2)
    ]
    table = FIGURES["kem-table2"](given(rows)).tables["Features dropped per time step"]
    assert table.loc["KEM, ml, bic", ("energy", "paper")] == "0.08 ± 0.05"
    assert table.loc["KEM", ("energy", "paper")] == ""
    assert [c for c in table.columns if c[0] == "tiny"] == [("tiny", "here")]
    half = student.ppf(0.975, 2) / np.sqrt(3)
    assert table.loc["KEM", ("energy", "here")] == f"1.00 ± {half:.2f}"


def test_two_trials_give_no_verdict(evidence):
    own = evidence("kem-peers")
    tables = FIGURES["kem-peers"](own).tables
    verdicts = tables["Verdicts"]["mean gain"]
    assert tables["Mean gain of KEM"].stack().to_dict() == verdicts.to_dict()
    assert tables["Verdicts"]["verdict"].tolist() == ["2 trials are too few"] * 2
    users = tables["Verdicts"]["users"].droplevel("other").to_dict()
    assert users == {"Tiny": 2 * 4, "Batches": 2 * 3}  # other ones in each trial
    rows = own.selections.query("study == 'tiny' and method == 'KEM' and time_step == 1")
    times = tables["Milliseconds per selection"]
    assert times.loc[("Tiny", "KEM"), 2].startswith(f"{1000 * rows['seconds'].mean():.1f} ± ")


def test_a_person_is_in_several_trials_where_they_deal_the_same_users(evidence):
    """Fails where users made anew share a label's person, or a user is one anew in every trial."""
    own = evidence("kem-peers")
    same = {name: replace(study, new_users=False) for name, study in own.studies.items()}
    dealt = replace(own, studies=same).selections
    assert (dealt["person"] == dealt["user"]).all()
    assert own.selections["person"].nunique() == 2 * dealt["person"].nunique()


def test_held_out_users_are_scored_on_their_next_batch(evidence, tiny, out):
    table = evidence("kem-defaults").selections
    last = table.groupby("study")["time_step"].transform("max")
    assert (table["log_likelihood"].isna() == (table["time_step"] == last)).all()
    folded = with_figure(tiny, "kem-fig5", folds=2).tasks("kem-fig5", Options(out))
    assert {task.study.target for task in folded} == {"next"}


def test_what_is_selected():
    """Users count once each: one is there in two trials, and is right in one of them."""
    trajectories = [(0, "u", "AA"), (1, "u", "AA"), (0, "v", "AB"), (0, "w", "BB")]
    rows = [
        {"study": "s", "method": "KEM", "trial": trial, "user": user, "person": user}
        | {"time_step": t, "composition": name, "seconds": 0.001 * (1 + t), "log_likelihood": 0.0}
        | {"size": 1 + t, "dropped": None if t == 0 else float(name == "B"), "cover95": 1.0 - trial}
        for trial, user, trajectory in trajectories
        for t, name in enumerate(trajectory)
    ]
    table = FIGURES["kem-peers"](given(rows)).tables["Summary of selections"]
    assert table.loc[("s", "KEM")].to_dict() == {
        "users": 3,
        "size at the first time step": "1.0",
        "at the last": "2.0",
        "features dropped a step": "0.67",
        "stay, per cent": "67",
        "in 95 % intervals, per cent": "83",
        "at single time steps": "83 to 83",
        "milliseconds (median)": "2",
    }


def test_defaults_are_ranked_by_means_over_time_steps(evidence):
    own = evidence("kem-defaults")
    shown = FIGURES["kem-defaults"](own).tables["Mean test log-likelihood"]
    assert set(shown.index) == {"KEM", "KEM, ml, bic"}
    assert list(shown["mean rank"]) == sorted(shown["mean rank"])
    rows = own.selections.query("study == 'batches' and method == 'KEM, ml, bic'")
    mean = rows.groupby(["trial", "time_step"])["log_likelihood"].mean().mean()
    assert shown.loc["KEM, ml, bic", "Batches"].startswith(f"{mean:.2f} ± ")
    assert "±" not in shown.loc["KEM", "Batches"]  # its difference to itself


@pytest.mark.integration
def test_figure_8_measures(monkeypatch):
    sizes = {"USERS": (3, 6), "STEPS": (2, 3), "DIMENSIONS": (2, 3), "SETTLING": 1, "DRAWS": 2}
    for name, value in (sizes | {"TYPICAL": {"users": 3, "steps": 2, "dimension": 2}}).items():
        monkeypatch.setattr(fig8, name, value)
    output = fig8.make(None)
    assert len(output.tidy) == 6 * 2
    assert (output.tidy["seconds"] > 0).all()
    (table,) = output.tables.values()
    assert list(table.index) == ["users", "steps", "dimension"]
    cohort = fig8.pilot(6, 2, 3)
    assert (cohort.n_users, cohort.max_steps, cohort.dimension) == (6, 2, 3)


def test_the_grid_says_sizes_truths_and_r_hats():
    """Catches a truth judged before the last time step, and a method's R-hat taken from another."""
    rows = [
        {"study": "s", "trial": 0, "method": method, "user": user, "time_step": step}
        | {"size": size, "dropped": np.nan if step == 0 else 0.5, "log_likelihood": -1.0 - step}
        | {"truth": "SE0", "composition": composition, "r_hat": r_hat}
        for method, r_hat in (("KEM", 1.02), ("KEM joint", 1.3))
        for user, compositions in enumerate([("SE0", "LIN0"), ("LIN0", "SE0"), ("LIN0", "SE0")])
        for step, (composition, size) in enumerate(zip(compositions, (1, 3), strict=True))
    ]
    (table,) = FIGURES["kem-grid"](given(rows)).tables.values()
    row = table.loc[("s", "joint", "pilot", "posterior")]
    assert row["truth found, per cent"] == "67"
    assert row["log-likelihood"] == "-1.50"
    assert (row["size at the first time step"], row["at the last"]) == ("1.0", "3.0")
    assert row["features dropped a step"] == "0.50"
    assert row["largest R-hat"] == "1.30"
    assert table.loc[("s", "cut", "pilot", "posterior"), "largest R-hat"] == "1.02"
