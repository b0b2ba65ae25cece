"""Probabilities of new users' next counts and classes, on real tables, beside other packages.

    uv run --extra peers --with gpboost python benchmarks/outcomes.py TABLES [--table NAME]

TABLES is a folder with CSV files of R's packages: MASS's epil and bacteria, geepack's respiratory,
lme4's toenail and schizophrenia, multgee's arthritis, and HeartSteps as daily_users_01_20.csv.
Users are dealt into pilots and new users at random. What is scored is the log probability of each
next row of a new user, given the user's earlier ones, in nats: of KEM and two-level models with the
family, of KEM as for normal targets through a transform, integrated over the unit around a whole
number, and of

- GLMM: lme4, glmmTMB or ordinal (outcomes.R), with the new user's level integrated given earlier
  rows;
- GEE: statsmodels, exchangeable, which doesn't know the user's earlier rows (counts as negative
  binomial with a dispersion from the Pearson residuals; levels as independent);
- GPBoost: a level and an exponential covariance in time for each user, its latent normal
  distribution given earlier rows integrated over; a level only where a variance diverges, as
  Laplace's approximation lets it with single trials.

The results of every table, deal and method are CSV files; existing ones aren't computed again. All
that are in the folder are shown.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy.special import expit, log_expit, logsumexp
from scipy.stats import nbinom

from kem_pymc.comparison import task
from kem_pymc.comparison.methods import METHODS, Sampling
from kem_pymc.comparison.study import Study
from kem_pymc.comparison.task import Scale, tasks_of
from kem_pymc.data.cohort import Cohort
from kem_pymc.data.datasets import default_pool
from kem_pymc.data.families import Name

#: Largest number of users of a table, drawn at random, and of HeartSteps' days.
USERS, DAYS = 60, 10

#: Draws of the sampler, and methods of the package with the family.
SCALE, OURS = Scale({"cut": Sampling(2, 60, 60)}), ("KEM", "Two-level GP", "Mixed model")

#: Variance of GPBoost's latent values from which on its fit is taken to have diverged.
DIVERGED = 50.0

#: Transforms beside which a family is compared; None is the target as it is.
TRANSFORMS = {"count": ("sqrt", "log1p"), "binary": (None,), "ordinal": (None,)}


@dataclass(frozen=True)
class Data:
    """A table: its columns, the family of the target, and what is made of it first."""

    file: str
    user: str
    time: str
    target: str
    features: tuple[str, ...]
    family: Name
    categorical: tuple[str, ...] = ()
    prepare: Callable[[pd.DataFrame], pd.DataFrame] = lambda t: t

    def cohort(self, folder: Path, family: Name | None) -> Cohort:
        """Return the users of the table, at most `USERS` of them."""
        table = self.prepare(pd.read_csv(folder / self.file))
        columns = [self.user, self.time, self.target, *self.features]
        table = table[[*dict.fromkeys(columns)]].dropna()
        table = table.sort_values([self.user, self.time], kind="stable")
        users = table[self.user].unique()
        kept = np.random.default_rng(0).permutation(users)[:USERS]
        return Cohort.from_frame(
            table[table[self.user].isin(kept)],
            user=self.user,
            time=self.time,
            target=self.target,
            features=list(self.features),
            categorical=list(self.categorical),
            gaps="skip",
            short="drop",
            family=family,
        )


def days(table: pd.DataFrame) -> pd.DataFrame:
    """Return HeartSteps' first days on which steps were counted, and whether they were 10,000."""
    table = table[(table["study_day"] < DAYS) & (table["jb_steps_agg"] > 0)]
    return table.assign(goal=(table["jb_steps_agg"] >= 10_000).astype(int))


HEARTSTEPS = ("daily_users_01_20.csv", "user", "study_day")
DAILY = ("study_day", "weekday")

