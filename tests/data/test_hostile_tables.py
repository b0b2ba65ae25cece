"""Thousands of malformed tables: refused with a message, or read as a sound cohort."""

import datetime
import warnings
from collections import Counter
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from kem_pymc.cli.tables import Table
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.scaling import Scaling
from kem_pymc.errors import InputError

pytestmark = pytest.mark.faults

#: What may stand in a cell of a DataFrame.
CELLS = (
    *(None, np.nan, np.inf, -np.inf, pd.NA, pd.NaT, 0, -1, True, 1e308, 5e-324, 10**400, 2**63),
    *("", " ", "x", "1", "1.5", "2024-03-01", "2024-03-01T10:00Z", "nan", "\x00", "\ud800"),
    *([], [1, 2], (1, 2), {}, {"a": 1}, {1}, b"1", 1j, np.array([1, 2]), np.array(1.0), object),
    *(datetime.date(2024, 3, 1), datetime.datetime(2024, 3, 1), datetime.timedelta(1)),
    *(pd.Timestamp("2024-03-01"), pd.Timestamp("2024-03-01", tz="UTC"), pd.Period("2024-03")),
    *(Decimal(1), Decimal("nan"), np.float32(1), np.datetime64("NaT", "ns"), pd.Interval(0, 1)),
    *(np.longdouble("1e400"), pd.Timestamp.max, pd.Timestamp.min, datetime.time(1), range(3)),
    *(Decimal("sNaN"), Decimal("1e400"), b"\xff", np.float16(1), np.str_("\ud800"), frozenset({1})),
)

#: What a column may be turned into.
TYPES = (
    *("object", "str", "string", "category", "Int64", "Float64", "boolean", "bool", "complex128"),
    *("datetime64[ns]", "timedelta64[s]", "float32", "int8", "uint64", "Sparse[float64]", "bytes"),
    *("period[D]", "datetime64[ns, UTC]", "int64[pyarrow]", "string[pyarrow]", "longdouble"),
    *("float16", "halffloat[pyarrow]", "Sparse[int]"),
)

#: What may be given for a column, or another argument.
ARGUMENTS = (
    *("id", "week", "steps", "sleep", "mood", "", "none", None, 0, 1.5, np.nan, True, b"id"),
    *(["id"], ["id", "week"], ("id",), {}, {"id"}, slice(None), pd.Series([1]), np.array(["id"])),
    *([], [[]], [["id"]], "idweek", {"sleep": 1}, lambda: 1, ["sleep", None], ["sleep", ["a"]]),
    *(pd.NA, [pd.NA], Decimal("sNaN"), [Decimal("sNaN")], np.array("sleep"), b"\xff", "\ud800"),
)
CATEGORIES = (
    *(None, ["sleep"], ["week"], ["nothing"], {}, {"sleep": ["0", "1"]}, {"sleep": "01"}),
    *({"sleep": None}, {"sleep": [1, 2]}, {"sleep": [None]}, {"sleep": [["a"]]}, {"sleep": [b"a"]}),
    *({"sleep": ["a", "a"]}, {"sleep": []}, {"sleep": 5}, {None: ["a"]}, {"sleep": ["\ud800"]}),
)
FORMATS = (
    *(None, "numbers", "%d.%m.%Y", "%Y%m%d", "%", "%Y%Y", "", "\ud800", 5, [], pd.NA, b"%Y"),
    *(np.array(["a", "b"]), "%z", "mixed"),
)

#: By what a column may be multiplied, and what it may be equal to but for one step of floats.
SCALES = (1e-300, 1e-200, 1e-155, 5e-324, 1e-20, 1e12, 1e200, 1e300, 0.0, -1.0)
STILL = (1.0, 1e12, -1e11, 1e-300, 0.0, 0.1)
BATCHES = (None, 1, 2, 0, -1, True, 1.5, "2", [2], 10**30, np.int64(2), np.nan)
CHOICES = (
    *("error", "skip", "drop", "pilot", "new", None, [], {}, 1, "", pd.NA, b"new"),
    *(np.array(["a", "b"]), pd.Series(["new"])),
)


def sound(rng):
    """Return a table that may be read."""
    users, weeks = rng.integers(1, 4, 2) + 1
    n = users * weeks * 2
    return pd.DataFrame(
        {
            "id": np.repeat(np.arange(users), weeks * 2),
            "week": np.tile(np.repeat(np.arange(weeks), 2), users),
            "steps": rng.normal(size=n),
            "sleep": rng.normal(size=n),
            "mood": rng.normal(size=n),
        }
    )


