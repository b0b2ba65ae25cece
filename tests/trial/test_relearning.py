"""New artefacts: what they are learned from, how they differ, and who uses them when."""

import json
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import select

import kem_pymc as kem
from kem_pymc.evolutions.differences import differences
from kem_pymc.runs import models
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.trial import Comparison, Trial, relearning, schema, store, updating
from tests.refusals import refused
from tests.selection.pilots import pilot_cluster
from tests.trial.conftest import insert

#: Few draws, in this process.
SAMPLER = {"draws": 30, "tune": 10, "chains": 2, "cores": 1, "random_seed": 3}
FEW = SAMPLER | {"draws": 2, "tune": 0, "chains": 1}


def table(labels, steps, seed):
    """Return rows of users with a line or a wave, three in each time step."""
    rng, frames = np.random.default_rng(seed), []
    for place, label in enumerate(labels):
        x = np.arange(3 * steps) + rng.uniform(0, 0.5, 3 * steps)
        y = (x if place % 2 else 5 * np.sin(x)) + rng.normal(size=len(x))
        frames.append(pd.DataFrame({"id": label, "week": x.round(4), "steps": y.round(6)}))
    return pd.concat(frames, ignore_index=True)


def read(rows, **options):
    return kem.Cohort.from_frame(rows, user="id", time="week", target="steps", batch=3, **options)


@pytest.fixture(scope="module")
def pilots():
    return read(table("uvwx", 3, seed=1))


