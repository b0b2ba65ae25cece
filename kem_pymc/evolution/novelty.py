"""How probable a kernel is that is new below a user's last composition, and what it may be."""

from typing import NamedTuple

from kem_pymc.errors import InputError
from kem_pymc.evolution.evolutions import Evolutions
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.prose import readable


class NextKernel(NamedTuple):
    """What probabilities of the next kernel are made of.

    Attributes
    ----------
    known : float
        Factor of the probabilities of the parent's children.
    new : float
        Factor of the probabilities of the compositions with which pilot users ended up.
    stays : float
        Probability of the parent itself, beside what it has as a child and as a final composition.
    """

    known: float
    new: float
    stays: float


def next_kernel(evolutions: Evolutions, parent: Composition, novelty: float) -> NextKernel:
    """Return how probable known children of a parent, new ones and the parent itself are.

    The predictive distribution below a parent P is (counts of children + alpha G) / (alpha + N_P).
    Its second term has the probability p_new = E[alpha / (alpha + N_P)], which is one in draws in
    which P has no members. It is taken to be w = max(novelty, p_new), since few pilot users had the
    same parent. In place of G stands where pilot users ended up, whose own second term, r =
    E[alpha / (alpha + N)], has the base distribution G_P; of that P itself is considered.

    All of them together have the probability 1 - w r (1 - G_P(P)).

    Parameters
    ----------
    evolutions : Evolutions
    parent : Composition
    novelty : float
        Least value of w.

    Raises
    ------
    InputError
        If it isn't known where pilot users ended up.
    """
    if evolutions.final is None:
        raise InputError(
            "It isn't known where pilot users ended up. "
            "Learn it as well: Evolutions.from_posterior(idata, final=...)."
        )
    share = len(evolutions.draws_with(parent)) / evolutions.n_draws
    unseen = 1 - share + share * evolutions.probability_of_new(parent)
    weight = max(novelty, unseen)
    known = share * (1 - weight) / (1 - unseen) if unseen < 1 else 0.0
    rest = evolutions.final.probability_of_new(Composition())
    return NextKernel(known, weight, weight * rest * probability_of_staying(evolutions, parent))


def probability_of_staying(evolutions: Evolutions, parent: Composition) -> float:
    """Return G_P(P), by the priors stored with evolutions; one where there are none."""
    if not evolutions.priors:
        return 1.0
    stay, pool = evolutions.priors["stay"], evolutions.pool
    probability = 1.0
    for candidate in pool:
        enters = _entering(
            evolutions.priors.get("enter", {}), str(candidate), candidate.is_interaction
        )
        probability *= stay if candidate in parent else 1 - enters
    return probability


def ends_of(evolutions: Evolutions, count: int = 5) -> str:
    """Return in words with which compositions most pilot users end up; "" where it isn't known."""
    if evolutions.final is None:
        return ""
    children = evolutions.final.children(Composition())[:count]
    return ", ".join(
        f"{readable(evolutions.label(c.composition))} {c.probability:.2f}" for c in children
    )


def _entering(enter: dict[str, float], name: str, is_interaction: bool) -> float:
    kind = "interaction" if is_interaction else "base kernel"
    return enter.get(name, enter.get(kind, 0.0))