TABLES = {
    "epil": Data(
        *("epil.csv", "subject", "period", "y", ("period", "trt", "lbase", "lage"), "count"),
        categorical=("trt",),
    ),
    "sessions": Data(*HEARTSTEPS, "app_sessions", DAILY, "count", prepare=days),
    "steps": Data(*HEARTSTEPS, "jb_steps_agg", DAILY, "count", prepare=days),
    "respiratory": Data(
        *("respiratory.csv", "person", "visit", "outcome"),
        *(("visit", "center", "treat", "sex", "age", "baseline"), "binary"),
        categorical=("center", "treat", "sex"),
        prepare=lambda t: t.assign(person=t["center"] * 1000 + t["id"]),
    ),
    "bacteria": Data(
        *("bacteria.csv", "ID", "week", "present", ("week", "trt"), "binary"),
        categorical=("trt",),
        prepare=lambda t: t.assign(present=(t["y"] == "y").astype(int)),
    ),
    "toenail": Data(
        *("toenail.csv", "patientID", "time", "severe", ("time", "treatment"), "binary"),
        categorical=("treatment",),
        prepare=lambda t: t.assign(severe=t["outcome"].str.startswith("moderate").astype(int)),
    ),
    "goal": Data(*HEARTSTEPS, "goal", DAILY, "binary", prepare=days),
    "arthritis": Data(
        *("arthritis.csv", "id", "time", "y"),
        *(("time", "trt", "sex", "age", "baseline"), "ordinal"),
        categorical=("trt", "sex"),
    ),
    "schizophrenia": Data(
        *("schizophrenia.csv", "id", "SqrtWeek", "imps79o", ("SqrtWeek", "TxDrug"), "ordinal"),
        prepare=lambda t: t[t["Week"].isin([0, 1, 3, 6])],
    ),
}


def log_probabilities(selection: Any, x: np.ndarray, y: np.ndarray, **given: Any) -> dict[str, Any]:
    """Return the mean log probability of targets, for a transform that of the unit around them."""
    given = {name: given[name] for name in ("noise", "sizes") if name in given}
    observation = selection.predict(x, include_noise=True, **given).observation
    if selection.scaling.family is not None:
        return {"log_likelihood": float(np.mean(observation.log_density(y)))}
    low, high = LIMITS
    below = np.where(y <= low, 0.0, observation.cdf(np.maximum(y, low + 1) - 0.5))
    until = np.where(y >= high, 1.0, observation.cdf(y + 0.5))
    return {"log_likelihood": float(np.mean(np.log(np.maximum(until - below, 1e-15))))}


#: Smallest and largest target, beyond which there is no unit; set for each table.
LIMITS = (0.0, np.inf)


def of_the_package(study: Study, trial: int, methods: tuple[str, ...]) -> pd.DataFrame:
    """Return log probabilities of the package's methods, by the tasks of `kem compare`."""
    task.predictive_scores = log_probabilities  # type: ignore[assignment]
    made = tasks_of(study, {name: METHODS[name] for name in methods}, trial + 1, SCALE)
    tables = [one.run() for one in made if one.trial == trial]
    return pd.concat(tables)[["method", "user", "time_step", "log_likelihood"]].dropna()


class Design:
    """Columns of a linear predictor: standardised numbers, and levels beyond the first."""

    def __init__(self, pilot: Cohort) -> None:
        self.levels = [len(pilot.levels.get(name, ())) for name in pilot.features]
        x = self.raw(np.concatenate(pilot.inputs))
        self.kept = x.std(axis=0) > 0
        self.mean, self.sd = x[:, self.kept].mean(axis=0), x[:, self.kept].std(axis=0)

    def raw(self, x: np.ndarray) -> np.ndarray:
        """Return columns in the table's units."""
        parts = [
            (column[:, None] == np.arange(1, levels)) if levels else column[:, None]
            for column, levels in zip(x.T, self.levels, strict=True)
        ]
        return np.concatenate(parts, axis=1).astype(float)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return columns (n, k) of inputs (n, D)."""
        return (self.raw(x)[:, self.kept] - self.mean) / self.sd


def log_mass(family: str, y: np.ndarray, eta: np.ndarray, fit: dict[str, Any]) -> np.ndarray:
    """Return log probabilities of targets, given a linear predictor of their shape."""
    if family == "binary":
        return log_expit(np.where(y == 1, eta, -eta))
    if family == "count":
        size = fit["size"][0]
        return nbinom.logpmf(y, size, size / (size + np.exp(eta)))
    cuts = np.array([-np.inf, *fit["cuts"], np.inf])
    place = np.searchsorted(fit["levels"], y)
    return np.log(np.maximum(expit(cuts[place + 1] - eta) - expit(cuts[place] - eta), 1e-15))


def each_row(test: Cohort) -> Iterator[tuple[Any, int, int, int, np.ndarray, np.ndarray]]:
    """Yield user, time step, numbers of earlier rows and with the next, inputs and targets."""
    for user, x, y, ends in zip(test.users, test.inputs, test.targets, test.ends, strict=True):
        for step, (now, then) in enumerate(pairwise(ends)):
            yield user, step, now, then, x, y


def rows_of(pilot: Cohort, design: Design) -> pd.DataFrame:
    """Return pilots' rows: target y, number of the user, columns x1, x2, ..."""
    x = design(np.concatenate(pilot.inputs))
    table = pd.DataFrame(x, columns=[f"x{k + 1}" for k in range(x.shape[1])])
    table["user"] = np.repeat(np.arange(pilot.n_users), [len(y) for y in pilot.targets])
    return table.assign(y=np.concatenate(pilot.targets))


