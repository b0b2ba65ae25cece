"""Optimisers: points, values, refusals, and continuation."""

import json
import math

import numpy as np
import pytest

from kem_pymc.errors import InputError
from kem_pymc.lifelong import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    LifelongOptimizer,
    minimize_sequence,
)
from kem_pymc.lifelong import optimizer as module
from kem_pymc.lifelong.optimizer import normalised
from tests.refusals import refused
from tests.runs.runs import Moments, killed_at

SPACE = {"x": FloatDistribution(0, 1), "kind": CategoricalDistribution(["a", "b"])}
METHODS = ("lbo", "gp", "multitask_gp", "warm_start_gp", "dngo", "ablr")


def bowl(point, at=0.3):
    return 10 * (point["x"] - at) ** 2 + (point["kind"] == "a")


def made(method="gp", **options):
    optimizer = LifelongOptimizer(SPACE, method=method, max_networks=3, initial=3, **options)
    if hasattr(optimizer.method, "iterations"):
        optimizer.method.iterations = 4
    return optimizer


def run(optimizer, tasks, count=6):
    """Evaluate bowls until every task has as many values; return points and values."""
    for number in range(tasks):
        if number == len(optimizer.tasks):
            optimizer.next_task()
        if number < len(optimizer.tasks) - 1:
            continue
        while len(optimizer.task.points) < count:
            point = optimizer.task.pending[0] if optimizer.task.pending else optimizer.ask()
            optimizer.tell(point, bowl(point, 0.3 + 0.1 * number))
    return [(task.points, task.values) for task in optimizer.tasks]


@pytest.mark.parametrize("method", [*METHODS, "random", "sobol"])
def test_a_continued_optimiser_asks_the_same(tmp_path, method):
    """Interrupted in the second task, after a value was recorded and after a point was asked."""
    whole = run(made(method), 2)
    first = made(method, out=tmp_path)
    run(first, 1)
    first.next_task()
    for _ in range(4):
        point = first.ask()
        first.tell(point, bowl(point, 0.4))
    second = made(method, out=tmp_path)
    pending = second.ask()
    third = made(method, out=tmp_path)
    assert third.task.pending == [pending]
    assert run(third, 2) == whole


def test_a_choice_that_was_written_without_its_event_is_kept(tmp_path):
    """The process may be killed between both files."""
    first = made("lbo", out=tmp_path)
    run(first, 1, 5)
    point = first.ask()
    events = tmp_path / "events.jsonl"
    *lines, last = events.read_text().splitlines(keepends=True)
    assert json.loads(last) == {"ask": point}
    events.write_text("".join(lines))
    again = made("lbo", out=tmp_path)
    weights = again.method.current.weights.copy()
    assert again.ask() == point
    np.testing.assert_array_equal(again.method.current.weights, weights)  # not trained twice


@pytest.mark.faults
def test_an_optimiser_that_is_killed_goes_on(tmp_path):
    """At every seventh moment: before and after data, and files, are on the disk."""
    whole = run(made("lbo"), 2, 5)
    with pytest.MonkeyPatch.context() as patch:
        counted = Moments(patch)
        run(made("lbo", out=tmp_path / "whole"), 2, 5)
    for moment in range(3, len(counted.names), 7):
        out = tmp_path / str(moment)
        killed_at(moment, lambda out=out: run(made("lbo", out=out), 2, 5))
        assert run(made("lbo", out=out), 2, 5) == whole


def test_no_value_is_lost(tmp_path):
    calls = []

    def breaks(point):
        calls.append(point)
        if len(calls) == 4:
            raise RuntimeError("no more memory")
        return bowl(point)

    options = {"evaluations": 6, "method": "gp", "initial": 3, "out": tmp_path}
    with pytest.raises(RuntimeError):
        minimize_sequence([breaks], SPACE, **options)
    events = tmp_path / "events.jsonl"
    events.write_text(events.read_text() + '{"tell": {"x"')  # cut off
    found = minimize_sequence([breaks], SPACE, **options)
    assert len(calls) == 7
    assert calls[4] == calls[3]  # the point without a value is evaluated again
    assert found.task.points == [*calls[:3], *calls[4:]]
    caught = minimize_sequence(
        [breaks, bowl], SPACE, evaluations=5, method="gp", catch=[RuntimeError]
    )
    assert [len(task.values) for task in caught.tasks] == [5, 5]


