"""Sections of a report: sentences, tables and pictures, from the evolutions and a posterior."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from kem_pymc import plots
from kem_pymc._system.display import number, plural
from kem_pymc.data.cohort import Cohort
from kem_pymc.diagnostics.diagnosis import Diagnosis
from kem_pymc.diagnostics.parts import headline
from kem_pymc.evolutions.children import Child
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.prose import describe, named, sentence
from kem_pymc.plots import style
from kem_pymc.plots.report.pictures import svg, table
from kem_pymc.plots.report.values import enough, intervals
from kem_pymc.population.posterior import PopulationPosterior
from kem_pymc.population.sentences import probability, sentences
from kem_pymc.selection.online import PREDICTED

if TYPE_CHECKING:
    from xarray import DataTree

#: Least probability of a part, and of an evolution, in the graph and in the tables.
LEAST_PART, LEAST = 0.05, 0.025

#: Users leave early if half of them do before this share of the time is left.
EARLY = 0.1

#: Shares, and sds relative to the largest one, below which components are absent: zero is shown.
TINY = 1e-4

#: Maximum numbers of boxes in the graph, of listed evolutions, and of users with a picture.
BOXES, LISTED, DRAWN = 10, 100, 40

type Content = dict[str, Any]


def parts(diagnosis: Diagnosis, idata: "DataTree") -> Content:
    """Return sentences on the parts of kernels, and each part's probability for each user.

    `idata` is the posterior of final kernels, from which the diagnosis has its parts.
    """
    drawn = plots.inclusion(idata, by="user", minimum=LEAST_PART)
    return {
        "headline": headline(diagnosis.parts, diagnosis.shares),
        "noise_only": diagnosis.parts.iloc[-1]["probability"],
        "picture": svg(drawn, "Probability of each part of each user's final kernel"),
    }


def evolutions(learned: Evolutions) -> Content:
    """Return the graph, its kernels and evolutions, and the final kernels."""
    ax = plots.evolution_graph(learned, minimum_probability=LEAST, max_nodes=BOXES)
    kernels = []
    for box in ax.patches:
        label = box.get_gid()
        if label is not None:
            kernels.append(_kernel(Composition.parse(label, learned.pool.dimension), learned))
            box.set_url(f"#kernel-{len(kernels)}")
    every = [(p, c) for p in learned.parents for c in learned.children(p)]
    listed = [(p, c) for p, c in every if c.probability >= LEAST and c.occurrence >= LEAST]
    listed = sorted(listed, key=lambda row: -row[1].count)[:LISTED]
    names = learned.features
    rows = [{"from": named(p, names)} | _child(c, "to", learned) for p, c in listed]
    final = [] if learned.final is None else learned.final.children(Composition())
    final = [child for child in final if child.probability >= LEAST]
    ends = [
        _child(c, "kernel", learned) | {"description": describe(c.composition, names)}
        for c in final
    ]
    forms = dict.fromkeys(("datasets", "pilot users"), ".1f")
    of_ends = {"probability": "probability for a new user", "datasets": "pilot users"}
    return {
        "graph": svg(ax, "Graph of evolutions, whose boxes lead to the kernels"),
        "kernels": kernels,
        "evolutions": table(pd.DataFrame(rows), "Evolutions", forms) if rows else "",
        "unlisted": len(every) - len(rows),
        "least": LEAST,
        "ends": table(pd.DataFrame(ends).rename(columns=of_ends), "Final kernels", forms)
        if ends
        else "",
        "other_ends": 1 - sum(child.probability for child in final),
    }


def _kernel(composition: Composition, learned: Evolutions) -> Content:
    """Return a sentence on a composition, and the posterior of its hyperparameters.

    That is the posterior of final kernels, if it is one of them in enough draws.
    """
    sources = (() if learned.final is None else learned.final.clusters, learned.clusters)
    alike = [[c for c in clusters if c.child == composition] for clusters in sources]
    clusters = next(filter(enough, alike), max(alike, key=len))
    rows = intervals(learned, clusters) if clusters else pd.DataFrame({"median": []})
    label = named(composition, learned.features)
    medians, forms = rows["median"].dropna().to_dict(), dict.fromkeys(rows, 3)
    target, shares = learned.scaling.target_label(learned.target), learned.shared is not None
    return {
        "label": label,
        "sentence": sentence(composition, learned.features, target, medians, shares),
        "table": table(rows, f"Hyperparameters of {label}", forms) if len(rows) else "",
    }


def _child(child: Child, name: str, learned: Evolutions) -> Content:
    """Return a row of a table, whose first column has a name."""
    return {
        name: named(child.composition, learned.features),
        "probability": child.probability,
        "90 % interval": "{:.2f} to {:.2f}".format(*child.interval),
        "in draws": child.occurrence,
        "datasets": child.count,
    }


def population(posterior: PopulationPosterior) -> Content:
    """Return what users share and how they differ: sentences, pictures and tables."""
    groups, cohort = posterior.model.groups, posterior.model.cohort
    pictures, tables = [], []
    if cohort.time is not None:
        for group in groups or (None,):
            of = "the population" if group is None else f"each {group}"
            title = (
                f"Mean curve of {of} with its pointwise 95 % band, and the data{_leaving(cohort)}"
            )
            pictures.append((svg(plots.mean_curves(posterior, group), title), title))
        for group in groups:
            title = f"Differences by {group} over {cohort.time}, with 95 % bands"
            pictures.append((svg(plots.comparisons(posterior, group), title), title))
    for group in groups:
        frame = posterior.comparisons(group).drop(columns=["variable", "by", "group"])
        frame["probability_of_direction"] = frame["probability_of_direction"].map(probability)
        own = f", and in {posterior.model.mean_label}" if posterior.model.own_scale else ""
        caption = f"Differences in {cohort.target}{own} by {group}"
        tables.append(_answers(frame, caption))
    frame = posterior.variance_shares().set_index("component")
    tiny = frame / [1, 1, 1, *[frame["sd"].max()] * 3] < TINY
    caption = f"Shares of the variance of {cohort.target}, and sds of its components"
    tables.append(_answers(frame.mask(tiny, 0.0).reset_index(), caption))
    shown = (
        "Deviations of users from what users share, with 95 % intervals, which contain the "
        "uncertainty of the mean curve; differences between users are known better"
    )
    pictures.append((svg(plots.deviations(posterior), shown), shown))
    bars = "Shares of the variance, with 95 % intervals"
    pictures.append((svg(plots.variance_shares(posterior), bars), bars))
    model = posterior.model
    terms = {"shared": model.shared.terms, "personal": model.personal.terms}
    priors = [str(h).split(" ~ ") for h in model.hyperparameters]
    return {
        "sentences": sentences(posterior, groups),
        "pictures": pictures,
        "tables": tables,
        "caution": posterior.caution,
        "groups": bool(groups),
        "priors": table(
            pd.DataFrame(priors, columns=["name", "prior"]), "Priors of the mixed model"
        ),
        "terms": {name: ", ".join(term.name for term in own) for name, own in terms.items()},
    }


def _leaving(cohort: Cohort) -> str:
    """Return when half of the users are last observed; nothing if that is near the end."""
    times = [x[:, cohort.features.index(cohort.time)] for x in cohort.inputs]
    first, end = min(map(np.min, times)), max(map(np.max, times))
    half = np.median([time.max() for time in times])
    if half > end - EARLY * (end - first):
        return ""
    return f"; half of the users are last observed by {cohort.time} {number(half)}"


def _answers(frame: pd.DataFrame, caption: str) -> Markup:
    """Return a table of answers with three significant digits, and plain names of columns."""
    frame = frame.rename(columns=lambda name: name.replace("_95", " 95 %").replace("_", " "))
    return table(frame, caption, dict.fromkeys(frame.columns[1:], 3))


def diagnostics(diagnosis: Diagnosis, idata: "DataTree") -> Content:
    """Return what :func:`kem_pymc.diagnose` displays, and pictures of the chains."""
    pictures = []
    if diagnosis.n_chains > 1:
        edges = plots.edges_by_chain(idata, max_edges=12)
        pictures = [
            (svg(ax, title), title)
            for ax, title in (
                (
                    plots.traces(idata),
                    "Traces and rank plots of all chains, which should look alike",
                ),
                (edges, "Probabilities of evolutions by chain, which should agree"),
            )
        ]
    display = Markup(diagnosis._repr_html_())
    return {"warnings": diagnosis.warnings, "display": display, "pictures": pictures}


def users(
    which: str,
    kernels: pd.DataFrame,
    predictions: pd.DataFrame | None,
    learned: Evolutions,
) -> Content:
    """Return pilot or new users with the kernels selected for them, and predictions.

    Parameters
    ----------
    which : {"pilot", "new"}
    kernels : DataFrame
        One row per user and time step, with a Composition.
    predictions : DataFrame or None
        See :func:`kem_pymc.selection.online.predictions`.
    learned : Evolutions
    """
    message = kernels.get("message", pd.Series(index=kernels.index)).astype(object).fillna("")
    kernels = kernels[["user", "time_step", "composition"]].assign(message=message)
    kernels = kernels.sort_values("time_step", kind="stable")
    trajectories = {
        user: rows["composition"].map(learned.label).tolist()
        for user, rows in kernels.groupby("user", sort=False)
    }
    features = learned.features
    colours = style.composition_colours(learned)  # those of the graph
    tiles = plots.trajectories(trajectories, colours=colours, study=learned)
    by_user = {} if predictions is None else dict(list(predictions.groupby("user")))
    vary = [
        name
        for name in features
        if name not in PREDICTED and any(own[name].nunique() > 1 for own in by_user.values())
    ]
    family = learned.scaling.family
    binary = family is not None and family.name == "binary"  # intervals are of probabilities
    people: list[Content] = []
    for name, rows in kernels.groupby("user", sort=False):
        labels = [named(c, features) for c in rows["composition"]]
        shown = pd.DataFrame({"time step": rows["time_step"] + 1, "kernel": labels})
        if rows["composition"].nunique() > 1:
            shown["description"] = [describe(c, features) for c in rows["composition"]]
        shown = shown.join(rows.drop(columns=["user", "time_step", "composition"]))
        picture, of_user = None, by_user.get(name)
        if of_user is not None:
            seen = of_user.groupby("time_step")["seen"].sum()
            shown.insert(2, "points", seen.reindex(rows["time_step"]).to_numpy())
            if not binary:
                within = _counted(_within(of_user)).reindex(rows["time_step"], fill_value="")
                shown["next within 95 %"] = within.to_numpy()
            if len(people) < DRAWN:
                place = vary[0] if len(vary) == 1 else None
                drawn = plots.online_predictions(of_user, feature=place, target=learned.target)
                title = f"Predictions for {which} user {name} at {plural(len(rows), 'time step')}"
                picture = svg(drawn, title)
        filled = shown.loc[:, (shown.astype(str) != "").any()]
        changes = [label for i, label in enumerate(labels) if labels[i - 1 : i] != [label]]
        caption = f"Kernels of user {name} at each time step"
        people.append({"name": name, "kernels": " → ".join(changes), "picture": picture})
        people[-1]["table"] = table(filled, caption)
    within = pd.Series(dtype=bool) if predictions is None else _within(predictions)
    coverage = _counted(within)
    coverage.index += 1
    caption = "Points of the next time step within the 95 % intervals of their predictions"
    frame = coverage.rename("points within").rename_axis("after time step").reset_index()
    title = (
        f"Kernels of {which} users by time step, a tile for each; colours are those of the graph"
    )
    said = (
        f"Of the next time steps' points, {within.sum()} of {len(within)} points, "
        f"{100 * within.mean():.0f} %, lie within the 95 % intervals of their predictions."
    )
    if binary and predictions is not None and len(frame):
        said, frame = _brier(predictions), frame.iloc[:0]
    return {
        "tiles": (svg(tiles, title), title),
        "said": said if len(within) else "",
        "coverage": table(frame, caption) if len(frame) else "",
        "of": "the probability" if binary else "an observation",
        "users": people,
        "undrawn": max(len(by_user) - DRAWN, 0),
    }


def _ahead(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of points after their time step that were observed."""
    return predictions[~predictions["seen"].astype(bool) & predictions["observed"].notna()]


def _brier(predictions: pd.DataFrame) -> str:
    """Return a sentence on the predicted probabilities of targets that are 0 or 1."""
    ahead = _ahead(predictions)
    y, mean = ahead["observed"], ahead["mean"]
    share, score = y.mean(), ((y - mean) ** 2).mean()
    return (
        f"Of the next time steps' {len(ahead)} points, a share of {share:.3f} is 1; predicted were "
        f"{mean.mean():.3f}. The Brier score of predictions is {score:.3f}; that of the share "
        f"itself is {share * (1 - share):.3f}, and that of knowing each point 0."
    )


def _within(predictions: pd.DataFrame) -> pd.Series:
    """Return whether the points after a time step, the index, lie in their 95 % intervals."""
    ahead = _ahead(predictions)
    inside = ahead["observed"].between(ahead["low_95"], ahead["high_95"])
    return inside.set_axis(ahead["time_step"])


def _counted(inside: pd.Series) -> pd.Series:
    """Return by index how many points lie in their intervals, as text."""
    counts = inside.groupby(level=0).agg(["sum", "size"])
    return counts["sum"].astype(str) + " of " + counts["size"].astype(str)
