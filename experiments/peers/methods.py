"""The peers as methods of comparisons, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from experiments.peers import boosted, curves, packages, r
from experiments.peers.doebe import WALK, EnsembleSelector
from experiments.peers.forecast import Pilots
from experiments.peers.joint import Fitted, JointSelector
from experiments.results import code
from kem_pymc.comparison.methods import Method, Training
from kem_pymc.comparison.stored import digest
from kem_pymc.errors import InputError
from kem_pymc.selection.selector import Selector


def conditioned(fit: Callable[[Pilots, int], Fitted]) -> Callable[[Pilots, int], Selector]:
    """Return a function that makes selectors of joint distributions, given pilot users."""
    return lambda pilots, seed: JointSelector(fit(pilots, seed), pilots.scaling)


#: Functions from pilot users and a seed to the selector for new users.
PEERS: dict[str, Callable[[Pilots, int], Selector]] = {
    "mgcv": lambda pilots, seed: r.FactorSmooths(pilots),  # noqa: ARG005  nothing is drawn
    "lme4": conditioned(r.mixed_model),
    "Unstructured": conditioned(curves.unstructured),
    "Empirical GP": conditioned(curves.empirical_gp),
    "DOEBE": lambda pilots, seed: EnsembleSelector(pilots, "hilbert", WALK, seed),
    "IE-GP": lambda pilots, seed: EnsembleSelector(pilots, "fourier", 0.0, seed),
    "GPBoost": conditioned(boosted.boosted_trees),
    "GPyTorch two-level": conditioned(packages.two_level_gp),
    "scikit-learn GP": conditioned(packages.pooled_gp),
}


@dataclass(frozen=True)
class Peer(Method):
    """A method of others, which has no kernels to select from.

    Attributes
    ----------
    name : str
        Key of `PEERS`.
    """

    training: ClassVar[str] = "peer"

    shared: bool = False
    name: str = ""

    def training_key(self) -> dict[str, Any]:
        """Return what the training depends on, the experiments' code included.

        Without it, results of other versions of a peer would be taken for those of this one.
        """
        version = digest([code(), r.SCRIPT.read_text("utf-8")])
        return super().training_key() | {"peer": self.name, "version": version}

    def selector(self, training: Training) -> Selector:
        """Fit the peer to pilot users.

        Raises
        ------
        InputError
            If a library of the peer isn't installed.
        """
        try:
            return PEERS[self.name](Pilots.of(training.pilot), training.seed)
        except ImportError as error:
            raise InputError(
                f"{self.name} needs {error.name}, which isn't installed. Use uv run --extra peers."
            ) from error