@pytest.mark.parametrize("method", METHODS)
def test_failures_and_constant_functions(method):
    optimizer = made(method)
    optimizer.next_task("failing")
    for value in (math.nan, None, math.inf, 3.0, 3.0, 3.0):
        point = optimizer.ask()
        optimizer.tell(point, value)
    assert np.isnan(optimizer.task.values[:3]).all()
    assert optimizer.best[1] == 3.0
    optimizer.next_task("other")
    points = []
    for _ in range(6):
        points.append(optimizer.ask())
        optimizer.tell(points[-1], bowl(points[-1]))
    assert len({str(point) for point in points}) == 6


def test_points_near_failures_are_avoided():
    """More than half of the space fails; without the failures, the model expects its best there."""
    optimizer = LifelongOptimizer({"x": FloatDistribution(0, 1)}, method="gp")
    optimizer.next_task()
    failed = 0
    for _ in range(16):
        point = optimizer.ask()
        failed += point["x"] > 0.4
        optimizer.tell(point, None if point["x"] > 0.4 else -point["x"])
    assert failed < 10  # of 11 points of the model, and some of the first 5
    assert optimizer.best[1] < -0.35
    optimizer.next_task("all successes are equal")
    failed = 0
    for _ in range(25):
        point = optimizer.ask()
        failed += point["x"] > 0.3
        optimizer.tell(point, None if point["x"] > 0.3 else 1.0)
    assert 0 < failed < 10  # random points: 12 to 22


def test_values_of_points_of_other_types(tmp_path):
    """As after a table with one type; the point that was asked for is recorded."""
    space = {"n": IntDistribution(0, 9), "layers": CategoricalDistribution([1, 2, 4])}
    optimizer = LifelongOptimizer(space, method="gp", out=tmp_path)
    optimizer.next_task()
    for _ in range(7):
        point = optimizer.ask()
        optimizer.tell({name: float(value) for name, value in point.items()}, point["n"] ** 2)
    again = LifelongOptimizer(space, method="gp", out=tmp_path)
    assert again.task.points == optimizer.task.points
    assert not again.task.pending
    assert {type(v) for point in again.task.points for v in point.values()} == {int}
    again.ask()


def test_added_points_count_as_first_ones():
    optimizer = made("gp")  # begins with 3 points
    optimizer.next_task()
    for x in (0.1, 0.5, 0.9):
        for kind in ("a", "b"):
            optimizer.add({"x": x, "kind": kind}, bowl({"x": x, "kind": kind}))
    assert optimizer.ask() == {"x": pytest.approx(0.3, abs=0.1), "kind": "b"}


def test_withdrawn_and_late_points(tmp_path):
    optimizer = made("random", out=tmp_path)
    optimizer.next_task("one")
    one, two, three = optimizer.ask(3)
    optimizer.withdraw(one)
    refused(lambda: optimizer.tell(one, 1.0), "wasn't asked for in task one")
    refused(lambda: optimizer.withdraw(one), "wasn't asked for")
    optimizer.tell(two, 1.0)
    refused(lambda: optimizer.tell(two, 1.0), "has a value in task one already")
    assert made("random", out=tmp_path).task.pending == [three]
    optimizer.next_task("2")
    refused(lambda: optimizer.tell(three, 1.0), "a task that has ended, as 2 has begun")
    optimizer.next_task()
    assert optimizer.task.name == "3"


@pytest.mark.parametrize("method", ["lbo", "gp"])
def test_several_points_at_once_differ(method):
    optimizer = made(method)
    run(optimizer, 1, 5)
    points = optimizer.ask(3)
    assert len({str(point) for point in points}) == 3
    assert optimizer.task.pending == points
    for point in reversed(points):
        optimizer.tell(point, bowl(point))
    assert optimizer.task.pending == []


def test_directions_mirror_each_other():
    low, high = made("gp"), made("gp", direction="maximize")
    for optimizer in (low, high):
        optimizer.next_task()
    for _ in range(7):
        point = low.ask()
        assert point == high.ask()
        low.tell(point, bowl(point))
        high.tell(point, -bowl(point))
    assert low.best == (high.best[0], -high.best[1])


def test_a_gaussian_process_finds_the_minimum():
    optimizer = made("gp")
    run(optimizer, 1, 14)
    point, value = optimizer.best
    assert (point["kind"], point["x"]) == ("b", pytest.approx(0.3, abs=0.03))
    assert value < 0.01


