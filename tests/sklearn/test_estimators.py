"""Regressors keep scikit-learn's rules, and say what the library says."""

import copy
import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import kem_pymc as kem
from kem_pymc.data.cohort import Cohort
from kem_pymc.errors import SamplingWarning
from kem_pymc.evolutions.evolutions import DISAGREE
from kem_pymc.runs.models import models_of
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.sklearn import KEMRegressor, KernelSearchRegressor, PopulationRegressor, base
from kem_pymc.sklearn import kem as estimator
from tests.refusals import refused

#: Few draws and models, with which each still explains half of the variance of scikit-learn's data.
SMALL = {
    "population": PopulationRegressor(draws=100, random_state=0),
    "search": KernelSearchRegressor(budget=12, random_state=0),
    "kem": KEMRegressor(draws=2, tune=2, chains=1, n_jobs=1, random_state=0),
}


@pytest.mark.integration
@pytest.mark.parametrize("name", list(SMALL))
def test_scikit_learn_finds_no_fault(name):
    """All of its checks: catches a parameter that is changed, a fit that isn't repeatable."""
    results = check_estimator(SMALL[name], on_fail=None, on_skip=None)
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"]
    assert failed == []
    assert Counter(r["status"] for r in results)["passed"] > 50


@pytest.mark.integration
def test_learning_is_the_librarys_and_chains_that_disagree_are_named(rows, monkeypatch):
    """The same evolutions, weights and calibration as by its functions, one after another."""
    monkeypatch.setattr(estimator, "disagreements", lambda _: ["Chains differ."])
    regressor = clone(SMALL["kem"])
    with pytest.warns(SamplingWarning, match="Chains differ. Give more draws"):
        regressor.fit(rows[["week"]], rows["steps"], rows["id"], rows["step"])
    cohort = Cohort.from_frame(
        rows, user="id", time="step", target="steps", features=["week"], batch=3
    )
    cohort = replace(cohort, target="y", time=None, time_kind=None)
    model = kem.EvolutionModel.from_cohort(cohort, kem.datasets.default_pool(cohort))
    options = {"draws": 2, "tune": 2, "chains": 1, "cores": 1, "random_seed": 0, "progress": False}
    posteriors = {name: kem.sample(of(model), **options) for name, of in models_of(model).items()}
    idata = kem.sample(model, **options)
    learned = kem.Evolutions.from_posterior(idata, **posteriors)
    learned = kem.calibrate(learned, idata, **posteriors)
    said = replace(learned, settings={**learned.settings, DISAGREE: "Chains differ."})
    assert regressor.evolutions_.content_hash == said.content_hash
    others = kem.Evolutions.from_posterior(idata, **posteriors, without=1)
    others = replace(others, novelty=learned.novelty, calibration=learned.calibration)
    bob = kem.select_online(KEMSelector(others), cohort.subset(["bob"]))["bob"]
    mine = regressor.selections_["bob"]
    assert [s.considered[0].score for s in mine] == [s.considered[0].score for s in bob]


@pytest.fixture(scope="module")
def fitted(learned, rows):
    """A KEMRegressor that selected for two users, by evolutions made by hand."""
    known = rows[rows["id"] != "cid"]
    regressor = KEMRegressor(evolutions=learned)
    return regressor.fit(known[["week"]], known["steps"], known["id"], known["step"])


def test_selections_are_the_librarys(fitted, learned, rows):
    """To the last bit, at every time step, and so are predictions, with their sds."""
    table = rows.rename(columns={"step": "time"})
    columns = {"user": "id", "time": "time", "target": "steps", "features": ["week"]}
    cohort = Cohort.from_frame(table[table["id"] != "cid"], **columns)
    selector = KEMSelector(learned)
    paths = kem.select_online(selector, cohort)
    new = np.array([[3.0], [19.0]])
    for user, path in paths.items():
        mine = fitted.selections_[user]
        assert [str(s.composition) for s in mine] == [str(s.composition) for s in path]
        expected = path[-1].predict(new, include_noise=True)
        mean, sd = fitted.predict(pd.DataFrame({"week": new[:, 0]}), [user] * 2, return_std=True)
        assert mean.tolist() == expected.mean.tolist()
        assert sd.tolist() == expected.sd.tolist()
    expected = selector.select(np.empty((0, 1)), []).predict(new, include_noise=True)
    at = pd.DataFrame({"week": new[:, 0]})
    for groups in (["someone"] * 2, None):
        mean, sd = fitted.predict(at, groups, return_std=True)
        assert (mean.tolist(), sd.tolist()) == (expected.mean.tolist(), expected.sd.tolist())
    assert fitted.predict(at, ["ann", "bob"])[0] == fitted.predict(at[:1], ["ann"])[0]


