"""A trial: what becomes of rows, selections that are the library's, answers whatever fails."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, inspect, select, text

import kem_pymc as kem
from kem_pymc.data.families import Family
from kem_pymc.data.scaling import Scaling
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.selection import Selection
from kem_pymc.selection.stored import from_dict, to_dict
from kem_pymc.trial import Trial, answers, intake, schema, store, updating
from kem_pymc.trial import rows as rows_of
from tests.refusals import refused
from tests.selection.conftest import learned  # noqa: F401

TIMES = (
    *(3.5, pd.Timestamp("2024-03-01")),
    *(pd.Timestamp("2024-03-01T01:00+01:00"), pd.Timedelta("2 days")),
)


@pytest.fixture(scope="module")
def shared_trial(evolutions, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trial")
    with Trial.create(f"sqlite:///{folder}/trial.db", evolutions, user="id", time="week") as one:
        yield one


def statuses(receipt):
    return list(receipt.entries["status"])


def dump(url):
    """Return all cells of the database as one text."""
    engine = create_engine(url)
    with engine.connect() as db:
        found = [
            str(db.execute(text(f"SELECT * FROM {name}")).all())
            for name in inspect(engine).get_table_names()
        ]
    engine.dispose()
    return "\n".join(found)


def test_every_row_has_a_status_and_none_is_lost(trial, rows):
    assert statuses(trial.add(rows[:2])) == ["unknown"] * 2
    trial.register("ann")
    assert list(trial.quarantined()["status"]) == []
    again = rows[:2].assign(note="a column that isn't used")
    assert statuses(trial.add(rows[:4])) == ["duplicate"] * 2 + ["accepted"] * 2
    wrong = pd.DataFrame(
        [
            {"id": "ann", "week": 1, "steps": 5.0},
            {"id": "ann", "week": 7, "steps": None},
            {"id": "ann", "week": 8, "steps": "many"},
            {"id": "ann", "week": 9, "steps": 1e5},
            {"id": None, "week": 10, "steps": 1.0},
            {"id": "ann", "week": 2.5, "steps": 1.0},
        ]
    )
    receipt = trial.add(wrong)
    expected = ["corrected", "quarantined", "refused", "quarantined", "refused", "accepted"]
    assert statuses(receipt) == expected
    reasons = list(receipt.entries["reason"])
    for reason, word in zip(
        reasons,
        ("place of observation", "steps is empty", "many", "unit", "id is empty", ""),
        strict=True,
    ):
        assert word in reason
    assert statuses(trial.add(again)) == ["corrected"] * 2  # cells that aren't used are kept, too
    waiting = trial.quarantined()
    assert list(waiting["content"].map(json.loads).map(lambda row: row["week"])) == [7, 9]
    empty, far = waiting["entry"]
    refused(lambda: trial.release([empty]), "steps")
    trial.release([far])
    refused(lambda: trial.release([far]), "isn't in quarantine")
    trial.update()
    points = trial.selections("ann")["points"].iloc[-1]
    assert points == 6  # weeks 0 to 3, 2.5, and 9


def test_an_upload_that_comes_again_changes_nothing(trial, rows, url):
    first = trial.add(rows, key="monday", register=True)
    before = dump(url)
    second = trial.add(rows, key="monday")
    assert second.repeated
    assert second.upload == first.upload
    pd.testing.assert_frame_equal(second.entries, first.entries)
    refused(lambda: trial.add(rows[:3], key="monday"), "came before with other rows")
    refused(lambda: trial.add(rows.drop(columns="week")), "week is missing")
    refused(lambda: trial.add(rows[:0]), "between 1 and")
    assert dump(url) == before


def test_an_upload_that_is_stopped_is_continued(trial, rows, monkeypatch):
    monkeypatch.setattr(intake, "PART", 4)
    enter, left = intake._enter, [6]

    def stopping(*given):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        enter(*given)

    with monkeypatch.context() as planted:
        planted.setattr(intake, "_enter", stopping)
        with pytest.raises(KeyboardInterrupt):
            trial.add(rows, key="monday", register=True)
    assert len(trial._store.table(select(schema.entries.c.id))) == 4  # whole parts only
    receipt = trial.add(rows, key="monday", register=True)
    assert not receipt.repeated
    assert statuses(receipt) == ["accepted"] * 15
    assert trial.add(rows, key="monday").repeated
    assert len(trial._store.table(select(schema.observations.c.id))) == 15


@pytest.mark.parametrize("dated", [False, True])
def test_selections_are_those_of_the_library(trial, rows, evolutions, url, dated):
    """Also if rows come late and in pieces, and another process goes on."""
    table = pd.DataFrame({"week": [1.5, 5.0]})
    early = rows["week"] < 2
    if dated:
        rows, table = (
            one.assign(week=pd.Timestamp("2024-03-30") + pd.to_timedelta(one["week"], unit="D"))
            for one in (rows, table)
        )
        rows["week"] = rows["week"].astype(str)
    cohort = kem.Cohort.from_frame(rows, user="id", time="week", target="steps", scope="new")
    paths = kem.select_online(KEMSelector(evolutions), cohort)
    trial.add(rows[early], register=True)
    assert len(trial.update(["ann"])) == 2
    trial.add(rows[~early].sample(frac=1, random_state=0))
    other, third = Trial.open(url), Trial.open(url)
    assert len(other.update(time_budget=0)) == 0
    made = other.update()
    assert len(made) == 13
    assert set(made["severity"]) == {"green"}
    assert len(trial.update()) == 0
    at = np.array([[1.5], [5.0]])
    for label, path in paths.items():
        found = other.selections(label)
        assert list(found["composition"]) == [one.label() for one in path]
        assert list(found["time_step"]) == [*range(5)]
        expected = path[-1].predict(at, include_noise=True, calibrated=True)
        for asked in (trial, other, third):
            served = asked.predict(label, at)
            np.testing.assert_array_equal(served.prediction.mean, expected.mean)
            np.testing.assert_array_equal(served.prediction.quantile(0.9), expected.quantile(0.9))
        np.testing.assert_array_equal(trial.predict(label, table).prediction.mean, expected.mean)
    other.close()
    third.close()
    assert trial.replay() is None


def test_what_was_selected_stays_and_the_last_step_is_selected_again(trial, rows):
    trial.add(rows[:5], register=True)
    trial.update()
    before = trial.selections()
    trial.add([{"id": "ann", "week": 1, "steps": 9.0}, {"id": "ann", "week": 0.5, "steps": 1.0}])
    made = trial.update()
    # The late row makes a time step more.
    assert list(zip(made["time_step"], made["points"], strict=True)) == [(5, 6)]
    pd.testing.assert_frame_equal(trial.selections()[:5], before)
    trial.withdraw("ann", 0.5)
    made = trial.update()
    assert list(zip(made["time_step"], made["points"], strict=True)) == [(4, 5)]
    assert len(trial.update()) == 0
    refused(lambda: trial.withdraw("ann", 0.5), "no observation at 0.5")
    assert trial.replay() is None
    lines = "\n".join(trial.history("ann")["what"])
    for words in ("Registered", "is corrected", "Withdrawn", "(green)", "a straight line in week"):
        assert words in lines


def failing(*_, **__):
    raise ArithmeticError("planted")


@pytest.mark.parametrize("failures", range(5))
def test_there_is_always_an_answer(trial, rows, monkeypatch, failures, evolutions):
    trial.add(rows[:4], register=True)
    trial.update()
    trial.add(rows[4:5])
    ways = [*answers.SEVERITY.items()]
    with monkeypatch.context() as planted:
        if failures > 0:
            planted.setattr(KEMSelector, "select", failing)
        if failures > 1:
            planted.setattr(answers._Refit, "select", failing)
        if failures > 2:
            planted.setattr(answers, "conditioned", failing)
        if failures > 3:
            whole = answers._noise_only
            planted.setattr(
                answers, "_noise_only", lambda *a: whole(*a) if a[1] is None else failing()
            )
        (row,) = trial.update().itertuples()
    assert (row.answer, row.severity) == ways[failures], row.reason
    assert row.reason.count("planted") == failures
    served = trial.predict("ann", [[4.0]])
    assert (served.answer, served.severity) == ways[failures]
    if row.answer == "conditioned":
        selector, x, y = KEMSelector(evolutions), rows[["week"]][:5], rows["steps"][:5]
        previous = None
        for n in range(1, 5):
            previous = selector.select(x[:n], y[:n], previous)
        expected = from_dict(to_dict(previous), selector, x, y).predict([[4.0]], True)
        np.testing.assert_array_equal(served.prediction.mean, expected.mean)
        np.testing.assert_array_equal(served.prediction.sd, expected.sd)
        assert row.composition == trial.selections("ann")["composition"].iloc[-2]
    if row.answer == "pilots":
        scaling = evolutions.scaling
        assert served.prediction.mean[0] == pytest.approx(scaling.target_mean)
        assert served.prediction.sd[0] == pytest.approx(scaling.target_sd)
    assert trial.replay() is None
    assert ways[failures][1] in "\n".join(trial.history("ann")["what"])


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [("noise", np.nan, "is nan"), ("y", np.nan, "aren't finite")],
)
def test_what_cannot_predict_is_no_answer(evolutions, rows, monkeypatch, place, value, said):
    select = KEMSelector.select

    def broken(self, x, y, previous=None, **given):
        found = select(self, x, y, previous, **given)
        if place == "y":
            return replace(found, y=found.y * value)
        first = replace(found.considered[0], noise=value)
        return replace(found, considered=(first, *found.considered[1:]))

    selector, x, y = KEMSelector(evolutions), rows[["week"]][:4].to_numpy(), rows["steps"][:4]
    previous = selector.select(x, y)
    monkeypatch.setattr(KEMSelector, "select", broken)
    found = answers.answer(selector, x, y.to_numpy(), previous)
    assert found.name == "refitted"
    assert said in found.reason


def test_what_is_predicted_during_a_removal_is_gone(trial, rows, url, monkeypatch):
    trial.add(rows[:2], register=True)
    trial.update()
    predict = Selection.predict

    def late(selection, *given, **options):
        with Trial.open(url) as other:
            other.remove("ann")
        return predict(selection, *given, **options)

    monkeypatch.setattr(Selection, "predict", late)
    refused(lambda: trial.predict("ann", [[2.0]]), "was removed")
    assert trial._store.table(schema.predictions.select()).empty


def test_others_write_between_the_parts_of_an_upload(tmp_path):
    """In SQLite a writer who waits would otherwise miss most pauses of another one."""
    url = f"sqlite:///{tmp_path / 'some.db'}"
    one, other, parts, turns = schema.connected(url), schema.connected(url), [], []

    def write_parts():
        for part in range(7):
            with schema.writing(one):
                parts.append(part)
                time.sleep(0.5)
            time.sleep(schema.PAUSE)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(write_parts)
        for _ in range(2):
            time.sleep(0.1)
            with schema.writing(other):
                turns.append(len(parts))
    assert turns[-1] < 5, turns
    one.dispose()
    other.dispose()


def test_predictions_wait_for_no_row_of_the_participant(trial, rows, url):
    """In SQLite a writer waits for the other one."""
    if not url.startswith("postgresql"):
        pytest.skip("SQLite has one writer at a time")
    trial.add(rows[:2], register=True)
    trial.update()
    with ThreadPoolExecutor(1) as pool, schema.writing(trial._store.engine) as db:
        assert store.participant_row(db, "ann", lock=True)
        assert pool.submit(trial.predict, "ann", [[2.0]]).result(timeout=30).severity == "green"


def test_replay_names_the_first_difference(trial, rows, url, monkeypatch):
    trial.add(rows, register=True)
    trial.update()
    select = KEMSelector.select

    def other(self, x, y, previous=None, **given):
        found = select(self, x, y, previous, **given)
        if len(y) < 4:
            return found
        first = replace(found.considered[0], noise=found.considered[0].noise * (1 + 1e-9))
        return replace(found, considered=(first, *found.considered[1:]))

    with monkeypatch.context() as planted:
        planted.setattr(KEMSelector, "select", other)
        message = trial.replay()
    assert "time step 3, considered[0].noise was" in message
    engine = create_engine(url)
    change = "replace(content, '\"weight\": ', '\"weight\": 1')"
    with engine.begin() as db:
        db.execute(text(f"UPDATE selections SET content = {change} WHERE id = 2"))
    engine.dispose()
    assert "selection 2" in trial.replay()
    assert "was changed" in trial.replay()


def test_two_updaters_make_each_selection_once(trial, rows, url):
    trial.add(rows, register=True)
    made, others = [], [trial, Trial.open(url)]
    threads = [threading.Thread(target=lambda t=t: made.append(len(t.update()))) for t in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    others[1].close()
    assert sum(made) + len(trial.update()) == 15
    found = trial.selections()
    assert len(found) == 15
    assert not found.duplicated(["participant", "time_step"]).any()
    assert trial.replay() is None


def test_who_is_removed_leaves_hashes_only(trial, rows, url):
    own = rows.assign(steps=rows["steps"].round(5))
    trial.add(own, register=True)
    trial.update()
    trial.predict("bob", [[7.0]])
    bob = own[own["id"] == "bob"]
    cells = [*(repr(value) for value in bob["steps"]), "76543.625"]  # which no hash has
    trial.add([{"id": "bob", "week": 4, "steps": 76543.625}])
    assert all(cell in dump(url) for cell in cells)
    trial.remove("bob")
    left = dump(url)
    assert not any(cell in left for cell in cells)
    assert statuses(trial.add(bob)) == ["refused"] * 5
    assert not any(cell in dump(url) for cell in cells)
    for asked in (lambda: trial.predict("bob", [[1.0]]), lambda: trial.register("bob")):
        refused(asked, "bob was removed")
    assert len(trial.selections("bob")) == 5
    assert "are refused" in trial.history("bob")["what"].iloc[-1]
    assert len(trial.update()) == 0
    assert trial.replay() is None


def test_times_that_cannot_be_compared_wait(trial):
    """Fails where they are observations, of which the next update could make no order."""
    trial.add([{"id": 7, "week": 1, "steps": 1.0}], register=True)
    others = [{"id": "7", "week": "2024-03-01", "steps": 2.0}, {"id": 7.0, "week": 2, "steps": 3.0}]
    first, second = (trial.add([row]) for row in others)
    assert statuses(first) == ["quarantined"]  # the pilot users' weeks are numbers
    assert statuses(second) == ["accepted"]
    assert list(trial.participants()["label"]) == ["7"]
    kinds = [rows_of.kind_of_time(rows_of.written_time(value)) for value in TIMES]
    assert len(set(kinds)) == 4
    same = pd.Timestamp("2024-03-31T02:30+01:00"), pd.Timestamp("2024-03-31T01:30Z")
    assert rows_of.written_time(same[0]) == rows_of.written_time(same[1])


def test_hours_that_a_clock_change_repeats(trial):
    """With offsets they are two times; without, the later row takes the earlier one's place."""
    hours = ["2024-10-27T02:30+02:00", "2024-10-27T02:30+01:00", "2024-10-27T01:30Z"]
    receipt = trial.add(
        [{"id": "ann", "week": hour, "steps": 1.0 + n} for n, hour in enumerate(hours)],
        register=True,
    )
    assert statuses(receipt) == ["accepted", "accepted", "corrected"]
    naive = [{"id": "bob", "week": "2024-10-27 02:30", "steps": 1.0 + n} for n in range(2)]
    assert statuses(trial.add(naive, register=True)) == ["accepted", "corrected"]
    trial.update()
    selection = trial.selection("ann")
    assert np.ptp(selection.x) == pytest.approx(1 / 24)