def test_a_warm_start_begins_with_the_earlier_best():
    optimizer = made("warm_start_gp")
    run(optimizer, 2, 8)
    bests = [task.points[int(np.argmin(task.values))] for task in optimizer.tasks]
    optimizer.next_task()
    assert [optimizer.ask(), optimizer.ask()] == bests[::-1]


def test_functions_that_arrive_later_are_further_tasks(tmp_path):
    """In the same folder: finished ones aren't called again, and values stay with their task."""
    calls = []

    def counted(name):
        return lambda point: calls.append(name) or bowl(point)

    def minimised(*names, evaluations=4):
        return minimize_sequence(
            {name: counted(name) for name in names},
            SPACE,
            evaluations=evaluations,
            method="random",
            out=tmp_path,
        )

    minimised("2023")
    found = minimised("2024")
    assert [task.name for task in found.tasks] == ["2023", "2024"]
    minimised("2023", "2024", evaluations=6)
    assert calls == 4 * ["2023"] + 6 * ["2024"]


def test_points_are_copies():
    """A dimension that is added to a point that was asked for would be in the folder for ever."""
    optimizer = made(method="random")
    optimizer.next_task()
    point = optimizer.ask()
    point["more"] = 1
    refused(lambda: optimizer.tell(point, 1.0), "has values of x, kind, more")
    optimizer.tell(optimizer.task.pending[0], 1.0)
    optimizer.best[0]["more"] = 1
    assert set(optimizer.ask()) == set(SPACE)


def test_two_optimisers_do_not_write_to_one_folder(tmp_path):
    first, second = made(out=tmp_path), made(out=tmp_path)
    first.next_task("one")
    refused(lambda: second.next_task("two"), "Another optimiser has written")
    assert [task.name for task in made(out=tmp_path).tasks] == ["one"]


def test_a_refused_optimiser_leaves_the_model_as_it_is(tmp_path):
    """It was made before another one went on in the folder."""
    run(made("lbo", out=tmp_path), 1, 4)
    stale = made("lbo", out=tmp_path)
    run(made("lbo", out=tmp_path), 2, 5)
    model = (tmp_path / "model.npz").read_bytes()
    refused(stale.ask, "Another optimiser has written")
    assert (tmp_path / "model.npz").read_bytes() == model


def test_a_model_of_deleted_events_is_not_used(tmp_path):
    """After a damaged line, and those after it, were deleted."""
    run(made("lbo", out=tmp_path), 2, 5)
    events = tmp_path / "events.jsonl"
    events.write_text("".join(events.read_text().splitlines(keepends=True)[:9]))
    again = made("lbo", out=tmp_path)
    assert len(again.task.points) == 4
    run(again, 1, 5)
    assert len(again.to_datatree()["networks"].to_dataset()["task"]) == 1


@pytest.mark.parametrize("damage", ["empty", "cut off", "another method's"])
def test_damaged_models_are_refused(tmp_path, damage):
    run(made("lbo", out=tmp_path), 1, 5)
    file = tmp_path / "model.npz"
    if damage == "another method's":
        with np.load(file) as arrays:
            kept = {name: arrays[name] for name in ("chosen", "when", "weights")}
        np.savez(file, **kept)
    else:
        file.write_bytes(b"" if damage == "empty" else file.read_bytes()[:-100])
    refused(lambda: made("lbo", out=tmp_path), "model.npz is damaged", "Delete it")
    file.unlink()
    assert made("lbo", out=tmp_path).ask()


@pytest.mark.parametrize("method", ["lbo", "gp"])
def test_huge_values_are_no_end(method):
    optimizer = made(method)
    optimizer.next_task()
    for value in (1.0, 1e200, 3.0, 1e308, 2.0, -1.0):
        optimizer.tell(optimizer.ask(), value)
    assert optimizer.best[1] == -1.0


