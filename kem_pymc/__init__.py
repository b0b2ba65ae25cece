"""The Kernel Evolution Model for PyMC.

Learn from pilot users how the kernels of Gaussian processes evolve as data arrive, then select a
kernel for each new user at each time step::

    import kem_pymc as kem
    import pymc as pm

    cohort = kem.datasets.synthetic(users=10, time_steps=6, seed=0)
    pool = kem.CandidatePool.from_base(["LIN", "PER", "SE"], interactions=True)
    with kem.EvolutionModel(cohort, pool, priors=kem.priors.synthetic()):
        idata = pm.sample()
    selector = kem.KEMSelector(kem.Evolutions.from_posterior(idata))
    selection = selector.select(x, y)
    selection.predict(x_new)

Public names are imported when they are first used, so that ``import kem_pymc`` is fast.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kem_pymc import (
        cohort,
        datasets,
        diagnostics,
        errors,
        evolution,
        gp,
        kernels,
        plots,
        priors,
        selection,
        shared,
    )
    from kem_pymc.cohort import Cohort
    from kem_pymc.columns import Columns, feature_columns
    from kem_pymc.diagnostics.diagnosis import Diagnosis, diagnose
    from kem_pymc.diagnostics.groups import contrasts, relevances
    from kem_pymc.diagnostics.power_scaling import log_prior_group
    from kem_pymc.diagnostics.prediction import log_likelihood_group, next_batch
    from kem_pymc.diagnostics.representative import Representative, representative
    from kem_pymc.diagnostics.stacking import resample, stack
    from kem_pymc.errors import (
        DataWarning,
        InputError,
        SamplingError,
        SamplingWarning,
        SelectionWarning,
    )
    from kem_pymc.evolution.ablations import final_model, stratified_models
    from kem_pymc.evolution.cluster_model import ClusterModel
    from kem_pymc.evolution.evolutions import Evolutions
    from kem_pymc.evolution.model import EvolutionModel
    from kem_pymc.evolution.run import resume, sample
    from kem_pymc.experiments.scores import scores
    from kem_pymc.gp.draws import draw_functions
    from kem_pymc.gp.many import log_likelihoods
    from kem_pymc.gp.predict import Prediction
    from kem_pymc.kernels.base import BaseKernel, register_kernel
    from kem_pymc.kernels.checking import check_kernel
    from kem_pymc.kernels.composition import Candidate, Composition
    from kem_pymc.kernels.pool import CandidatePool
    from kem_pymc.population import population_parameter
    from kem_pymc.priors import Priors
    from kem_pymc.reports.report import report
    from kem_pymc.scaling import Scaling
    from kem_pymc.selection.ablations import FinalSelector, StratifiedSelector
    from kem_pymc.selection.ard import ARDSelector
    from kem_pymc.selection.kem import KEMSelector
    from kem_pymc.selection.memoryless import MemorylessSelector
    from kem_pymc.selection.selection import Selection
    from kem_pymc.selection.two_level import TwoLevelSelector
    from kem_pymc.selection.walk import walk
    from kem_pymc.shared.choice import SharedPart, learn_shared

    __version__: str

__all__ = [
    "ARDSelector",
    "BaseKernel",
    "Candidate",
    "CandidatePool",
    "ClusterModel",
    "Cohort",
    "Columns",
    "Composition",
    "DataWarning",
    "Diagnosis",
    "EvolutionModel",
    "Evolutions",
    "FinalSelector",
    "InputError",
    "KEMSelector",
    "MemorylessSelector",
    "Prediction",
    "Priors",
    "Representative",
    "SamplingError",
    "SamplingWarning",
    "Scaling",
    "Selection",
    "SelectionWarning",
    "SharedPart",
    "StratifiedSelector",
    "TwoLevelSelector",
    "__version__",
    "check_kernel",
    "cohort",
    "contrasts",
    "datasets",
    "diagnose",
    "diagnostics",
    "draw_functions",
    "errors",
    "evolution",
    "feature_columns",
    "final_model",
    "gp",
    "kernels",
    "learn_shared",
    "log_likelihood_group",
    "log_likelihoods",
    "log_prior_group",
    "next_batch",
    "plots",
    "population_parameter",
    "priors",
    "register_kernel",
    "relevances",
    "report",
    "representative",
    "resample",
    "resume",
    "sample",
    "scores",
    "selection",
    "shared",
    "stack",
    "stratified_models",
    "walk",
]

#: Module in which each public name is defined; the other names of ``__all__`` are modules.
_HOMES = {
    "ARDSelector": "selection.ard",
    "BaseKernel": "kernels.base",
    "Candidate": "kernels.composition",
    "CandidatePool": "kernels.pool",
    "ClusterModel": "evolution.cluster_model",
    "Cohort": "cohort",
    "Columns": "columns",
    "Composition": "kernels.composition",
    "DataWarning": "errors",
    "Diagnosis": "diagnostics.diagnosis",
    "EvolutionModel": "evolution.model",
    "Evolutions": "evolution.evolutions",
    "FinalSelector": "selection.ablations",
    "InputError": "errors",
    "KEMSelector": "selection.kem",
    "MemorylessSelector": "selection.memoryless",
    "Prediction": "gp.predict",
    "Priors": "priors",
    "Representative": "diagnostics.representative",
    "SamplingError": "errors",
    "SamplingWarning": "errors",
    "Scaling": "scaling",
    "Selection": "selection.selection",
    "SelectionWarning": "errors",
    "SharedPart": "shared.choice",
    "StratifiedSelector": "selection.ablations",
    "TwoLevelSelector": "selection.two_level",
    "check_kernel": "kernels.checking",
    "contrasts": "diagnostics.groups",
    "diagnose": "diagnostics.diagnosis",
    "draw_functions": "gp.draws",
    "feature_columns": "columns",
    "final_model": "evolution.ablations",
    "learn_shared": "shared.choice",
    "log_likelihood_group": "diagnostics.prediction",
    "log_likelihoods": "gp.many",
    "log_prior_group": "diagnostics.power_scaling",
    "next_batch": "diagnostics.prediction",
    "population_parameter": "population",
    "register_kernel": "kernels.base",
    "relevances": "diagnostics.groups",
    "report": "reports.report",
    "representative": "diagnostics.representative",
    "resample": "diagnostics.stacking",
    "resume": "evolution.run",
    "sample": "evolution.run",
    "scores": "experiments.scores",
    "stack": "diagnostics.stacking",
    "stratified_models": "evolution.ablations",
    "walk": "selection.walk",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("kem-pymc")
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