def glmm(family: str, pilot: Cohort, test: Cohort) -> list[tuple[Any, int, float]]:
    """Return log probabilities of a mixed model with users' levels, given their earlier rows."""
    design = Design(pilot)
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder) / "rows.csv", Path(folder) / "fit.json"
        rows_of(pilot, design).to_csv(data, index=False)
        script = Path(__file__).with_suffix(".R")
        command = ["Rscript", str(script), family, str(data), str(out)]
        subprocess.run(command, check=True, capture_output=True)
        fit = json.loads(out.read_text("utf-8"))
    nodes = np.linspace(-7, 7, 281)
    found = []
    for user, step, now, then, x, y in each_row(test):
        fixed = fit["intercept"][0] + design(x[:then]) @ np.array(fit["slopes"])
        eta = fixed + fit["sd"][0] * nodes[:, None]
        terms = log_mass(family, y[:then], eta, fit)
        earlier = terms[:, :now].sum(axis=1) - 0.5 * nodes**2
        # Points of one time step are predicted one by one, as those of `predictive_scores` are.
        each = logsumexp(earlier[:, None] + terms[:, now:], axis=0) - logsumexp(earlier)
        found.append((user, step, float(each.mean())))
    return found


def gee(family: str, pilot: Cohort, test: Cohort) -> list[tuple[Any, int, float]]:
    """Return log probabilities of a marginal model."""
    import statsmodels.api as sm
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    design = Design(pilot)
    rows = rows_of(pilot, design)
    x, y, user = rows.filter(regex="^x"), rows["y"], rows["user"]
    if family == "ordinal":
        marginal = OrderedModel(y.astype(int), x, distr="logit")
        params = marginal.fit(method="bfgs", disp=False, maxiter=500).params
        cuts = np.cumsum([params.iloc[x.shape[1]], *np.exp(params.iloc[x.shape[1] + 1 :])])
        fit = {"intercept": 0.0, "slopes": params.iloc[: x.shape[1]].to_numpy()}
        fit |= {"cuts": cuts, "levels": np.unique(y)}
    else:
        kind = sm.families.Binomial() if family == "binary" else sm.families.Poisson()
        own = sm.GEE(
            y, sm.add_constant(x), user, family=kind, cov_struct=sm.cov_struct.Exchangeable()
        )
        found = own.fit(maxiter=200)
        mean = found.fittedvalues
        dispersion = max(float((((y - mean) ** 2 - mean) / mean**2).mean()), 1e-4)
        fit = {"intercept": found.params.iloc[0], "slopes": found.params.iloc[1:].to_numpy()}
        fit |= {"size": [1 / dispersion]}
    out = []
    for u, step, now, then, z, t in each_row(test):
        eta = fit["intercept"] + design(z[now:then]) @ fit["slopes"]
        out.append((u, step, float(log_mass(family, t[now:then], eta, fit).mean())))
    return out


def gpboost(family: str, pilot: Cohort, test: Cohort) -> list[tuple[Any, int, float]]:
    """Return log probabilities of GPBoost's model."""
    import gpboost as gpb

    design = Design(pilot)
    rows = rows_of(pilot, design)
    place = pilot.features.index(str(pilot.time))
    names = {"binary": "bernoulli_logit", "count": "negative_binomial"}

    def model(users: np.ndarray, times: np.ndarray, smooth: bool) -> Any:
        over_time = {"gp_coords": times[:, None], "cluster_ids": users} if smooth else {}
        return gpb.GPModel(
            likelihood=names[family],
            group_data=users,
            cov_function="exponential",
            num_parallel_threads=1,
            **over_time,
        )

    users = rows["user"].to_numpy()
    times = np.concatenate([x[:, place] for x in pilot.inputs])
    span = np.ptp(times)
    x = np.column_stack([np.ones(len(rows)), rows.filter(regex="^x")])
    for smooth in (True, False):
        fitted = model(users, times / span, smooth)
        fitted.fit(rows["y"].to_numpy(), X=x)
        pars = np.asarray(fitted.get_cov_pars()).ravel()
        if pars[:2].max() < DIVERGED:
            break
    slopes = np.asarray(fitted.get_coef()).ravel()
    fit = {}
    if family == "count":
        fit["size"] = [float(np.asarray(fitted.get_aux_pars()).ravel()[0])]
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    out = []
    for user, step, now, then, z, y in each_row(test):
        fixed = np.column_stack([np.ones(then), design(z[:then])]) @ slopes
        own = model(np.zeros(now, int), z[:now, place] / span, smooth)
        if family == "count":
            own.set_optim_params(params={"init_aux_pars": np.array(fit["size"])})
        same, over_time = np.zeros(then - now, int), {}
        if smooth:
            over_time["gp_coords_pred"] = z[now:then, place][:, None] / span
            over_time["cluster_ids_pred"] = same
        latent = own.predict(
            y=y[:now],
            cov_pars=pars,
            group_data_pred=same,
            offset=fixed[:now],
            offset_pred=fixed[now:],
            predict_var=True,
            predict_response=False,
            **over_time,
        )
        mean, sd = np.asarray(latent["mu"]), np.sqrt(np.asarray(latent["var"]))
        terms = log_mass(family, y[now:then], mean + sd * nodes[:, None], fit)
        each = logsumexp(terms, b=weights[:, None] / weights.sum(), axis=0)
        out.append((user, step, float(each.mean())))
    return out


