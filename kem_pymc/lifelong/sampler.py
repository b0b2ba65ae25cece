"""The sampler of lifelong Bayesian optimisation."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr

from kem_pymc.errors import InputError
from kem_pymc.lifelong.lbo import LBO, NetworkModel
from kem_pymc.lifelong.space import Space
from kem_pymc.lifelong.studies import StudySampler, whole
from kem_pymc.lifelong.tasks import Task


class LifelongSampler(StudySampler):
    """Sampler for Optuna that learns from earlier studies (Zhang et al. 2019).

    Points are chosen by expected improvement under a model of the function: a sum of networks that
    earlier studies share as far as it helps. See
    :class:`kem_pymc.lifelong.studies.StudySampler` for what a study's trials are taken for.

    Parameters
    ----------
    storage, seed, n_startup_trials
        See :class:`kem_pymc.lifelong.studies.StudySampler`.
    alpha : float
        Expected number of networks that a task uses.
    max_networks : int
        Largest number of networks.

    Raises
    ------
    InputError
        If an option is out of range.

    Examples
    --------
    >>> sampler = LifelongSampler("sqlite:///studies.db", seed=1)
    >>> for year in ("2023", "2024"):
    ...     study = optuna.create_study(
    ...         storage="sqlite:///studies.db", study_name=year, sampler=sampler
    ...     )
    ...     study.optimize(objectives[year], n_trials=50)
    """

    def __init__(
        self, storage: Any = None, *, alpha: float = 2.0, max_networks: int = 10, **options: Any
    ) -> None:
        super().__init__(storage, **options)
        whole("max_networks", max_networks, at_least=1)
        if not (isinstance(alpha, int | float) and 0 < alpha < np.inf):
            raise InputError(f"alpha is {alpha!r}. Give a positive number.")
        self.lbo = LBO(alpha=float(alpha), max_networks=max_networks, seed=self.seed)

    def fit(self, tasks: Sequence[Task], rng: np.random.Generator) -> NetworkModel:
        """Train networks on the last task; see :class:`StudySampler`."""
        return self.lbo.fit(tasks, rng)

    def networks(self) -> xr.Dataset:
        """Return which networks every study used, after its last trial.

        Returns
        -------
        xarray.Dataset
            A row for each study whose values differ: their number (`n_values`), the evidence lower
            bound (`elbo`), and the coefficient of the regulariser (`strength`). For each network
            the `probability` that the study uses it (the likeliest one is used in any case), its
            `weight`, the standard deviation of its output at the study's points, where that of the
            function is one, and the `correlation` of its output with the values (eq. 10).

        Raises
        ------
        InputError
            If there is nothing to learn from yet.
        """
        self._find_studies()
        studies = [self._studies[key] for key in sorted(self._studies)]
        ranges = self._search_space(studies)
        tasks = {study.study_name: self._task(study, Space(ranges)) for study in studies if ranges}
        tasks = {name: task for name, task in tasks.items() if task.varies}
        if not tasks:
            raise InputError("No study has values that differ. Optimise one first.")
        rows = self.lbo.networks(list(tasks.values()))
        return xr.Dataset(
            {name: (("task", "network")[: values.ndim], values) for name, values in rows.items()},
            coords={"task": list(tasks)},
            attrs={
                "inference_library": "kem_pymc",
                "inference_library_version": version("kem-pymc"),
                "seed": self.seed,
            },
        )
