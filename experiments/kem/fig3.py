"""Figures 3 and 7: graphs of the evolutions that were learned from pilot users."""

import pandas as pd
from matplotlib.figure import Figure

from kem_pymc.comparison.output import Evidence, Output
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.plots import evolution_graph


def make(evidence: Evidence) -> Output:
    """Return graphs of the evolutions of each study's first trial, for every training."""
    rows, panels = [], []
    order = list(evidence.settings.methods)
    first = [task for task in evidence.tasks if task.trial == 0]
    for task in sorted(first, key=lambda p: min(map(order.index, p.methods))):
        method = next(iter(task.methods))
        for name, evolutions in evidence.store.known(task).items():
            rows += _edges(task.name, method, name, evolutions)
            panels.append((f"{evidence.title(task.name)}: {method}{_step(name)}", evolutions))
    figure = Figure(figsize=(9, 3.6 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for ax, (title, evolutions) in zip(axes, panels, strict=True):
        evolution_graph(evolutions, ax=ax)
        ax.set_title(title)
    return Output(pd.DataFrame(rows), figure)


def _step(name: str) -> str:
    stem, _, step = name.partition("-")
    return f", time step {int(step) + 1}" if stem == "stratified" else ""


def _edges(study: str, method: str, name: str, evolutions: Evolutions) -> list[dict]:
    label = evolutions.label
    return [
        {
            "study": study,
            "trial": 0,
            "method": method,
            "learned": name,
            "parent": label(parent),
            "child": label(child.composition),
            "probability": child.probability,
            "count": child.count,
            "occurrence": child.occurrence,
        }
        for parent in evolutions.parents
        for child in evolutions.children(parent)
    ]
