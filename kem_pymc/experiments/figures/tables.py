"""Tables that several figures have."""

import pandas as pd

from kem_pymc.experiments.figures.output import Evidence
from kem_pymc.experiments.summaries import by_step, gains, plus_minus

#: Whose gain over the others is told.
OURS = "KEM"


def step_table(
    evidence: Evidence, value: str, table: pd.DataFrame | None = None, digits: int = 2
) -> pd.DataFrame:
    """Return means with intervals: methods down, time steps across."""
    rows = by_step(evidence.selections if table is None else table, value)
    return _wide(evidence, rows, "method", "mean", digits)


def gain_table(evidence: Evidence, value: str, digits: int = 2) -> pd.DataFrame:
    """Return by how much KEM is ahead: other methods down, time steps across."""
    table = evidence.selections
    if OURS not in set(table["method"]):
        return pd.DataFrame()
    return _wide(evidence, gains(table, value, OURS), "other", "gain", digits)


def _wide(
    evidence: Evidence, rows: pd.DataFrame, down: str, value: str, digits: int
) -> pd.DataFrame:
    texts = [plus_minus(m, h, digits) for m, h in zip(rows[value], rows["half"], strict=True)]
    rows = rows.assign(text=texts, step=rows["time_step"] + 1)
    rows["study"] = [evidence.title(study) for study in rows["study"]]
    wide = rows.set_index(["study", down] if rows["study"].nunique() > 1 else [down])
    wide = wide.set_index("step", append=True)["text"].unstack(sort=False).fillna("")
    return wide.reindex(sorted(wide.columns), axis=1).rename_axis(columns="time step")