def test_values_of_models_are_not_ruled_by_outliers():
    values = np.array([1e6, 3.0, 1.0, 2.0, 2.5])
    found = normalised(values)
    assert found.mean() == pytest.approx(0, abs=1e-12)
    assert found.std() == pytest.approx(1)
    assert (np.argsort(found) == np.argsort(values)).all()
    assert np.ptp(found[1:]) > 0.5  # were moments those of all values: 1e-5
    penalised = normalised(np.array([*np.arange(0.1, 0.75, 0.1), 1e6, 1e6, 1e6]))
    assert np.ptp(penalised[:7]) > 0.2  # were quartiles those of all values: 1e-6
    for huge in (1e15, 1e30, 1e200):
        assert np.ptp(normalised(np.append(np.arange(7.0), huge))[:7]) > 0.2
    np.testing.assert_array_equal(normalised(np.full(4, 2.0)), 0)
    for edge in ([0.0, 1e-320], [5e-324, 0.0, 0.0], [1e308, -1e308], [1.0, 1.0, 1.0 + 1e-15]):
        assert np.isfinite(normalised(np.array(edge))).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: made("annealing"), "no method 'annealing'"),
        (lambda: made(direction="up"), "minimize or maximize"),
        (lambda: made(seed=-1), "seed=-1"),
        (lambda: LifelongOptimizer(SPACE, initial=0), "initial=0"),
        (lambda: LifelongOptimizer(SPACE, initial=2.5), "initial=2.5 isn't a whole number"),
        (lambda: LifelongOptimizer(SPACE, seed=None), "seed=None isn't a whole number"),
        (lambda: LifelongOptimizer(SPACE, alpha="2"), "alpha is '2'"),
        (lambda: minimize_sequence(bowl, SPACE), "functions is one function"),
        (lambda: LifelongOptimizer(SPACE, alpha=math.inf), "alpha is inf"),
        (lambda: LifelongOptimizer({}), "one point only"),
        (lambda: made().ask(), "Call next_task first"),
        (lambda: made().add({"x": 0.1, "kind": "a"}, 1.0), "Call next_task first"),
        (lambda: minimize_sequence([bowl], SPACE, evaluations=0), "evaluations=0"),
        (lambda: minimize_sequence(None, SPACE), "functions is None"),
        (lambda: minimize_sequence([1], SPACE), "function 1 is 1"),
        (lambda: minimize_sequence({1: bowl, "1": bowl}, SPACE), "same as text"),
        (lambda: minimize_sequence([bowl], SPACE, catch=["x"]), "Give exceptions"),
        (lambda: minimize_sequence([bowl], SPACE, catch=5), "Give exceptions"),
        (lambda: made(["gp"]), "no method ['gp']"),
    ],
)
def test_options_that_are_refused(make, words):
    refused(make, words)


