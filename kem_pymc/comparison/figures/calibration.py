"""Tables on calibration: coverage of predictive intervals, and the ranked probability score."""

from kem_pymc.comparison.output import Evidence, Output
from kem_pymc.comparison.summaries import tidy
from kem_pymc.comparison.tables import step_table
from kem_pymc.selection.scores import LEVELS


def make(evidence: Evidence) -> Output:
    """Return the coverage of central predictive intervals, in per cent, and the mean CRPS."""
    table = evidence.selections.dropna(subset="crps").copy()
    covers = [f"cover{level}" for level in LEVELS]
    table[covers] *= 100
    return Output(
        tidy(table, *covers, "crps"),
        tables={
            **{
                f"Coverage of {level} % predictive intervals, per cent": step_table(
                    evidence, f"cover{level}", table, 0
                )
                for level in LEVELS
            },
            "CRPS (smaller is better)": step_table(evidence, "crps", table),
        },
    )