def pick(rng, items):
    return items[rng.integers(len(items))]


def changed(frame, rng):
    """Return a table with something changed in it."""
    column = int(rng.integers(frame.shape[1])) if frame.shape[1] else 0
    name = frame.columns[column] if frame.shape[1] else "id"
    what = rng.integers(14)
    if what < 4 and len(frame):  # cells
        values = frame.iloc[:, column].astype(object).tolist()
        cell = pick(rng, CELLS)
        for row in rng.integers(len(frame), size=pick(rng, (1, 1, 2, len(frame)))):
            values[row] = cell
        own = np.empty(len(frame), dtype=object)
        own[:] = values if not any(isinstance(v, np.ndarray) for v in values) else [*values]
        series = pd.Series(own, index=frame.index)
        series = series.infer_objects() if rng.random() < 0.5 else series
        columns = [frame.iloc[:, i] for i in range(frame.shape[1])]
        columns[column] = series
        made = pd.concat(columns, axis=1)
        made.columns = frame.columns
        return made
    if what < 6:
        own = frame.iloc[:, column].astype(pick(rng, TYPES))
        return frame.assign(**{name: own}) if isinstance(name, str) else frame
    if what == 6:
        return frame.drop(columns=[name])
    if what == 7:
        odd = ("id", "week", "steps", "", None, 3, ("a", "b"), np.nan, "Unnamed: 0", pd.NA)
        label = pick(rng, (*odd, Decimal("sNaN"), b"\xff", "a\ud800", object()))
        labels = list(frame.columns)
        labels[column] = label
        return frame.set_axis(pd.Index(labels, tupleize_cols=bool(rng.integers(2))), axis=1)
    if what == 8:
        return frame.iloc[rng.permutation(len(frame))[: rng.integers(len(frame) + 1)]]
    if what == 9:
        kinds = ("0", "dates", "multi", "nan", "name")
        kind, n = pick(rng, kinds), len(frame)
        if kind == "multi":
            return frame.set_index([np.arange(n), np.arange(n)])
        if kind == "dates":
            return frame.set_index(pd.date_range("2024", periods=n))
        label = {"0": 0, "nan": np.nan, "name": ("a",)}[kind]
        return frame.set_axis(pd.Index([label] * n, tupleize_cols=False), axis=0)
    if what == 10:
        return pd.concat([frame, frame], axis=int(rng.integers(2)))
    if what == 11:
        of_levels = pd.MultiIndex.from_arrays([frame.columns, [""] * frame.shape[1]])
        return frame.set_index(name) if rng.random() < 0.5 else frame.set_axis(of_levels, axis=1)
    cells = frame[name].astype(float) * pick(rng, SCALES)
    if what == 13:
        cells[:] = pick(rng, STILL)
        cells.iloc[rng.integers(len(cells))] = np.nextafter(cells.iloc[0], np.inf)
    return frame.assign(**{name: cells})


def a_table(rng):
    """Return a malformed table: a DataFrame, as a rule."""
    if rng.random() < 0.01:
        return pick(rng, (None, [], {}, "table", pd.Series([1]), np.ones((3, 3)), 5))
    frame = sound(rng)
    for _ in range(rng.integers(4)):
        try:
            frame = changed(frame, rng)
        except (ValueError, TypeError, OverflowError, KeyError, NotImplementedError, ImportError):
            continue  # pandas itself has no such table
    return frame


def arguments(rng, columns=("id", "week", "steps")):
    """Return arguments of a reader, of which few are odd."""
    found = dict(zip(("user", "time", "target"), columns, strict=True))
    odd = {"features": ARGUMENTS, "batch": BATCHES, "categorical": CATEGORIES}
    odd |= dict.fromkeys(found, ARGUMENTS) | {"date_format": FORMATS}
    odd |= dict.fromkeys(("gaps", "scope", "missing", "short"), CHOICES)
    found |= {"features": pick(rng, (None, None, ["sleep"], ["week"], ["sleep", "mood"]))}
    if rng.random() < 0.3:
        name = pick(rng, list(odd))
        found[name] = pick(rng, odd[name])
    if rng.random() < 0.2:
        found["scope"] = "new"
    for name in ("missing", "short"):
        if rng.random() < 0.3:
            found.setdefault(name, "drop")
    return found