def test_tasks_and_points_that_are_refused(tmp_path):
    optimizer = made(out=tmp_path)
    optimizer.next_task("one")
    refused(lambda: optimizer.best, "Task one has no values")
    refused(lambda: optimizer.next_task("one"), "already")
    other = LifelongOptimizer({"x": FloatDistribution(0, 2)}).space
    refused(lambda: optimizer.next_task("two", other), "space of task two")
    refused(lambda: optimizer.tell({"x": 0.1, "kind": "a"}, 1.0), "wasn't asked for")
    refused(lambda: optimizer.add({"x": 3, "kind": "a"}, 1.0), "x can't be 3")
    refused(lambda: optimizer.ask(0), "n=0 is too small")
    refused(lambda: optimizer.ask("3"), "n='3' isn't a whole number")
    refused(lambda: optimizer.tell(3.0, 1.0), "The point is 3.0")
    refused(lambda: optimizer.tell(optimizer.ask(), "1.5"), "'1.5'", "Give a number")
    refused(lambda: optimizer.tell(optimizer.task.pending[0], 10**400), "Give a number")
    optimizer.add({"x": 0.5, "kind": "b"}, 0.25)
    assert optimizer.best == ({"x": 0.5, "kind": "b"}, 0.25)
    refused(lambda: made(out=tmp_path, seed=1), "different seed")
    turned = dict(reversed(SPACE.items()))
    for space in ({"x": FloatDistribution(0, 2)}, turned):
        refused(
            lambda space=space: LifelongOptimizer(space, method="gp", out=tmp_path),
            "different space",
        )
    for line in ("[]", '{"tell": {"x": 0.5, "kind": "b"}, "value": "low"}'):
        (tmp_path / "events.jsonl").write_text(f'{{"task": "one"}}\n{line}\n')
        refused(lambda: made(out=tmp_path), "Line 2")
    (tmp_path / "lifelong.json").write_text("{")
    refused(lambda: made(out=tmp_path), "damaged")
    for file in tmp_path.glob("*"):  # not the hidden lock, as by `rm *`
        if not file.name.startswith("."):
            file.unlink()
    made(out=tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    refused(lambda: made(out=tmp_path / "other"), "isn't empty")
    refused(lambda: made(out=tmp_path / "other" / "file"), "can't be written to")


def test_refused_functions_leave_no_folder(tmp_path):
    for functions in (None, [1], {1: bowl, "1": bowl}):
        with pytest.raises(InputError):
            minimize_sequence(functions, SPACE, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_rare_points_are_asked_for():
    """By chance the last one is found in one of eight attempts."""
    optimizer = LifelongOptimizer({"n": IntDistribution(1, 4000, log=True)}, method="random")
    optimizer.next_task()
    for n in range(1, 4000):
        optimizer.add({"n": n}, 1.0)
    assert optimizer.ask() == {"n": 4000}
    refused(optimizer.ask, "All points")


@pytest.mark.parametrize(("method", "initial"), [("gp", 2), ("gp", 9), ("sobol", 2), ("random", 2)])
def test_a_space_that_is_exhausted(method, initial):
    optimizer = LifelongOptimizer({"n": IntDistribution(0, 5)}, method=method, initial=initial)
    optimizer.next_task()
    for _ in range(6):
        optimizer.tell(point := optimizer.ask(), float(point["n"] - 3) ** 2)
    assert sorted(point["n"] for point in optimizer.task.points) == [0, 1, 2, 3, 4, 5]
    refused(optimizer.ask, "All points")
    optimizer.next_task()
    assert sorted(point["n"] for point in optimizer.ask(9)) == [0, 1, 2, 3, 4, 5]


def test_functions_end_with_the_space(tmp_path):
    """Whose names may be numbers."""
    for years in ((2023,), (2023, 2024)):
        found = minimize_sequence(
            dict.fromkeys(years, lambda point: point["n"]),
            {"n": IntDistribution(0, 3)},
            evaluations=9,
            method="random",
            out=tmp_path,
            catch=ValueError,
            seed=np.int64(1),
        )
    assert [(task.name, len(task.points)) for task in found.tasks] == [("2023", 4), ("2024", 4)]


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_a_run_as_a_datatree(direction):
    sign = 1 if direction == "minimize" else -1
    optimizer = made("lbo", direction=direction)
    for name in ("one", "two"):
        optimizer.next_task(name)
        for value in (3.0, math.nan, 1.0, 2.0, 5.0):
            optimizer.tell(optimizer.ask(), sign * value)
    tree = optimizer.to_datatree()
    rows = tree["evaluations"].to_dataset()
    assert rows["task"].values.tolist() == 5 * ["one"] + 5 * ["two"]
    np.testing.assert_array_equal(sign * rows["best"].values[:5], [3, 3, 1, 1, 1])
    assert rows["point_x"].values[6] == optimizer.tasks[1].points[1]["x"]
    assert set(rows["point_kind"].values) <= {"a", "b"}
    networks = tree["networks"].to_dataset()
    assert networks["task"].values.tolist() == 3 * ["one"] + 2 * ["two"]
    used = networks["probability"].values > 0.5
    assert (networks["weight"].values[used] > 0).all()
    assert networks["n_values"].values.tolist() == [3, 4, 5, 3, 4]  # with failures
    assert networks["probability"].shape == (5, 3)
    assert dict(made("gp").to_datatree()["evaluations"].sizes) == {"evaluation": 0}


def test_slashes_in_names():
    """Usual in Optuna, and not allowed in a DataTree."""
    optimizer = LifelongOptimizer({"model/rate": FloatDistribution(0, 1)}, method="random")
    optimizer.next_task()
    optimizer.tell(optimizer.ask(), 1.0)
    assert "point_model.rate" in optimizer.to_datatree()["evaluations"].to_dataset()


def test_values_of_earlier_tasks_are_transformed_once(monkeypatch):
    """Otherwise the time of a point would grow with the number of tasks."""
    calls = []
    monkeypatch.setattr(module, "normalised", lambda v: (calls.append(len(v)), normalised(v))[1])
    optimizer = made("multitask_gp")
    run(optimizer, 3, count=4)
    before = len(calls)
    run(optimizer, 4, count=4)
    assert len(calls) - before == 5  # before each point of the fourth task, and the third one whole
    optimizer.add({"x": 0.5, "kind": "a"}, 7.0)
    assert len(optimizer.acquired().values) == 5
