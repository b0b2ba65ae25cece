"""Probabilities of the next kernel, including kernels new below a user's last composition."""

from typing import NamedTuple

from kem_pymc.errors import InputError
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.prose import named


class NextKernel(NamedTuple):
    """Components of the probabilities of the next kernel.

    Attributes
    ----------
    seen : float
        Factor of the probabilities of the parent's children.
    new : float
        Factor of the probabilities of the pilot users' final compositions.
    stays : float
        Probability of the parent itself, in addition to its probabilities as a child and as a final
        composition.
    """

    seen: float
    new: float
    stays: float


def next_kernel(evolutions: Evolutions, parent: Composition, novelty: float) -> NextKernel:
    """Return the components of the probabilities of the kernels that may follow a parent.

    The predictive distribution below a parent P is (counts of children + alpha G) / (alpha + N_P).
    Its second term has the probability p_new = E[alpha / (alpha + N_P)], where the ratio is one in
    draws in which P has no members. The probability w = max(novelty, p_new) is used instead, since
    few pilot users had the same parent. G is replaced by the predictive distribution of the pilot
    users' final compositions. In its own second term, with the probability
    r = E[alpha / (alpha + N)], the base distribution is G_P, of which only P itself is considered.

    All these options together have the probability 1 - w r (1 - G_P(P)).

    Parameters
    ----------
    evolutions : Evolutions
    parent : Composition
    novelty : float
        Minimum value of w.

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
    unseen = 1 - share + share * evolutions.probability_of_new(parent)
    weight = max(novelty, unseen)
    seen = share * (1 - weight) / (1 - unseen) if unseen < 1 else 0.0
    rest = evolutions.final.probability_of_new(Composition())
    return NextKernel(seen, weight, weight * rest * probability_of_staying(evolutions, parent))


def probability_of_staying(evolutions: Evolutions, parent: Composition) -> float:
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


def ends_of(evolutions: Evolutions, count: int = 5) -> str:
    """Return the most probable final compositions of pilot users as text; "" if not learned."""
    if evolutions.final is None:
        return ""
    children = evolutions.final.children(Composition())[:count]
    return ", ".join(
        f"{named(c.composition, evolutions.features)} {c.probability:.2f}" for c in children
    )