@pytest.fixture(scope="module")
def first(pilots):
    """Evolutions of the pilot users."""
    pool = kem.CandidatePool.from_base(["LIN", "SE"], 1)
    model = kem.EvolutionModel(pilots, pool)
    idata = kem.sample(model, **SAMPLER, progress=False)
    final = kem.sample(models.final_model_of(model), **SAMPLER, progress=False)
    return kem.Evolutions.from_posterior(idata, final=final)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder whose draws the next test reads, instead of sampling them again."""
    return tmp_path_factory.mktemp("run")


@contextmanager
def grown(url, first):
    """Give a trial with three participants, one who was removed, and one who is new."""
    with Trial.create(url, first, user="id", time="week", batch=3) as trial:
        rows = table(["ann", "bob", "cid", "gone"], 3, seed=2)
        early = rows["week"] < 6
        trial.add(rows[early], register=True)
        trial.update()
        trial.add(rows[~early])
        trial.add(table(["new"], 1, seed=3), register=True)
        trial.update()
        trial.add([{"id": "bob", "week": 99, "steps": 1e9}])  # waits in quarantine
        trial.remove("gone")
        yield trial, rows


def relearn(trial, pilots, folder):
    return trial.relearn(pilots, **SAMPLER, shared="nothing", folder=folder)


def test_given_priors_are_kept_and_default_ones_made_anew(pilots):
    """Fails where given priors, for instance with another noise floor, are taken for defaults."""
    pool = kem.CandidatePool(["SE0"], 1)
    usual = kem.EvolutionModel(pilots, pool)
    given = kem.EvolutionModel(pilots, pool, usual.priors.replace(noise_floor=1e-4))
    kept = []
    for model in (usual, given):
        evolutions = kem.Evolutions.from_posterior(kem.sample(model, **FEW, progress=False))
        kept.append(relearning._given_priors(evolutions))
    assert kept[0] is None
    assert kept[1].to_dict() == given.priors.to_dict()


@pytest.mark.integration
def test_what_is_interrupted_leaves_no_artefact(tmp_path, pilots, first, folder, monkeypatch):
    ready = models.ready

    def interrupted(model, executor):
        if model.cohort.max_steps == 1:  # the final model, after the main one
            raise KeyboardInterrupt
        return ready(model, executor)

    with grown(f"sqlite:///{tmp_path}/trial.db", first) as (trial, _):
        with monkeypatch.context() as patch:
            patch.setattr(models, "ready", interrupted)
            with pytest.raises(KeyboardInterrupt):
                relearn(trial, pilots, folder)
        assert len(trial.artefacts()) == 1
        trial.add([{"id": "bob", "week": 9, "steps": 3.0}])  # later than the run
        resumed = relearn(trial, pilots, folder)
        assert (resumed.number, resumed.learned_from) == (2, (4, 3, 27))
        trial.remove("cid")
        refused(lambda: relearn(trial, pilots, folder), "was removed")


@pytest.mark.integration
def test_a_new_artefact(tmp_path, pilots, first, folder):
    """Learned from pilot users and participants, compared row by row, and used by no one."""
    with grown(f"sqlite:///{tmp_path}/trial.db", first) as (trial, rows):
        served = trial.predict("ann", [[8.0]]).prediction.mean
        made = relearn(trial, pilots, folder)
        assert (made.number, made.learned_from, made.against) == (2, (4, 3, 27), 1)
        assert list(trial.artefacts()["participants"]) == [4, 0]
        assert trial.predict("ann", [[8.0]]).prediction.mean == served

        # Draws are those of a model of everyone's rows.
        people = ["ann", "bob", "cid"]
        others = rows[rows["id"] != "gone"].assign(id=lambda t: "participant " + t["id"])
        everyone = read(pd.concat([table("uvwx", 3, seed=1), others]))
        model = kem.EvolutionModel.from_cohort(
            everyone, first.pool, shared="nothing", progress=False
        )
        idata = kem.resume(folder, model, cores=1, progress=False)  # raises if the model is another
        final = kem.resume(folder / "final", models.final_model_of(model), cores=1, progress=False)
        assert made.evolutions == kem.Evolutions.from_posterior(idata, final=final)
        assert made.evolutions.scaling.feature_high[0] == max(x.max() for x in everyone.inputs)
        with schema.reading(trial._store.engine) as db:
            row = (
                db.execute(select(schema.artefacts).where(schema.artefacts.c.id == 2))
                .mappings()
                .one()
            )
        written = row["content"] + row["about"]
        values = {*table(["gone"], 3, 2)["steps"], *rows[rows["id"] == "gone"]["steps"]}
        assert not any(repr(value) in written for value in values)

        # Log densities of next rows, by what was served and by what was learned without them.
        cohort = read(rows[rows["id"] != "gone"], scope="new")
        paths = kem.select_online(KEMSelector(first), cohort)
        pairs = []
        for u, label in enumerate(people):
            half = folder / f"half-{u % 2}"
            others = everyone.subset(
                [x for v, x in enumerate(everyone.users) if v < 4 or v % 2 != u % 2]
            )
            model = kem.EvolutionModel.from_cohort(
                others, first.pool, shared="nothing", progress=False
            )
            idata = kem.resume(half, model, cores=1, progress=False)
            final = kem.resume(
                half / "final", models.final_model_of(model), cores=1, progress=False
            )
            without = kem.Evolutions.from_posterior(idata, final=final)
            after = kem.select_online(KEMSelector(without), cohort.subset([label]))[label]
            for step in (0, 1):
                coming = slice(3 * step + 3, 3 * step + 6)
                x, y = cohort.inputs[u][coming], cohort.targets[u][coming]
                densities = [
                    path[step].predict(x, include_noise=True).observation.log_density(y).sum()
                    for path in (paths[label], after)
                ]
                pairs.append((label, *densities))
        totals = pd.DataFrame(pairs, columns=["id", "before", "after"]).groupby("id").sum()
        found = made.comparison
        assert (found.participants, found.rows) == (3, 18)
        assert found.before == pytest.approx(totals["before"].sum() / 18, rel=1e-9)
        assert found.after == pytest.approx(totals["after"].sum() / 18, rel=1e-6)
        means = (totals["after"] - totals["before"]) / 6  # of as many rows each
        assert found.error == pytest.approx(means.std() / np.sqrt(3), rel=1e-6)

        # The same again is the same artefact.
        assert relearn(trial, pilots, folder).number == 2
        assert len(trial.artefacts()) == 2
        trial.register("later")
        trial.adopt(2)
        trial.register("latest")
        assert list(trial.participants()["artefact"]) == [1, 1, 1, 1, 1, 1, 2]
        refused(lambda: trial.adopt(3), "no artefact 3")


@pytest.mark.integration
def test_other_pilot_users_are_refused(tmp_path, pilots, first):
    with Trial.create(f"sqlite:///{tmp_path}/trial.db", first, user="id", time="week") as trial:
        for others, words in (
            (read(table("uvwx", 2, seed=1)), "is 8, and was 12"),
            (read(table("uvwx", 3, seed=2)), "another range, mean or standard"),
            (replace(pilots, features=("day",), time=None), "features"),
        ):
            refused(lambda others=others: trial.relearn(others), words)
        refused(lambda: trial.relearn(pilots), "No participant has 2 time steps")


def test_who_is_moved_has_what_the_artefact_would_have_said_all_along(
    trial, rows, other, monkeypatch, tmp_path
):
    """And back, to the last bit, what would have been said without the move."""
    at = [[4.5], [6.0]]
    twin = Trial.create(f"sqlite:///{tmp_path}/twin.db", trial.evolutions, user="id", time="week")
    for one in (trial, twin):
        one.add(rows[rows["week"] < 3], register=True)
        one.update()
    number = insert(trial, other)
    before = {label: trial.predict(label, at).prediction for label in ("ann", "bob")}

    # A move that is killed moves no one.
    whole, calls = updating._select, []

    def killed(store, label, artefact=None):
        calls.append(label)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(store, label, artefact)

    with monkeypatch.context() as patch:
        patch.setattr(updating, "_select", killed)
        with pytest.raises(KeyboardInterrupt):
            trial.move(number, ["ann"])
    np.testing.assert_array_equal(trial.predict("ann", at).prediction.mean, before["ann"].mean)

    assert trial.move(number, ["ann"]) == ["ann"]
    assert trial.move(number, ["ann"]) == []
    cohort = kem.Cohort.from_frame(
        rows[rows["week"] < 3], user="id", time="week", target="steps", scope="new"
    )
    path = kem.select_online(KEMSelector(other), cohort)["ann"]
    found = trial.selections("ann")
    assert list(found["artefact"]) == [1] * 3 + [number] * 3
    outcomes = trial._store.table(select(schema.selections.c.outcome).order_by("id"))
    assert outcomes["outcome"][-3:].isna().all()  # nothing was predicted before it came
    assert list(found["composition"][3:]) == [one.label() for one in path]
    expected = path[-1].predict(at, include_noise=True)
    np.testing.assert_array_equal(trial.predict("ann", at).prediction.mean, expected.mean)
    assert not np.array_equal(expected.mean, before["ann"].mean)
    np.testing.assert_array_equal(trial.predict("bob", at).prediction.mean, before["bob"].mean)
    assert len(trial.update()) == 0
    assert trial.replay() is None

    assert trial.move(1) == ["ann"]  # without new rows, to what there was
    np.testing.assert_array_equal(trial.predict("ann", at).prediction.mean, before["ann"].mean)
    assert len(trial.selections("ann")) == 6
    trial.move(number, ["ann"])
    for one in (trial, twin):
        one.add(rows[rows["week"] >= 3])
        one.update()
    assert list(trial.selections("ann")["artefact"])[6:] == [number] * 2
    trial.move(1, ["ann"])
    served, as_twin = (one.predict("ann", at).prediction for one in (trial, twin))
    np.testing.assert_array_equal(served.mean, as_twin.mean)
    np.testing.assert_array_equal(served.quantile(0.9), as_twin.quantile(0.9))
    assert trial.replay() is None
    lines = "\n".join(trial.history("ann")["what"])
    assert lines.count("Moved. From artefact") == 4
    assert f"by artefact {number} from 3 points" in lines
    refused(lambda: trial.move(7, ["ann"]), "no artefact 7")
    refused(lambda: trial.move(1, ["zoe"]), "zoe isn't registered")
    twin.close()


def test_rows_that_an_artefact_learned_from_are_not_held_out(trial, rows, other, evolutions):
    """Fails if participants who moved are predicted by what was learned from these rows."""
    trial.add(rows, register=True)
    number = insert(trial, other)
    with schema.writing(trial._store.engine) as db:
        seen = json.dumps({"observations": [3]})  # ann's third
        where = schema.artefacts.c.id == number
        db.execute(schema.artefacts.update().where(where).values(about=seen))
    trial.move(number, ["ann"])  # before any selection of artefact 1
    with schema.reading(trial._store.engine) as db:
        known = store.participant_row(db, "ann")
        data = trial._store.data(db, known)
    cohort = kem.Cohort.from_frame(rows, user="id", time="week", target="steps", scope="new")
    path = kem.select_online(KEMSelector(evolutions), cohort)["ann"]
    learned = relearning._Learned(cohort.subset(["ann"]), [known], [data])
    pairs = relearning._paired(trial._store, learned, 0, KEMSelector(evolutions))
    assert pairs.shape == (2, 3)  # of the second row to the fifth, without the third
    own = kem.select_online(KEMSelector(other), cohort)["ann"]
    for row, (before, after) in zip((1, 3, 4), pairs.T, strict=True):
        x, y = cohort.inputs[0][[row]], cohort.targets[0][[row]]
        for selections, density in ((own, before), (path, after)):
            expected = selections[row - 1].predict(x, include_noise=True).observation
            assert density == expected.log_density(y)[0]


def of_draws(evolutions, shares):
    """Return evolutions in which WHITE stays, or becomes SE0, for a share of ten users."""
    clusters = []
    for draw, count in enumerate((10 * shares).round().astype(int)):
        parts = (("SE0", count), ("WHITE", 10 - count))
        clusters += [pilot_cluster(draw, "WHITE", child, n, 1.0) for child, n in parts if n]
    return replace(
        *(evolutions,), clusters=tuple(clusters), n_draws=len(shares), final=None, unshared=None
    )


def test_differences_are_those_of_the_two_graphs(evolutions):
    before = of_draws(evolutions, np.repeat(0.0, 100))
    after = of_draws(evolutions, np.tile([0.3, 0.5], 50))
    found = differences(before, after).set_index(["parent", "child"])
    for (parent, child), row in found.iterrows():
        for one, value in ((before, row["before"]), (after, row["after"])):
            known = {one.label(c.composition): c.probability for c in one.children(parent)}
            assert value == pytest.approx(known.get(child, 0.0))
    assert dict(found["change"]) == {("WHITE", "SE0"): "gained", ("WHITE", "WHITE"): "changed"}
    assert set(differences(after, before)["change"]) == {"lost", "changed"}
    assert set(differences(after, after)["change"]) == {""}


@pytest.mark.statistical
def test_one_posterior_rarely_differs_from_itself(evolutions):
    """Probabilities of two runs of dependent draws differ by two errors in one of twenty."""
    rng, said = np.random.default_rng(0), []
    for _ in range(100):
        two = []
        for _ in range(2):
            noise, state = rng.normal(size=200), np.zeros(200)
            for k in range(1, 200):
                state[k] = 0.7 * state[k - 1] + noise[k]
            two.append(of_draws(evolutions, np.clip(0.5 + 0.1 * state, 0, 1)))
        said.append((differences(*two)["change"] != "").any())
    assert 0.01 < np.mean(said) < 0.2


def test_the_error_of_a_comparison_covers_the_truth():
    """Of participants with different gains and numbers of rows; fails if rows are independent."""
    rng, inside = np.random.default_rng(1), []
    for _ in range(1000):
        pairs = {}
        for person in range(30):
            gain = 0.1 + rng.normal(scale=0.3)
            before = rng.normal(size=rng.integers(1, 12))
            pairs[person] = np.stack([before, before + gain + rng.normal(size=len(before))])
        found = Comparison.of(pairs)
        inside.append(abs(found.after - found.before - 0.1) < 2 * found.error)
    assert 0.92 < np.mean(inside) < 0.97
    shifted = {k: np.stack([v[0], v[0] - 0.3 - 0.01 * k]) for k, v in pairs.items()}
    assert "worse than those before, by 0.4" in str(Comparison.of(shifted))
    assert "is open" in str(Comparison.of({0: pairs[0]}))
    assert "before, by 0.026 ± 0.004 nats a row (9 rows of 2" in str(
        Comparison(2, 9, 1, 1.026, 0.004)
    )