def test_rows_that_come_later_are_as_if_they_had_been_there(learned, rows):
    """Of old and new users, late ones and several at a time: the same selections at all steps."""

    def with_rows(*parts):
        regressor = KEMRegressor(evolutions=learned)
        for part in parts:
            given = (
                part["steps"],
                part["id"],
                pd.to_datetime("2024-01-01") + pd.to_timedelta(part["step"], unit="D"),
            )
            regressor.partial_fit(part[["week"]], *given)
        return regressor

    whole = with_rows(rows)
    early = rows["step"] < 2
    late = rows["step"] == 1
    seen = rows["id"] != "cid"
    for parts in (
        (rows[early], rows[~early]),
        (rows[~late & seen], rows[~seen], rows[late & seen]),
    ):
        regressor = with_rows(*parts)
        for user, path in whole.selections_.items():
            mine = regressor.selections_[user]
            assert [len(s.y) for s in mine] == [3, 6, 9, 12]
            for one, other in zip(mine, path, strict=True):
                assert one.considered[0].score == other.considered[0].score


def test_time_steps_without_times(learned, rows):
    """Six of the user with most rows, `batch` rows each, and one for each later call."""
    x, y = rows[["week"]], rows["steps"]

    def sizes(regressor):
        return [len(s.y) for s in regressor.selections_[None]]

    regressor = KEMRegressor(evolutions=learned).fit(x, y)
    assert sizes(regressor) == [6, 12, 18, 24, 30, 36]
    assert sizes(regressor.partial_fit(x[:5], y[:5])) == [6, 12, 18, 24, 30, 36, 41]
    assert sizes(regressor.partial_fit(x[:1], y[:1]))[-2:] == [41, 42]
    batches = KEMRegressor(evolutions=learned, batch=20).fit(x, y)
    assert sizes(batches) == [20, 36]
    assert sizes(batches.partial_fit(x[:5], y[:5])) == [20, 40, 41]
    mixed = KEMRegressor(evolutions=learned).fit(x[:9], y[:9], [1, "b", 1] * 3)
    assert [*mixed.selections_] == [1, "b"]
    assert batches.selections_[None][1].scaling is batches.evolutions_.scaling
    assert regressor.fit(x[:12], y[:12]).selections_[None][-1].y.shape == (12,)


@pytest.mark.parametrize("name", ["population", "kem"])
def test_users_who_are_left_out_in_turn(name, learned, rows):
    """GroupKFold gives users by metadata routing, and pandas' names pass a pipeline."""
    regressor = clone(SMALL[name])
    if name == "kem":
        regressor = KEMRegressor(evolutions=learned)
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(
            StandardScaler(with_mean=False, with_std=False).set_output(transform="pandas"),
            regressor.set_fit_request(groups=True, times=True),
        )
        given = {"groups": rows["id"], "times": rows["step"]}
        x, y = rows[["week"]], rows["steps"]
        found = cross_val_predict(pipeline, x, y, cv=GroupKFold(3), params=given)
        whole = pipeline.fit(x, y, **given)[-1]
    assert list(whole.feature_names_in_) == ["week"]
    out = rows["id"] == "bob"
    others = clone(regressor).fit(x[~out], y[~out], *(v[~out] for v in given.values()))
    np.testing.assert_allclose(found[out], others.predict(x[out]), rtol=1e-12)


def test_population_is_the_mixed_model():
    """Of users, known and new, statsmodels' predictions; without groups, least squares'."""
    rng = np.random.default_rng(5)
    level = rng.normal(0, 3, 40)
    table = pd.DataFrame({"id": np.repeat(np.arange(40), 8), "dose": rng.normal(size=320)})
    table["y"] = 2 + table["dose"] + level[table["id"]] + rng.normal(0, 1, 320)
    model = PopulationRegressor(["dose"], ["level"], random_state=1)
    model.fit(table[["dose"]], table["y"], table["id"])
    reml = smf.mixedlm("y ~ dose", table, groups="id").fit()
    at = pd.DataFrame({"dose": [-1.0, 2.0]})
    own = np.array([reml.random_effects[7].iloc[0]] * 2)
    np.testing.assert_allclose(model.predict(at), reml.predict(at), atol=0.02)
    np.testing.assert_allclose(model.predict(at, [7, 7]), reml.predict(at) + own, atol=0.02)
    new = np.sqrt(reml.cov_re.iloc[0, 0] + reml.scale + [0.25, 0.25])
    _, sd = model.predict(at, return_std=True)
    np.testing.assert_allclose(sd, new, rtol=0.1)
    # Of an observation more, the shrunken level by the formula.
    model.partial_fit(at[:1], [10.0], ["new"])
    shrunk = reml.cov_re.iloc[0, 0] / (reml.cov_re.iloc[0, 0] + reml.scale)
    expected = reml.predict(at) + shrunk * (10 - reml.predict(at)[0])
    np.testing.assert_allclose(model.predict(at, ["new"] * 2), expected, atol=0.15)
    plain = PopulationRegressor(random_state=1).fit(table[["dose"]], table["y"])
    line = np.polyval(np.polyfit(table["dose"], table["y"], 1), at["dose"])
    np.testing.assert_allclose(plain.predict(at), line, atol=0.02)
    residual = np.std(
        table["y"] - np.polyval(np.polyfit(table["dose"], table["y"], 1), table["dose"])
    )
    np.testing.assert_allclose(plain.predict(at, return_std=True)[1], residual, rtol=0.05)