def test_a_participant_who_fails_stops_no_one_else(trial, rows, monkeypatch):
    trial.add(rows, register=True)
    whole = updating._select

    def planted(store, label, artefact=None):
        if label == "ann":
            raise ValueError("planted")
        return whole(store, label, artefact)

    with monkeypatch.context() as patch:
        patch.setattr(updating, "_select", planted)
        made = trial.update()
    assert (made["answer"] == "none").sum() == 1
    assert len(made) == 11
    assert "Failed. ValueError: planted" in set(trial.history("ann")["what"])
    assert len(trial.update()) == 5


CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 8),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["ann", "3", "2024-03-01", "NaN", "\x00", "\ud800", 10**400, [1], {}]),
)
ROWS = st.lists(st.fixed_dictionaries(dict.fromkeys(("id", "week", "steps"), CELLS)), max_size=6)


@pytest.mark.parametrize("count", [60, pytest.param(4000, marks=pytest.mark.slow)])
def test_no_row_breaks_the_store(shared_trial, count):
    """Every row has a status, or the upload is refused as a whole, and updates go on."""

    def entries():
        return len(shared_trial._store.table(select(schema.entries.c.id)))

    @settings(max_examples=count, deadline=None, derandomize=True)
    @given(table=ROWS)
    def upload(table):
        before = entries()
        try:
            receipt = shared_trial.add(table, register=True)
        except kem.errors.InputError:
            assert entries() == before
        else:
            assert len(receipt.entries) == len(table)
            assert entries() == before + len(table) * (not receipt.repeated)
        made = shared_trial.update(time_budget=None if count < 100 else 0.05)
        assert "none" not in set(made["answer"]), set(made["reason"])

    upload()
    assert shared_trial.replay() is None


