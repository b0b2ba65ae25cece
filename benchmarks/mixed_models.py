"""Compare the population model with linear mixed models of lme4 and pbkrtest, on tables of R.

Given REML's variances, estimates and standard errors should be lme4's to 1e-5 of a standard error.
With the model's own posterior, estimates should be within .35 standard errors of REML's, and half
widths of 95 % intervals .95 to 1.25 times those of Kenward and Roger.

    uv run python benchmarks/mixed_models.py TABLES [--reference FILE]

TABLES is a folder, into which R writes its own tables; mixed_models.R says which packages it needs.
"""

import os

# Matrices are small, so several threads would only slow each other down.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import subprocess
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

import kem_pymc as kem
from kem_pymc.errors import SamplingWarning
from kem_pymc.population import PopulationPosterior

#: Limits of the largest difference in standard errors given REML's variances, and with the model's
#: own posterior; and of the ratios of half widths to those of Kenward and Roger.
EQUAL, NEAR, RATIOS = 1e-5, 0.35, (0.95, 1.25)

NORMAL = 1.959963984540054


def model_of(entry: Mapping[str, Any], folder: Path) -> kem.PopulationModel:
    """Return the population model with the terms of a mixed model."""
    table, time = pd.read_csv(folder / f"{entry['table']}.csv"), entry["time"]
    used = dict.fromkeys([time, *(f for term in entry["fixed_terms"] for f in term.split(":"))])
    table = table[[*dict.fromkeys([entry["user"], time, entry["target"], *used])]].dropna()
    table = table.sort_values([entry["user"], time], kind="stable")
    categories = {name: table[name].astype(str) for name in entry["categories"] or ()}
    cohort = kem.Cohort.from_frame(
        table.assign(**categories),
        user=entry["user"],
        time=time,
        target=entry["target"],
        features=[*used],
        categorical=[*categories],
        gaps="skip",
        scope="population",
    )
    own = ["level", time] if "sd_slope" in entry["reml"] else ["level"]
    return kem.PopulationModel(cohort, entry["fixed_terms"], own)


def at_reml(model: kem.PopulationModel, entry: Mapping[str, Any]) -> PopulationPosterior:
    """Return the posterior given REML's variances."""
    reml, time, sd = entry["reml"], entry["time"], model.target_sd
    draws = {"personal level.sd": reml["sd_level"] / sd, "noise.sd": reml["noise"] / sd}
    if "sd_slope" in reml:
        draws[f"personal {time}.sd"] = reml["sd_slope"] * model.shared.feature(time).sd / sd
        draws[f"personal {time}.correlation"] = reml["correlation"]
    arrays = {name: np.array([value]) for name, value in draws.items()}
    return PopulationPosterior(model, arrays, np.ones(1), -np.inf, np.nan)


def answer(
    posterior: PopulationPosterior, entry: Mapping[str, Any], asked: Mapping[str, Any]
) -> tuple[float, float]:
    """Return the estimate of a quantity, and half the width of its interval."""
    time, level = entry["time"], asked.get("level")
    name: Any = asked.get("variable")
    over = {time: [asked["time"]]} if "time" in asked else None
    kind = asked["quantity"]
    if kind == "mean":
        table = posterior.predictions(name, over)
    elif kind == "slope":
        table = posterior.slopes(time, by=name)
    elif kind == "contrast":
        table = posterior.comparisons(name, over=over)
    else:  # of lines: the difference of changes during one unit of time
        table = posterior.comparisons(name, over={time: [1.0]}, baseline=0.0)
    if kind in ("mean", "slope"):
        row = table.iloc[0] if name is None else table.set_index("group").loc[level]
    else:
        row = table.set_index("contrast").loc[f"{level} - {asked['reference']}"]
    estimate = row["mean" if kind == "mean" else "estimate"]
    return float(estimate), float(row["high_95"] - row["low_95"]) / 2


def rows_of(entry: Mapping[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Return a row for each quantity of a mixed model."""
    model = model_of(entry, folder)
    given = at_reml(model, entry)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplingWarning)
        own = model.fit()
    rows = []
    for asked in entry["quantities"]:
        plugged, half = answer(given, entry, asked)
        estimate, wide = answer(own, entry, asked)
        se = asked["se"]
        off = max(abs(plugged - asked["estimate"]) / se, abs(half / NORMAL / se - 1))
        row = {
            "table": entry["table"],
            "terms": " + ".join(entry["fixed_terms"]) + f" | {len(entry['random_terms'])}",
            "singular": entry["singular"],
            "quantity": asked["quantity"],
            "of": f"{asked.get('variable', '')} {asked.get('level', '')} {asked.get('at', '')}",
            "given": off,
            "difference": (estimate - asked["estimate"]) / asked["kr_se"],
            "ratio": wide / asked["kr_half_width"],
            "df": asked["kr_df"],
            "k": own.pareto_k,
        }
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", type=Path, help="folder of tables")
    parser.add_argument("--reference", type=Path, help="R's figures, if they have been made")
    parser.add_argument("--csv", type=Path, help="file for a row per quantity")
    given = parser.parse_args()
    reference = given.reference or given.tables / "reference.json"
    if given.reference is None:
        script = Path(__file__).with_suffix(".R")
        subprocess.run(["Rscript", script, given.tables, reference], check=True)
    models = json.loads(reference.read_text("utf-8"))["models"]
    table = pd.DataFrame([row for entry in models for row in rows_of(entry, given.tables)])
    if given.csv is not None:
        table.to_csv(given.csv, index=False)
    console = Console(highlight=False, width=200)
    outside = (table["difference"].abs() > NEAR) | ~table["ratio"].between(*RATIOS)
    for singular, part in table.groupby("singular"):
        inside = int((~outside[part.index]).sum())
        kind = "singular" if singular else "regular"
        console.print(
            f"{kind}: {len(part)} quantities, {inside} within limits; largest difference given "
            f"REML's variances {part['given'].max():.1e}; half widths {part['ratio'].min():.2f} to "
            f"{part['ratio'].max():.2f}, median {part['ratio'].median():.2f}"
        )
    keys = ["table", "terms", "singular", "quantity"]
    worst = table[outside | (table["given"] > EQUAL)].groupby(keys)[
        ["given", "difference", "ratio", "df", "k"]
    ]
    console.print(worst.agg(["min", "max"]).round(3).to_string())


if __name__ == "__main__":
    main()
