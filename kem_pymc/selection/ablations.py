"""KEM without evolutions: the baselines Final and Stratified (paper, section 6.1).

Both transfer compositions from pilot users, like KEM. Final learns them from the pilot users'
complete data, however few points the new user has. Stratified learns them separately for each time
step, without learning which composition follows which.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kem_pymc._system.display import plural
from kem_pymc._system.options import checked
from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.composition import Composition
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.scorer import Proposal
from kem_pymc.selection.selection import Selection
from kem_pymc.selection.selector import Previous, Selector


@checked
class FinalSelector(KEMSelector):
    """Selector that chooses among the pilot users' final compositions, at every time step.

    Parameters
    ----------
    evolutions : Evolutions
        Evolutions read from the posterior of :func:`kem_pymc.final_model`.
    fit, criterion, **options
        As for :class:`KEMSelector`.

    Raises
    ------
    InputError
        If the evolutions have parents other than the empty composition, or an option is out of
        range.
    """

    def __init__(self, evolutions: Evolutions, *args: Any, **options: Any) -> None:
        if evolutions.parents != (Composition(),):
            raise InputError(
                "These evolutions were learned over several time steps. "
                "Use evolutions learned with kem.final_model or kem.model.stratified_models."
            )
        super().__init__(evolutions, *args, **options)

    def parent(self, previous: Previous) -> Composition:
        return Composition()

    def _proposals(
        self, source: Evolutions, parent: Composition, previous: Previous, n_points: int
    ) -> list[Proposal]:
        return self._children(source, parent)


@checked
class StratifiedSelector(Selector):
    """Selector that chooses among the pilot users' compositions at a similar number of points.

    Parameters
    ----------
    evolutions : sequence of Evolutions
        One for each time step, from the posteriors of :func:`kem_pymc.model.stratified_models`.
    points : sequence of number
        Number of points that pilot users had at each time step, e.g. the median.
    fit, criterion, **options
        As for :class:`KEMSelector`.

    Raises
    ------
    InputError
        If `evolutions` is empty, there isn't one number of points for each time step, or as for
        :class:`FinalSelector`.
    """

    def __init__(
        self, evolutions: Sequence[Evolutions], points: Sequence[float], *args: Any, **options: Any
    ) -> None:
        if not evolutions or len(evolutions) != len(points):
            raise InputError(
                f"Numbers of points are given for {len(points)} time steps, and evolutions for "
                f"{len(evolutions)}. Give both for each time step, and at least one."
            )
        self.points = np.array(points, dtype=np.float64)
        self.strata = [FinalSelector(learned, *args, **options) for learned in evolutions]
        self.scaling = self.strata[0].scaling

    def __repr__(self) -> str:
        first = self.strata[0]
        return (
            f"StratifiedSelector({plural(len(self.strata), 'time step')}, "
            f"fit={first.fit!r}, criterion={first.criterion!r})"
        )

    def select(
        self, x: npt.ArrayLike, y: npt.ArrayLike, previous: Previous = None, **given: Any
    ) -> Selection:
        nearest = int(np.argmin(np.abs(self.points - np.size(y))))
        return self.strata[nearest].select(x, y, previous, **given)
