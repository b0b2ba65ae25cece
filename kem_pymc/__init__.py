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

from kem_pymc._system.lazy import lazily

if TYPE_CHECKING:
    from kem_pymc import bandits as bandits
    from kem_pymc import diagnostics as diagnostics
    from kem_pymc import errors as errors
    from kem_pymc import evolutions as evolutions
    from kem_pymc import gp as gp
    from kem_pymc import kernels as kernels
    from kem_pymc import lifelong as lifelong
    from kem_pymc import model as model
    from kem_pymc import plots as plots
    from kem_pymc import priors as priors
    from kem_pymc import search as search
    from kem_pymc import selection as selection
    from kem_pymc.data import datasets as datasets
    from kem_pymc.data.cohort import Cohort as Cohort
    from kem_pymc.data.scaling import Scaling as Scaling
    from kem_pymc.diagnostics.diagnosis import diagnose as diagnose
    from kem_pymc.diagnostics.representative import representative as representative
    from kem_pymc.evolutions.evolutions import Evolutions as Evolutions
    from kem_pymc.kernels.base import register_kernel as register_kernel
    from kem_pymc.kernels.composition import Candidate as Candidate
    from kem_pymc.kernels.composition import Composition as Composition
    from kem_pymc.kernels.pool import CandidatePool as CandidatePool
    from kem_pymc.model.ablations import final_model as final_model
    from kem_pymc.model.cluster_model import ClusterModel as ClusterModel
    from kem_pymc.model.evolution_model import EvolutionModel as EvolutionModel
    from kem_pymc.plots.report.report import report as report
    from kem_pymc.population.fixed_mean import FixedMean as FixedMean
    from kem_pymc.population.shared_part import learn_shared as learn_shared
    from kem_pymc.priors.population import population_parameter as population_parameter
    from kem_pymc.priors.table import Priors as Priors
    from kem_pymc.runs.sampling import resume as resume
    from kem_pymc.runs.sampling import sample as sample
    from kem_pymc.selection.ablations import FinalSelector as FinalSelector
    from kem_pymc.selection.ard import ARDSelector as ARDSelector
    from kem_pymc.selection.kem import KEMSelector as KEMSelector
    from kem_pymc.selection.online import select_online as select_online
    from kem_pymc.selection.pilots import calibrate as calibrate
    from kem_pymc.selection.scores import scores as scores
    from kem_pymc.selection.selection import Selection as Selection
    from kem_pymc.selection.two_level import TwoLevelSelector as TwoLevelSelector

    __version__: str

#: Where public names are defined.
_HOMES = {
    "ARDSelector": "selection.ard",
    "Candidate": "kernels.composition",
    "CandidatePool": "kernels.pool",
    "ClusterModel": "model.cluster_model",
    "Cohort": "data.cohort",
    "Composition": "kernels.composition",
    "EvolutionModel": "model.evolution_model",
    "Evolutions": "evolutions.evolutions",
    "FinalSelector": "selection.ablations",
    "KEMSelector": "selection.kem",
    "PopulationModel": "population.model",
    "Priors": "priors.table",
    "Scaling": "data.scaling",
    "Selection": "selection.selection",
    "TwoLevelSelector": "selection.two_level",
    "calibrate": "selection.pilots",
    "diagnose": "diagnostics.diagnosis",
    "final_model": "model.ablations",
    "FixedMean": "population.fixed_mean",
    "learn_shared": "population.shared_part",
    "population_parameter": "priors.population",
    "register_kernel": "kernels.base",
    "report": "plots.report.report",
    "representative": "diagnostics.representative",
    "resume": "runs.sampling",
    "sample": "runs.sampling",
    "scores": "selection.scores",
    "select_online": "selection.online",
}

#: Subpackages that are imported when they are first used.
_PACKAGES = {
    name.rpartition(".")[2]: name
    for name in (
        *("bandits", "data.datasets", "diagnostics", "errors", "evolutions", "gp", "kernels"),
        *("lifelong", "model", "plots", "population", "priors", "search", "selection"),
    )
}

_defined, _names = lazily(__name__, _HOMES)

__all__ = sorted([*_names, *_PACKAGES, "__version__"])


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("kem-pymc")
    if name in _PACKAGES:
        return import_module(f"{__name__}.{_PACKAGES[name]}")
    return _defined(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
