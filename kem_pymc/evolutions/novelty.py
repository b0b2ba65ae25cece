"""Probabilities of the next kernel: of those that followed a user's last one, and of final ones."""

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kem_pymc._system.display import plural
from kem_pymc.errors import InputError
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.prose import named

if TYPE_CHECKING:
    from kem_pymc.evolutions.evolutions import Evolutions

#: Weights of final kernels of which one is chosen at each number of points.
WEIGHTS = np.linspace(0, 1, 11)


@dataclass(frozen=True)
class Novelty:
    """Weight of the pilot users' final kernels, by a new user's number of points.

    Attributes
    ----------
    points : tuple of int (k,)
        Numbers of points, in increasing order.
    weights : tuple of float (k,)
        Weight from each of these numbers on; the first one also applies to fewer points.
    """

    points: tuple[int, ...]
    weights: tuple[float, ...]

    def at(self, n_points: int) -> float:
        """Return the weight for a user with this number of points."""
        return self.weights[max(bisect_right(self.points, n_points) - 1, 0)]

    def to_dict(self) -> dict[str, Any]:
        """Return the weights as plain data, for files."""
        return {"points": list(self.points), "weights": list(self.weights)}

    def __str__(self) -> str:
        """Return the weights where they change, like "1.0, from 5 points on 0.3"."""
        texts = [f"{self.weights[0]:.1f}"]
        for n, before, weight in zip(self.points[1:], self.weights, self.weights[1:], strict=False):
            if weight != before:
                texts.append(f"from {plural(n, 'point')} on {weight:.1f}")
        return ", ".join(texts)


#: Weight of final kernels unless pilot users say otherwise, chosen on simulated users.
USUAL = 0.8

#: Difference of scores, in nats, that is taken for rounding.
ROUNDING = 1e-9

#: Equal weights of final kernels and others, with which weights are learned; and those that are
#: used if weights weren't learned.
EVEN, UNLEARNED = Novelty((1,), (0.5,)), Novelty((1,), (USUAL,))


def chosen_weight(scores: np.ndarray, weights: np.ndarray = WEIGHTS) -> float:
    """Return the weight nearest to the usual one that is as good as the best.

    As good are weights whose mean score is at most one standard error below the largest one. The
    standard error is that of the mean over users of the difference between the two, which is much
    smaller than that of either mean. (Breiman et al. 1984 prune trees by this rule.)

    Parameters
    ----------
    scores : ndarray, shape (U, k)
        Score of each of at least two users with each weight.
    weights : ndarray, shape (k,)
    """
    behind = scores - scores[:, [np.argmax(scores.mean(axis=0))]]
    error = behind.std(axis=0, ddof=1) / np.sqrt(len(behind))
    good = weights[behind.mean(axis=0) >= -error - ROUNDING]
    return float(good[np.argmin(np.abs(good - USUAL))])


class NextKernel(NamedTuple):
    """Components of the probabilities of the next kernel.

    Attributes
    ----------
    seen : float
        Factor of the probabilities of the parent's children.
    new : float
        Factor of the probabilities of the pilot users' final compositions.
    stays : float
        Probability of the parent itself, in addition to those as a child and as a final
        composition.
    """

    seen: float
    new: float
    stays: float


def probability_of_novelty(evolutions: "Evolutions", parent: Composition) -> float:
    """Return E[alpha / (alpha + N_P)]; the ratio is one in draws in which P has no members."""
    share = len(evolutions.draws_with(parent)) / evolutions.n_draws
    return 1 - share + share * evolutions.probability_of_new(parent)


def next_kernel(
    evolutions: "Evolutions", parent: Composition, weight: float, *, first: bool = False
) -> NextKernel:
    """Return the components of the probabilities of the kernels that may follow a parent.

    The predictive distribution below a parent P is (counts of children + alpha G) / (alpha + N_P).
    Its second term has the probability p_new = E[alpha / (alpha + N_P)]. Where few pilot users had
    the same parent, or children are those of few data, another weight predicts better: the
    probability of the second term is max(weight, p_new). G is replaced by the predictive
    distribution of the pilot users' final compositions. In its own second term, with the
    probability r = E[alpha / (alpha + N)], the base distribution is G_P, of which only P itself is
    considered, and not at a user's first time step, before which there was no kernel. The
    probabilities of all these options are normalised to add up to one.

    Parameters
    ----------
    evolutions : Evolutions
    parent : Composition
    weight : float
        Weight of final compositions, between 0 and 1.
    first : bool
        Whether it is the user's first time step, so that the parent is no kernel of theirs.

    Raises
    ------
    InputError
        If the evolutions don't contain the final compositions, ``final``.
    """
    if evolutions.final is None:
        raise InputError(
            "The evolutions lack the pilot users' final compositions. "
            "Learn them too: Evolutions.from_posterior(idata, final=...)."
        )
    share = len(evolutions.draws_with(parent)) / evolutions.n_draws
    unseen = probability_of_novelty(evolutions, parent)
    weight = max(weight, unseen)
    seen = share * (1 - weight) / (1 - unseen) if unseen < 1 else 0.0
    unknown = evolutions.final.probability_of_new(Composition())
    stays = 0.0 if first else unknown * probability_of_staying(evolutions, parent)
    new = weight / (1 - unknown + stays)
    return NextKernel(seen, new, new * stays)


def probability_of_staying(evolutions: "Evolutions", parent: Composition) -> float:
    """Return G_P(P) under the priors stored with evolutions; one if no priors are stored."""
    if not evolutions.priors:
        return 1.0
    stay, enter = evolutions.priors["stay"], evolutions.priors.get("enter", {})
    probability = 1.0
    for candidate in evolutions.pool:
        kind = "interaction" if candidate.is_interaction else "base kernel"
        enters = enter.get(str(candidate), enter.get(kind, 0.0))
        probability *= stay if candidate in parent else 1 - enters
    return probability


def ends_of(evolutions: "Evolutions", count: int = 5) -> str:
    """Return the most probable final compositions of pilot users as text; "" if not learned."""
    if evolutions.final is None:
        return ""
    children = evolutions.final.children(Composition())[:count]
    return ", ".join(
        f"{named(c.composition, evolutions.features)} {c.probability:.2f}" for c in children
    )
