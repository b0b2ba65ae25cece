import numpy as np
import pandas as pd
import pytest

from kem_pymc.search.evocov.individual import Individual
from tests.cli.conftest import fine, refused, run
from tests.search.conftest import series

OPTIONS = ("--target", "sales", "--budget", "3")


@pytest.fixture
def sales(tmp_path):
    x, y = series(24)
    path = tmp_path / "sales.csv"
    pd.DataFrame({"year": x, "sales": y, "shop": "north"}).to_csv(path, index=False)
    return path


def test_from_a_table_to_predictions(sales, tmp_path):
    out = tmp_path / "found"
    future = tmp_path / "future.csv"
    pd.DataFrame({"year": [1993.0, 1993.5]}).to_csv(future, index=False)
    text = fine("search", sales, *OPTIONS, "--future", future, "--out", out)
    assert "Not used: shop (not numbers)." in text
    assert "sales is the sum of" in text
    assert "Models evaluated: 4" in text  # with the constant
    assert "(year) is e^" in text
    assert "times as probable as a constant plus noise" in " ".join(text.split())
    path = pd.read_csv(out / "path.csv")
    assert len(path) == 4
    assert path["best_per_point"].is_monotonic_increasing
    parts = pd.read_csv(out / "components.csv")
    assert parts["component"].iloc[-1] == "noise"
    assert parts["share"].sum() == pytest.approx(1.0)
    predicted = pd.read_csv(out / "predictions.csv")
    assert list(predicted["year"].tail(2)) == [1993.0, 1993.5]
    assert predicted["sales"].isna().sum() == 2
    assert (predicted["lower_95"] < predicted["mean"]).all()
    for name in ("path.png", "components.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    # A larger budget continues the search.
    before = (out / "evaluations.jsonl").read_text()
    fine("search", sales, *OPTIONS[:2], "--budget", "4", "--out", out)
    assert (out / "evaluations.jsonl").read_text().startswith(before)
    assert len(pd.read_csv(out / "path.csv")) == 5


def test_with_a_horizon(sales, tmp_path):
    out = tmp_path / "found"
    text = fine("search", sales, *OPTIONS, "--horizon", "3", "--out", out)
    assert "by forecasts of 3 points from 3 origins" in " ".join(text.split())
    name = "log(sales)" if "Scale: log(target)" in text else "sales"
    assert f"\n{name} is the sum of" in text
    assert (out / "backtests.jsonl").read_text().count("\n") == 11  # 3, and 8 random walks
    assert len(pd.read_csv(out / "predictions.csv")) == 24
    message = refused(run("search", sales, *OPTIONS, "--horizon", "20", "--out", out))
    assert "horizon is 20 of 24 points" in message


def test_a_formula(sales, tmp_path):
    out = tmp_path / "found"
    options = ("--target", "sales", "--method", "evocov", "--features", "year", "--out", out)
    text = fine("search", sales, *options, "--budget", "20")
    assert "Models evaluated: 20" in text
    assert len(pd.read_csv(out / "path.csv")) == 20
    best = Individual.from_json((out / "best.json").read_text())
    assert (out / "formula.tex").read_text().strip() == best.tree.latex()
    assert best.tree.formula()[:30] in " ".join(text.split())
    predicted = pd.read_csv(out / "predictions.csv")
    assert (predicted["lower_95"] < predicted["mean"]).all()
    for name in ("path.png", "kernel.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    message = refused(run("search", sales, *options, "--bases", "SE,PER"))
    assert "no bases" in message
    message = refused(run("search", sales, *OPTIONS, "--out", out))
    assert "is one with different method" in message


@pytest.mark.slow
@pytest.mark.cluster
def test_a_formula_found_on_a_cluster(sales, tmp_path, address):
    options = ("--target", "sales", "--method", "evocov", "--features", "year", "--budget", "20")
    found = {}
    for name, where in {"here": ("--cores", "1"), "there": ("--cluster", address)}.items():
        fine("search", sales, *options, *where, "--out", tmp_path / name)
        found[name] = (tmp_path / name / "best.json").read_text()
    assert found["here"] == found["there"]


def test_processes_are_for_formulas(sales, tmp_path):
    message = refused(run("search", sales, *OPTIONS, "--cores", "2", "--out", tmp_path / "out"))
    assert "one after the other" in message


def test_the_inputs_are_those_of_all_doors(sales, tmp_path):
    """Fails where a curve in row numbers is found, or a column goes without a word."""
    table = pd.read_csv(sales)
    more = {
        "rownames": range(1, 25),
        "Unnamed: 0": range(24),
        "case_id": np.random.default_rng(0).permutation(24),
        "patient": [1, 2] * 12,
        "site": 3,
        "dose": ["1.5", "NA", *["."] * 22],
        "open": [True, False] * 12,
        "stock": ["NA", *map(str, np.sqrt(range(23)))],
    }
    table.assign(**more).to_csv(sales, index=False)
    out = ("--out", tmp_path / "out")
    text = fine("search", sales, *OPTIONS, "--bases", "LIN", "--missing", "drop", *out)
    for name, why in {
        "rownames": "row numbers or ids",
        "Unnamed: 0": "it has no name in the file",
        "case_id": "row numbers or ids",
        "patient": "row numbers or ids",
        "site": "the same in every row",
        "dose": "96 % of its values are missing",
    }.items():
        assert f"{name} ({why})" in " ".join(text.split())
    assert "Left out 1 of 24 rows with missing values: stock in 1 ('NA': 1)." in text
    predicted = pd.read_csv(tmp_path / "out" / "predictions.csv")
    assert list(predicted)[:4] == ["year", "open", "stock", "sales"]
    table[["sales"]].assign(obs=range(24)).to_csv(sales, index=False)
    message = refused(run("search", sales, *OPTIONS, *out))
    assert "no column of numbers beside 'sales' that may be an input: obs (row numb" in message
    assert "name inputs with --features" in message


def test_dates_of_any_format_become_days(tmp_path):
    _, y = series(24)
    months = pd.date_range("2022-01-01", periods=24, freq="MS")
    path = tmp_path / "monthly.csv"
    search = ("search", path, "--target", "sales", "--budget", "2", "--bases", "LIN")
    for form in ("%Y%m", "%d.%m.%Y"):
        written = months.strftime(form)
        pd.DataFrame({"month": written, "sales": y}).to_csv(path, index=False)
        if form == "%Y%m":
            message = refused(run(*search, "--out", tmp_path / "none"))
            assert "numbers such as 202201, which may be dates. Read them with --date" in message
        fine(*search, "--date-format", form, "--out", tmp_path / "out")  # continued: equal data
        predicted = pd.read_csv(tmp_path / "out" / "predictions.csv")["month"]
        assert list(predicted) == list(months.strftime("%Y-%m-%d"))


def test_dates_become_days(tmp_path):
    _, y = series(24)
    dates = pd.date_range("2024-01-01", periods=24, freq="7D").strftime("%Y-%m-%d")
    path = tmp_path / "weekly.csv"
    pd.DataFrame({"day": dates, "sales": y}).to_csv(path, index=False)
    future = tmp_path / "future.csv"
    pd.DataFrame({"day": ["2024-06-17"]}).to_csv(future, index=False)
    fine(
        *("search", path, "--target", "sales", "--budget", "2", "--bases", "SE,LIN"),
        *("--future", future, "--out", tmp_path / "out"),
    )
    predicted = pd.read_csv(tmp_path / "out" / "predictions.csv")["day"]
    assert list(predicted) == [*dates, "2024-06-17"]
    pd.DataFrame({"day": [7.0]}).to_csv(future, index=False)
    message = refused(
        run(
            *("search", path, "--target", "sales", "--budget", "2", "--future", future),
            *("--out", tmp_path / "other"),
        )
    )
    assert "isn't written as in" in message


def test_nothing_is_found_in_noise(tmp_path):
    path = tmp_path / "noise.csv"
    rng = np.random.default_rng(5)
    pd.DataFrame({"t": range(40), "y": rng.normal(size=40)}).to_csv(path, index=False)
    out = tmp_path / "found"
    text = fine("search", path, "--target", "y", "--budget", "4", "--out", out)
    assert "Nothing found: " in text
    assert "is the sum of" not in text
    assert list(pd.read_csv(out / "components.csv")["component"])[-1] == "noise"


def test_missing_values_are_refused_or_dropped(sales, tmp_path):
    table = pd.read_csv(sales)
    table.loc[4, "sales"] = np.nan
    table.to_csv(sales, index=False)
    message = refused(run("search", sales, *OPTIONS, "--out", tmp_path / "a"))
    assert "'sales'" in message
    assert "line 6" in message
    assert not (tmp_path / "a").exists()
    future = tmp_path / "future.csv"
    pd.DataFrame({"year": [1993.0, None, 1994.0]}).to_csv(future, index=False)
    options = (*OPTIONS, "--out", tmp_path / "a", "--future", future)
    text = fine("search", sales, *options, "--missing", "drop")
    assert "Left out 1 of 24 rows" in text
    assert "Left out 1 of 3 rows of future.csv" in text
    table.dropna().to_csv(sales, index=False)
    assert "line 3 of future.csv" in refused(run("search", sales, *options))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--target", "profit"), ("'profit'", "year, sales, shop")),
        (("--target", "sales", "--features", "month"), ("'month'",)),
        (("--target", "sales", "--features", "sales"), ("is the target",)),
        (("--target", "sales", "--features", "shop"), ("'shop'", "'north'")),
        (("--target", "sales", "--bases", "SE,SQ"), ("'SQ'",)),
        (("--target", "shop"), ("'shop'",)),
    ],
)
def test_refusals(options, words, sales, tmp_path):
    message = refused(run("search", sales, *options, "--out", tmp_path / "out"))
    for word in words:
        assert word in message
    assert not (tmp_path / "out").exists()


def test_tables_without_inputs_or_variation(tmp_path):
    path = tmp_path / "t.csv"
    pd.DataFrame({"sales": [1.0, 2, 3, 4, 5], "shop": list("abcde")}).to_csv(path, index=False)
    assert "no column of numbers" in refused(run("search", path, *OPTIONS, "--out", tmp_path / "o"))
    pd.DataFrame({"sales": [2.0] * 6, "year": range(6)}).to_csv(path, index=False)
    assert "All targets" in refused(run("search", path, *OPTIONS, "--out", tmp_path / "o"))
