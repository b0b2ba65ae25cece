"""The figures of the Kernel Evolution Model, by name."""

from importlib import import_module

from kem_pymc.comparison.output import Evidence, Output

#: The module of each figure.
MODULES = {
    "kem-fig3": "experiments.kem.fig3",
    "kem-fig4": "experiments.kem.fig4",
    "kem-fig5": "experiments.kem.fig5",
    "kem-fig6": "kem_pymc.comparison.figures.fig6",
    "kem-fig7": "experiments.kem.fig3",
    "kem-fig8": "experiments.kem.fig8",
    "kem-fig9": "experiments.kem.fig9",
    "kem-table2": "kem_pymc.comparison.figures.table2",
    "kem-calibration": "kem_pymc.comparison.figures.calibration",
    "kem-types": "kem_pymc.comparison.figures.fig6",
    "kem-peers": "kem_pymc.comparison.figures.peers",
    "kem-paper": "kem_pymc.comparison.figures.peers",
    "kem-searches": "kem_pymc.comparison.figures.peers",
    "kem-parts": "experiments.kem.defaults",
    "kem-ablation": "experiments.kem.ablation",
    "kem-targets": "experiments.kem.ablation",
    "kem-grid": "experiments.kem.grid",
    "kem-defaults": "experiments.kem.defaults",
    "kem-choices": "experiments.kem.defaults",
}


def make(name: str, evidence: Evidence) -> Output:
    """Make a figure or table by name.

    Parameters
    ----------
    name : str
        Key of `MODULES`.
    evidence : Evidence
    """
    module = import_module(MODULES[name])
    output: Output = module.make(evidence)
    return output