PEERS = {"GLMM": glmm, "GEE": gee, "GPBoost": gpboost}


def one_deal(name: str, folder: Path, trial: int, method: str, seed: int = 0) -> pd.DataFrame:
    """Return log probabilities of a method on one deal of a table."""
    global LIMITS
    data = TABLES[name]
    transform = method.removeprefix("KEM normal, ") if "normal" in method else None
    transform = None if transform == "as it is" else transform
    cohort = data.cohort(folder, None if "normal" in method else data.family)
    targets = np.concatenate(cohort.targets)
    LIMITS = (0.0, np.inf) if data.family == "count" else (targets.min(), targets.max())
    study = Study(
        name=name,
        title=name,
        cohort=cohort,
        pool=tuple(default_pool(cohort).names),
        transform=transform,  # type: ignore[arg-type]
    )
    if method in PEERS:
        pilot, test = study.deal(trial, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = PEERS[method](data.family, pilot, test)
        table = pd.DataFrame(found, columns=["user", "time_step", "log_likelihood"])
    else:
        table = of_the_package(study, trial, OURS if method == "family" else ("KEM",))
    if "method" not in table or "normal" in method:
        table = table.assign(method=method)
    return table.assign(table=name, trial=trial)


def show(results: pd.DataFrame) -> Table:
    """Return means by method, and KEM's gains with standard errors over users."""
    out = Table("table", "method", "deals", "users", "nats a row", "gain of KEM", "s.e.")
    results["user"] = results["user"].astype(str)
    values = results.groupby(["table", "method", "trial", "user"])["log_likelihood"].mean()
    for (name, method), own in values.groupby(["table", "method"], sort=False):
        if (name, "KEM") not in values.index.droplevel(["trial", "user"]):
            continue
        kem = values[name]["KEM"]
        gain = (kem - own.droplevel(["table", "method"])).dropna().groupby("user").mean()
        deals = own.index.get_level_values("trial").nunique()
        mean = own.groupby("user").mean().mean()
        row = [f"{mean:.3f}", f"{gain.mean():.3f}", f"{gain.sem():.3f}"]
        out.add_row(str(name), str(method), str(deals), str(len(gain)), *row)
    return out


def main() -> None:
    """Compute the results that don't exist yet, then show all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", type=Path, help="folder of the tables")
    parser.add_argument("--table", choices=TABLES, action="append", help="table (repeatable)")
    parser.add_argument("--method", action="append", help="family, GLMM, GEE, GPBoost, normal")
    parser.add_argument("--deals", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("kem-out-outcomes"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    console = Console(width=120)
    for trial in range(asked.deals):
        for name in asked.table or TABLES:
            family = TABLES[name].family
            normal = [f"KEM normal, {t or 'as it is'}" for t in TRANSFORMS[family]]
            for method in ["family", *PEERS, *normal]:
                kind = "normal" if method in normal else method
                if asked.method and kind not in asked.method:
                    continue
                if (method, family) == ("GPBoost", "ordinal"):
                    continue  # it has no such likelihood
                file = asked.out / f"{name}-{method.replace(' ', '-').replace(',', '')}-{trial}.csv"
                if not file.is_file():
                    one_deal(name, asked.tables, trial, method).to_csv(file, index=False)
                    console.print(f"{name}, {method}, deal {trial + 1}")
    found = [pd.read_csv(file) for file in sorted(asked.out.glob("*.csv"))]
    console.print(show(pd.concat(found, ignore_index=True)))


if __name__ == "__main__":
    main()
