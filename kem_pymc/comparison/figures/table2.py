"""Table 2: number of features that a selection uses and the next one doesn't."""

import pandas as pd

from kem_pymc.comparison.output import Evidence, Output
from kem_pymc.comparison.summaries import interval, plus_minus, tidy

#: The paper's results for its own setting, with 95 % intervals.
PRINTED = {
    "KEM, ml, bic": {
        "energy": "0.08 ± 0.05",
        "housing": "0.07 ± 0.04",
        "fires": "0.29 ± 0.17",
        "concrete": "0.06 ± 0.04",
        "mimic": "0.07 ± 0.10",
        "heartsteps": "0.22 ± 0.05",
    },
    "Stratified, ml, bic": {
        "energy": "1.09 ± 0.14",
        "housing": "0.73 ± 0.30",
        "fires": "0.56 ± 0.20",
        "concrete": "0.46 ± 0.14",
        "mimic": "0.22 ± 0.12",
        "heartsteps": "0.62 ± 0.15",
    },
}


def make(evidence: Evidence) -> Output:
    """Return the average number of features dropped from one time step to the next."""
    table = evidence.selections.dropna(subset="dropped")
    rows = []
    for (study, method), own in table.groupby(["study", "method"], sort=False):
        units = own.groupby("person")["dropped"].mean()
        rows.append(
            {
                "method": method,
                "study": evidence.title(str(study)),
                "here": plus_minus(units.mean(), interval(units)),
                "paper": PRINTED.get(str(method), {}).get(str(study), ""),
            }
        )
    long = pd.DataFrame(rows).set_index(["study", "method"])
    if not long["paper"].any():
        del long["paper"]
    wide = long.stack().unstack([0, 2]).fillna("")
    return Output(
        tidy(table, "dropped"),
        tables={"Features dropped per time step": wide},
        notes=[
            "Intervals are over distinct users. "
            "The paper's setting is KEM, ml, bic; the paper doesn't state whether its intervals "
            "are over test users or over trials."
        ],
    )