def test_databases_without_a_trial_or_with_one_are_refused(url, evolutions, tmp_path):
    refused(lambda: Trial.open(url), "no trial in")
    Trial.create(url, evolutions, user="id", time="week").close()
    refused(lambda: Trial.create(url, evolutions, user="id", time="week"), "already")
    for wrong in ("trial.db", "mysql+nothing://x", f"sqlite:///{tmp_path}/none/trial.db"):
        refused(lambda wrong=wrong: Trial.open(wrong), "ive ")
    empty = Trial.open(url)
    assert empty.replay() is None
    assert len(empty.update()) == 0
    refused(lambda: empty.predict("ann", [[1.0]]), "isn't registered")
    empty.register("ann")
    refused(lambda: empty.predict("ann", [[1.0]]), "no selection yet")
    empty.close()


def test_one_row_at_a_time_as_rivers_models(trial, rows, evolutions):
    """Predictions before each row are those of `predict`, and before the first those of no data."""
    ann = rows[rows["id"] == "ann"].drop(columns="steps").to_dict("records")
    targets = rows.loc[rows["id"] == "ann", "steps"]
    at = np.array([[ann[0]["week"]]])
    nothing = KEMSelector(evolutions).select(np.empty((0, 1)), []).predict(at, include_noise=True)
    assert trial.predict_one(ann[0]) == nothing.mean[0]
    assert len(trial.participants()) == 0
    for x, y in zip(ann, targets, strict=True):
        trial.learn_one(x, y)
    for x in ann[:2]:
        assert trial.predict_one(x) == trial.predict("ann", [[x["week"]]]).prediction.mean[0]
    assert len(trial.selections("ann")) == len(ann)
    trial.withdraw("ann", 0.0)
    for y in (1.0, 2.0, 1.0):  # also what came before
        trial.learn_one(ann[0], y)
        assert trial.selection("ann").targets[0] == pytest.approx(y)
    trial.add([{**ann[0], "id": "bob", "steps": 1.0}])
    trial.learn_one({**ann[0], "id": "bob"}, 1.0)
    refused(lambda: trial.learn_one(ann[0], 1e9), "quarantined", "steps")
    refused(lambda: trial.learn_one({"week": 2.0}, 1.0), "id")
    refused(lambda: trial.predict_one({"week": 2.0}), "id", "whose")
    refused(lambda: trial.predict_one({"id": "bob"}), "week")
    for missing in (None, np.nan, " "):
        row = {"id": missing, "week": 2.0}
        refused(lambda row=row: trial.predict_one(row), "whose")
    trial.remove("ann")
    refused(lambda: trial.predict_one(ann[0]), "removed")