def test_rows_that_were_learned_from_count_once():
    """Of four users with four rows each, the best linear unbiased predictions.

    Fails where what users share, learned from all, is conditioned on a user's rows again: with so
    few users predictions would be up to half an sd off.
    """
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"id": np.repeat(np.arange(4), 4), "dose": rng.normal(size=16)})
    table["y"] = table["dose"] + rng.normal(0, 2, 4)[table["id"]] + rng.normal(0, 1, 16)
    model = PopulationRegressor(["dose"], ["level"], random_state=1)
    model.fit(table[["dose"]], table["y"], table["id"])
    at = np.array([[1.0, -1.0], [1.0, 2.0]])
    ids, x = table["id"].to_numpy(), np.column_stack([np.ones(16), table["dose"]])
    same = np.equal.outer(ids, ids)
    found, expected, posterior = [], [], model.posterior_
    for user in range(4):
        found.append(model.predict(pd.DataFrame({"dose": at[:, 1]}), [user] * 2))
        centre = posterior.without(user)[0].centre()
        level, noise = centre["personal level.sd"] ** 2, centre["noise.sd"] ** 2
        inverse = np.linalg.inv(level * same + noise * np.eye(16))
        beta = np.linalg.solve(x.T @ inverse @ x, x.T @ inverse @ table["y"])
        own = level * (ids == user) @ inverse @ (table["y"] - x @ beta)
        expected.append(at @ beta + own)
    np.testing.assert_allclose(found, expected, atol=0.15)


def test_pickles_are_of_one_version(fitted, rows, monkeypatch):
    at = rows[["week"]][:3]
    with config_context(enable_metadata_routing=True):
        fitted = copy.deepcopy(fitted).set_fit_request(groups=True)
        assert copy.deepcopy(fitted).get_metadata_routing().fit.requests["groups"]
        written = pickle.dumps(fitted)
    assert pickle.loads(written).predict(at, ["bob"] * 3).tolist() == (
        fitted.predict(at, ["bob"] * 3).tolist()
    )
    monkeypatch.setattr(base, "version", lambda _: "99.0")
    refused(lambda: pickle.loads(written), "99.0", "Fit again")


def test_what_was_learned_is_kept_in_a_file(fitted, rows, tmp_path):
    """The evolutions' file and the rows give the same predictions; a search has its folder."""
    fitted.evolutions_.save(tmp_path / "evolutions.json")
    again = KEMRegressor(evolutions=kem.Evolutions.load(tmp_path / "evolutions.json"))
    known = rows[rows["id"] != "cid"]
    again.fit(known[["week"]], known["steps"], known["id"], known["step"])
    at, users = known[["week"]], known["id"]
    assert again.predict(at, users).tolist() == fitted.predict(at, users).tolist()
    x, y = rows[["week"]][:12], rows["steps"][:12]
    search = KernelSearchRegressor(budget=3, out=tmp_path / "found", random_state=0).fit(x, y)
    before = (tmp_path / "found" / "evaluations.jsonl").read_bytes()
    other = clone(search).fit(x, y)
    assert (tmp_path / "found" / "evaluations.jsonl").read_bytes() == before
    assert other.predict(x).tolist() == search.predict(x).tolist()
    assert search.result_.features == ("week",)


def test_bad_input_is_refused(fitted, learned, rows):
    x, y, users, steps = rows[["week"]], rows["steps"], rows["id"], rows["step"]
    refused(lambda: KEMRegressor(evolutions=learned, batch=0).fit(x, y), "batch")
    refused(lambda: KEMRegressor(draws=0).fit(x, y, users, steps), "draws")
    refused(lambda: fitted.partial_fit(x, y, users), "numbers as times", "no times")
    refused(lambda: clone(fitted).fit(x, y, users.where(users != "bob"), steps), "Groups are miss")
    refused(lambda: clone(fitted).fit(x, y, users, steps.where(steps > 0)), "Times are missing")
    dates = pd.Timestamp("2024-01-01") + pd.to_timedelta(steps, unit="D")
    refused(lambda: fitted.partial_fit(x, y, users, dates), "numbers as times", "dates as times")
    dated = clone(fitted).fit(x, y, users, dates)
    refused(lambda: dated.partial_fit(x, y, users, dates.dt.tz_localize("UTC")), "UTC offset")
    named = x.set_axis(["level"], axis=1)
    refused(lambda: PopulationRegressor().fit(named, y, users), "level", "Rename")
    levels = replace(learned, levels={"week": ("a", "b")})
    refused(lambda: KEMRegressor(evolutions=levels).fit(x, y, users), "week has categories")
    refused(lambda: clone(fitted).fit(x.rename(columns={"week": "day"}), y, users, steps), "day")
    refused(lambda: PopulationRegressor(time="day").fit(x, y, users), "day")
    refused(lambda: PopulationRegressor().fit(x * 0, y, users), "week")
    with pytest.raises(ValueError, match="inconsistent numbers"):
        clone(fitted).fit(x, y, users[:-1], steps)
    assert len(fitted.selections_["ann"]) == 4
