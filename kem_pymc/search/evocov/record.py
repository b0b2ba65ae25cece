"""Files of a search for evolved kernels."""

from dataclasses import replace

from kem_pymc.search.evocov.individual import FittedKernel, Individual, Offspring
from kem_pymc.search.record import Line, Record


class EvolvedLine(Line):
    """One fitted kernel in a file."""

    fitted: FittedKernel


class EvolvedRecord(Record[EvolvedLine, Offspring, Individual]):
    """Fitted kernels in the folder of a search."""

    line = EvolvedLine

    def model_of(self, line: EvolvedLine) -> str:
        """Return the text of the kernel in a line; see :class:`Record`."""
        return line.fitted.kernel

    def line_of(self, evaluation: Individual) -> EvolvedLine:
        """Return the line of a fitted kernel; see :class:`Record`."""
        return EvolvedLine(
            fitted=evaluation.to_file(), seconds=evaluation.seconds, elapsed=evaluation.elapsed
        )

    def evaluation_of(self, line: EvolvedLine, proposed: Offspring) -> Individual | None:
        """Return the fitted kernel in a line; see :class:`Record`."""
        if set(line.fitted.hyperparameters) != set(proposed.tree.hyperparameters):
            return None
        fitted = Individual.from_file(line.fitted)
        return replace(fitted, seconds=line.seconds, elapsed=line.elapsed)


class ScreeningRecord(EvolvedRecord):
    """Kernels that were fitted to some of the points only."""

    file = "screening.jsonl"