def from_frame(rng, _):
    return Cohort.from_frame(a_table(rng), **arguments(rng))


#: What may stand in a file.
TEXTS = (
    *("", " ", "x", "1e999", "-", "0x1F", "1_000", "\N{ARABIC-INDIC DIGIT TWO}", "1,5", '"', '"a'),
    *("2024-03-01", "2024-02-30", "2024-03-01T10:00Z", "01.03.2024", "9999-12-31", "1677-01-01"),
    *("NaN", "inf", "-inf", "NULL", "True", "\x00", "\r", "\n\n", ",,,,", "9" * 400, "1e308", ";"),
    *("a" * 10_000, "=1+1", "'", "\\", "\ufeff", "\u2028", "[1, 2]", "12:30", "10000-01-01", "1 "),
)


def csv(rng):
    """Return a malformed CSV file."""
    frame = sound(rng)
    if rng.random() < 0.3:
        frame["week"] = pd.date_range("2024-03-01", periods=9).astype(str)[frame["week"]]
    lines = [line.split(",") for line in frame.to_csv(index=False).split("\n")]
    for _ in range(rng.integers(1, 4)):
        line = lines[0 if rng.random() < 0.15 else rng.integers(len(lines))]
        what, where = rng.integers(6), rng.integers(len(line))
        if what < 3:
            line[where] = pick(rng, TEXTS)
        elif what == 3:
            line.insert(where, pick(rng, TEXTS))
        elif what == 4:
            del line[where:]
            line.append("")
        else:
            column = rng.integers(5)
            for own in lines[1:]:
                if len(own) > column:
                    own[column] = pick(rng, TEXTS)
    content = "\n".join(map(",".join, lines)).encode("utf-8")
    if rng.random() < 0.1:
        content = content.replace(b",", pick(rng, (b";", b"\t", b"|", b" ")))
    return damaged(content, rng) if rng.random() < 0.2 else content


def damaged(content, rng):
    changed = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        changed[rng.integers(len(changed))] = rng.integers(256)
    return bytes(changed[: rng.integers(len(changed))] if rng.random() < 0.3 else changed)


def from_file(rng, folder):
    if rng.random() < 0.75:
        path = folder / "table.csv"
        path.write_bytes(csv(rng))
    else:
        path = folder / "table.parquet"
        try:
            a_table(rng).to_parquet(path)
        except Exception:  # parquet has no such table
            sound(rng).to_parquet(path)
        if rng.random() < 0.3:
            path.write_bytes(damaged(path.read_bytes(), rng))
    asked = arguments(rng)
    asked = {n: v for n, v in asked.items() if v is None or isinstance(v, str | list)}
    features = asked.get("features")
    if features is not None and not all(isinstance(name, str) for name in features):
        features = None
    columns = {n: asked.get(n) for n in ("user", "time", "target")}
    columns = {n: v if isinstance(v, str) else None for n, v in columns.items()}
    table = Table(
        data=path,
        **columns,
        features=features if isinstance(features, list) else None,
        batch=pick(rng, (None, None, 1, 2, 7)),
        skip_gaps=bool(rng.integers(2)),
    )
    return table.cohort(pick(rng, (None, {})))


def check(read, seeds, folder):
    """Read tables that are made by seeds; return how many were refused, and how many read."""
    counts, faults = Counter(), Counter()
    for seed in seeds:
        try:
            with warnings.catch_warnings():  # pandas warns of what it is asked to make
                warnings.simplefilter("ignore")
                cohort = read(np.random.default_rng(seed), folder)
        except InputError:
            counts["refused"] += 1
            continue
        except Exception as error:
            faults[f"{type(error).__name__}: {str(error)[:80]} (seed {seed})"] += 1
            continue
        counts["read"] += 1
        try:
            cohort.to_frame("the user", "the time step")
            scaling = Scaling.unit(cohort)
        except InputError:  # two columns with a name, or new users who don't vary
            scaling = Scaling.none(cohort)
        scaled = scaling.apply(cohort)
        for each in (*cohort.inputs, *cohort.targets, *scaled.inputs, *scaled.targets):
            if not np.isfinite(each).all():
                faults[f"values that aren't finite (seed {seed})"] += 1
    assert not faults, "\n".join(faults)
    return counts


@pytest.mark.parametrize("read", [from_frame, pytest.param(from_file, marks=pytest.mark.slow)])
def test_malformed_tables(read, tmp_path):
    assert min(check(read, range(1500), tmp_path).values()) > 100
