"""Comparison of targets, fits, criteria and averaging, including the paper's setting."""

from kem_pymc.comparison.output import Evidence, Output
from kem_pymc.comparison.summaries import tidy
from kem_pymc.comparison.tables import step_table


def make(evidence: Evidence) -> Output:
    """Return tables of means by method and time step."""
    table = evidence.selections
    return Output(
        tidy(table, "log_likelihood", "size", "dropped"),
        tables={
            "Mean test log-likelihood": step_table(evidence, "log_likelihood"),
            "Candidates in the composition": step_table(evidence, "size"),
            "Features dropped": step_table(evidence, "dropped"),
        },
        notes=["The paper's setting is KEM, ml, bic."],
    )
