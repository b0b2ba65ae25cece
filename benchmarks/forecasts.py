"""Compare extrapolations of searches with those of forecasting packages, on thirteen time series.

The last tenth of each series is predicted from the rest (the split of the data file). Methods are
compositional kernel search, BOMS, compositional search with weights by backtests ("stacked", which
knows the horizon), a single squared exponential (SE) fitted in the same way, statsforecast's
AutoARIMA, AutoETS and AutoTheta, and on AIRLINE and MAUNA LOA scikit-learn's Gaussian process with
the kernel of its Mauna Loa example. Errors are divided by those of the best published method, as in
table 6 of Lloyd et al. (2014), whose GPSS is in the table as published.

    uv run --extra peers python benchmarks/forecasts.py --data FOLDER --out FOLDER [--budget 60]
        [--method stacked --method CKS ...] [--seed 0 --seed 1 ...]

The results of every series, method and seed are a CSV file; existing files aren't computed again,
so several processes may share a folder, with other methods or seeds. Methods without randomness run
once. With several seeds, tables have means over seeds, and the range of their medians.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy.stats import norm

from experiments.data.series import TSDL, Series, published_errors
from experiments.data.series import series as load
from experiments.results import slug
from kem_pymc.search.run import search

#: Length of the seasons of a series in steps, for methods that can't find it: 12 for monthly series
#: and 7 for daily ones. The days and years of faster series are too long for AutoARIMA.
SEASONS = {
    "01-airline": 12,
    "03-mauna": 12,
    "07-call-centre": 12,
    "08-radio": 12,
    "09-gas-production": 12,
    "10-sulphuric": 12,
    "11-unemployment": 12,
    "12-births": 7,
}

#: Series on which the kernel of scikit-learn's Mauna Loa example makes sense: monthly, in years.
TEXTBOOK = ("01-airline", "03-mauna")


class Forecast(NamedTuple):
    """Means and standard deviations of new observations, what was fitted, and log densities.

    Log densities of the test part are given if the forecast isn't a normal distribution.
    """

    mean: np.ndarray
    sd: np.ndarray
    model: str = ""
    log_density: np.ndarray | None = None


def searched(
    method: Literal["cks", "boms"], bases: tuple[str, ...], budget: int, ahead: bool = False
) -> Callable[[Series, int], Forecast]:
    """Return the forecaster of a search, which knows how far `ahead` to forecast or not."""

    def forecast(series: Series, seed: int) -> Forecast:
        found = search(
            series.x,
            series.y,
            method,
            bases=bases,
            budget=budget,
            horizon=len(series.x_test) if ahead else None,
            seed=seed,
            progressbar=False,
        )
        p = found.selection.predict(series.x_test, include_noise=True)
        log_density = found.selection.log_predictive_density(series.x_test, series.y_test)
        return Forecast(p.mean, p.sd, found.selection.label(), log_density)

    return forecast


def statistical(name: str) -> Callable[[Series, int], Forecast]:
    """Return the forecaster of a model of statsforecast."""
    try:
        from statsforecast import models
    except ImportError as error:
        raise SystemExit(
            f"{error}. Use `uv run --extra peers python benchmarks/forecasts.py`."
        ) from None

    def forecast(series: Series, _seed: int) -> Forecast:
        order = np.argsort(series.x, kind="stable")
        model = getattr(models, name)(season_length=SEASONS.get(series.name, 1))
        found = model.forecast(series.y[order], h=len(series.y_test), level=[90])
        half = (np.asarray(found["hi-90"]) - np.asarray(found["lo-90"])) / 2
        return Forecast(np.asarray(found["mean"]), half / norm.ppf(0.95))

    return forecast


def textbook(series: Series, seed: int) -> Forecast:
    """Forecast by scikit-learn, with the kernel of its example on Mauna Loa.

    Other series are scaled to the standard deviation of the example's, 17 ppm, because its starting
    values have units.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import (
        RBF,
        ExpSineSquared,
        RationalQuadratic,
        WhiteKernel,
    )

    kernel = 50.0**2 * RBF(50.0)
    kernel += 2.0**2 * RBF(100.0) * ExpSineSquared(1.0, 1.0, periodicity_bounds="fixed")
    kernel += 0.5**2 * RationalQuadratic(length_scale=1.0, alpha=1.0)
    kernel += 0.1**2 * RBF(0.1) + WhiteKernel(0.1**2, (1e-5, 1e5))
    level, scale = series.y.mean(), series.y.std() / 17
    fitted = GaussianProcessRegressor(kernel, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted.fit(series.x[:, None], (series.y - level) / scale)
    mean, sd = fitted.predict(series.x_test[:, None], return_std=True)
    return Forecast(level + scale * mean, scale * sd, str(fitted.kernel_))


def scored(forecast: Forecast, series: Series, denominator: float) -> dict[str, float]:
    """Return the standardised RMSE and the mean log density per point.

    Log densities are those of targets in units of their standard deviation in the training part.
    """
    error = float(np.sqrt(np.mean((forecast.mean - series.y_test) ** 2)))
    log_density = forecast.log_density
    if log_density is None:
        log_density = norm.logpdf(series.y_test, forecast.mean, forecast.sd)
    return {
        "rmse": error,
        "standardised": error / denominator,
        "log_density": float(log_density.mean() + np.log(series.y.std())),
    }


def show(results: pd.DataFrame, published: pd.DataFrame) -> list[Table]:
    """Return the tables of standardised errors, log densities and CPU seconds.

    They have means over seeds. The last rows are medians over series: their mean over seeds, and
    the smallest and the largest of any seed.
    """
    tables = []
    for value, title in (
        ("standardised", "RMSE / best published RMSE"),
        ("log_density", "Log density, nats per point"),
        ("cpu", "CPU seconds"),
    ):
        wide = results.pivot_table(index="series", columns="method", values=value)
        wide = wide[list(dict.fromkeys(results["method"]))]
        of_seed = results.groupby(["method", "seed"])[value].median().groupby("method")
        if value == "standardised":
            wide["GPSS, published"] = published["GPSS"] / published["denom"]
        medians = of_seed.mean().reindex(wide.columns).fillna(wide.median())
        ends = {"lowest": of_seed.min(), "highest": of_seed.max()}
        wide.loc["median"] = medians
        for name, end in ends.items():
            wide.loc[f"median, {name}"] = end.reindex(wide.columns)
        out = Table("series", *map(str, wide.columns), title=title)
        for name, row in wide.iterrows():
            out.add_row(str(name), *("" if np.isnan(v) else f"{v:.3f}" for v in row))
        tables.append(out)
    return tables


def main() -> None:
    """Compute the forecasts that don't exist yet, then show all."""
    parser = argparse.ArgumentParser(description="Compare extrapolations of time series.")
    parser.add_argument("--data", type=Path, default=os.environ.get("KEM_DATA"))
    parser.add_argument("--out", type=Path, default=Path("kem-out-forecasts"))
    parser.add_argument("--budget", type=int, default=60, help="models of each search")
    parser.add_argument("--seed", type=int, action="append", help="seed (repeatable); 0 by default")
    parser.add_argument("--method", action="append", help="method (repeatable)")
    asked = parser.parse_args()
    if asked.data is None:
        parser.error("Give the folder of the data files: --data FOLDER.")
    console = Console(width=130)
    bases, budget = ("SE", "RQ", "LIN", "PER"), asked.budget
    methods: dict[str, Callable[[Series, int], Forecast]] = {
        "AutoARIMA": statistical("AutoARIMA"),
        "AutoETS": statistical("AutoETS"),
        "AutoTheta": statistical("AutoTheta"),
        "SE": searched("cks", ("SE",), 1),
        "textbook GP": textbook,
        "CKS": searched("cks", bases, budget),
        "BOMS": searched("boms", bases, budget),
        "stacked": searched("cks", bases, budget, ahead=True),
    }
    series = [load(name, asked.data) for name in TSDL]
    published = published_errors(asked.data)
    asked.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for method, seed in product(asked.method or methods, asked.seed or [0]):
        if method.startswith("Auto") and seed != (asked.seed or [0])[0]:
            continue
        for own in series:
            if method == "textbook GP" and own.name not in TEXTBOOK:
                continue
            file = asked.out / f"{own.name}-{slug(method)}-{asked.budget}-{seed}.csv"
            if not file.is_file():
                began = time.process_time()
                forecast = methods[method](own, seed)
                scores = scored(forecast, own, published.loc[own.name, "denom"])
                cpu = time.process_time() - began
                row = {"series": own.name, "method": method, "seed": seed, **scores, "cpu": cpu}
                pd.DataFrame([row | {"model": forecast.model}]).to_csv(file, index=False)
            rows.append(pd.read_csv(file))
            console.print(rows[-1].to_string(index=False, header=False))
    for table in show(pd.concat(rows, ignore_index=True), published):
        console.print(table)


if __name__ == "__main__":
    main()
