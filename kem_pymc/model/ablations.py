"""KEM without evolutions: the models behind the baselines Final and Stratified (section 6.1).

Both are evolution models of datasets without a previous time step. There is therefore only one
process, that of the empty parent composition, and the noise prior doesn't depend on the parent.
"""

from typing import Any

from kem_pymc._system.options import checked
from kem_pymc.data.cohort import Cohort
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.model.cluster_model import default_priors, scaling_for
from kem_pymc.model.evolution_model import EvolutionModel
from kem_pymc.population.shared_part import SharedPart
from kem_pymc.priors import Priors


@checked
def final_model(
    cohort: Cohort, pool: CandidatePool, priors: Priors | None = None, **options: Any
) -> EvolutionModel:
    """Return the model of all pilot users' last datasets, for :class:`kem_pymc.FinalSelector`.

    Parameters
    ----------
    cohort, pool, priors
        As for :class:`EvolutionModel`; of the noise priors, only the one without a parent is used.
    **options
        Other arguments of :class:`EvolutionModel`.
    """
    priors, options = _of_whole(cohort, pool, priors, options)
    return EvolutionModel(cohort.at(-1), pool, priors, **options)


def final_model_of(model: EvolutionModel) -> EvolutionModel:
    """Return the :func:`final_model` for the cohort and the settings of another model.

    Its posterior is the argument ``final`` of :meth:`kem_pymc.Evolutions.from_posterior`.
    """
    return _ends_of(model, model.priors, model.shared)


def unshared_model_of(model: EvolutionModel) -> EvolutionModel:
    """Return the :func:`final_model` without a shared part, for a model that has one.

    Its posterior is the argument ``unshared`` of :meth:`kem_pymc.Evolutions.from_posterior`.
    Default priors are replaced by those in units of the whole variance of the targets.
    """
    assert model.shared is not None
    return _ends_of(model, None if model.has_default_priors else model.priors, None)


def _ends_of(
    model: EvolutionModel, priors: Priors | None, shared: SharedPart | None
) -> EvolutionModel:
    return final_model(
        model.cohort,
        model.pool,
        priors,
        concentration=model.concentration,
        scaling=model.scaling,
        shared=shared,
        likelihood_power=model.engine.likelihood_power,
    )


@checked
def stratified_models(
    cohort: Cohort, pool: CandidatePool, priors: Priors | None = None, **options: Any
) -> list[EvolutionModel]:
    """Return a model for each time step, for :class:`kem_pymc.selection.StratifiedSelector`.

    The parameters are those of :func:`final_model`.
    """
    priors, options = _of_whole(cohort, pool, priors, options)
    steps = range(cohort.max_steps)
    models = [EvolutionModel(cohort.at(step), pool, priors, **options) for step in steps]
    table = models[0].engine.prior_table  # equal priors are compiled once
    for model in models[1:]:  # a sweep changes values of population parameters in place
        model.engine.prior_table = table._replace(population=table.population.copy())
    return models


def _of_whole(
    cohort: Cohort, pool: CandidatePool, priors: Priors | None, options: dict[str, Any]
) -> tuple[Priors, dict[str, Any]]:
    """Return the priors and options that the models of all time steps have in common.

    The scaling is that of the whole cohort, because time steps would have different units
    otherwise.
    """
    options = {"scaling": scaling_for(cohort, priors)} | options
    if priors is None:
        scaled = options["scaling"].apply(cohort)
        priors = default_priors(scaled, pool, options.get("shared"))
    return priors.without_parent(), options
