"""One module for each figure or table of the papers.

Each has ``make(evidence)``, which returns an :class:`~kem_pymc.experiments.figures.output.Output`.
"""
