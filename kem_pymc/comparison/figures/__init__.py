"""Figures and tables of the papers.

Each module of a figure has a function ``make(evidence)``, which returns an
:class:`~kem_pymc.comparison.output.Output`.
"""