def test_one_row_has_its_date_and_its_exposure(learned, tmp_path):  # noqa: F811
    """Days count from a participant's first row, also before a selection; counts grow with hours.

    Fails where the first day is that of the row to predict, or an exposure is ignored.
    """
    scaling = Scaling(np.zeros(1), np.ones(1), 2.0, 0.5, time_kind="dates", family=Family("count"))
    roles = {"user": "id", "time": "week", "size": "hours"}
    day = {"id": "ann", "week": "2024-01-11", "hours": 10.0}
    counts = replace(learned, scaling=scaling)
    with Trial.create(f"sqlite:///{tmp_path}/trial.db", counts, **roles) as trial:
        trial.add([day | {"week": "2024-01-01", "steps": 80}], register=True)
        new = KEMSelector(counts).select(np.empty((0, 1)), [])
        expected = new.predict([[10.0]], include_noise=True, sizes=[10.0]).mean[0]
        assert trial.predict_one(day) == pytest.approx(expected)
        trial.update()
        once = trial.predict_one(day | {"hours": 1.0})
        assert trial.predict_one(day) == pytest.approx(10 * once)
        assert once == pytest.approx(trial.predict("ann", [[10.0]]).prediction.mean[0])
        refused(lambda: trial.predict_one(day | {"hours": -3.0}), "sizes")
        refused(lambda: trial.predict_one(day | {"week": "2024-01-11T00:00Z"}), "UTC offset")
