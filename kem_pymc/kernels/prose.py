"""Describe candidates and compositions in plain English.

Base kernels have their own phrases (:class:`kem_pymc.kernels.base.BaseKernel`), so that
user-defined ones are described as well.
"""

from collections.abc import Iterable, Mapping, Sequence

from kem_pymc._system.display import number
from kem_pymc.kernels.base import base_kernel
from kem_pymc.kernels.composition import Candidate, Composition, Factor

#: The empty composition in text for readers; a multiplication sign at which no line breaks.
NOISE_ONLY, TIMES = "noise only", "\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN}\N{NO-BREAK SPACE}"

#: Description of the candidate without factors.
LEVEL = "a constant level"

#: Base kernels that come first in a product's description, as its noun, and those that come last.
NOUNS, LAST = ("PER", "PS"), ("LIN", "CAT", "BEFORE", "AFTER", "INSIDE", "OUTSIDE")


def describe(
    composition: Iterable[Candidate],
    features: Sequence[str],
    values: Mapping[str, float] | None = None,
) -> str:
    """Describe a composition, e.g. as "a straight line in day plus a rhythm in week".

    Parameters
    ----------
    composition : Composition
    features : sequence of str (D,)
        Names of the input columns.
    values : mapping of str to float, optional
        Hyperparameters by name, in the features' own units. If given, the description includes
        values such as periods and lengthscales.

    Returns
    -------
    str
    """
    parts = [describe_candidate(c, features, values) for c in composition]
    return " plus ".join(parts) or NOISE_ONLY


def sentence(
    composition: Iterable[Candidate],
    features: Sequence[str],
    target: str,
    values: Mapping[str, float] | None = None,
    shares: bool = False,
) -> str:
    """Return a sentence that describes a user's target by a composition; see :func:`describe`.

    `shares` says whether users share a function, beyond which the composition describes the target.
    """
    described = describe(composition, features, values)
    noise = "" if described == NOISE_ONLY else ", plus noise"
    beyond = ", beyond what all users share," if shares else ""
    return f"A user's {target}{beyond} is {described}{noise}."


def named(composition: Iterable[Candidate] | str, features: Sequence[str]) -> str:
    """Return a composition's name for readers, as in ``LIN(day) + SE(day) × PER(week)``.

    Code and files have its label, ``LIN0 + PER1 x SE0``, which :meth:`Composition.parse` reads.

    Parameters
    ----------
    composition : Composition or str
        Composition, or its label.
    features : sequence of str (D,)
        Names of the input columns.
    """
    if isinstance(composition, str):
        composition = Composition.parse(composition, len(features))
    return " + ".join(_named(candidate, features) for candidate in composition) or NOISE_ONLY


def _named(candidate: Candidate, features: Sequence[str]) -> str:
    label = candidate.label(len(features))
    if not candidate.factors or label == "ARD":
        return label
    factors = [
        f"{f.base}({features[f.dimension]}){''.join(str(f).partition('@')[1:])}"
        for f in candidate.factors
    ]
    return TIMES.join(factors) + "".join(label.partition(" #")[1:])


def describe_candidate(
    candidate: Candidate, features: Sequence[str], values: Mapping[str, float] | None = None
) -> str:
    """Describe one candidate; the arguments are those of :func:`describe`."""
    if not candidate.factors:
        return LEVEL
    surface = _surface(candidate, features)
    if surface:
        return surface
    head, *rest = sorted(candidate.factors, key=_rank)
    if rest and all(factor == head for factor in rest):
        return _power(candidate, features[head.dimension], values)
    phrase = base_kernel(head.base).phrase.format(feature=features[head.dimension])
    modifiers = [
        base_kernel(factor.base).modifier.format(feature=features[factor.dimension])
        + _detail(candidate, factor, values)
        for factor in dict.fromkeys(rest)
    ]
    return f"{phrase}{_detail(candidate, head, values)} {' and '.join(modifiers)}".rstrip()


def _rank(factor: Factor) -> tuple[int, Factor]:
    last = 2 + LAST.index(factor.base) if factor.base in LAST else 1
    return (0 if factor.base in NOUNS else last), factor


def _surface(candidate: Candidate, features: Sequence[str]) -> str:
    """Describe a product of SE over several features, each once; else return an empty string."""
    names = [features[f.dimension] for f in candidate.factors]
    if any(f.base != "SE" for f in candidate.factors) or len({*names}) < max(len(names), 2):
        return ""
    if len(names) == len(features) > 2:
        return f"a smooth function of all {len(names)} features together"
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"a smooth {'surface over' if len(names) == 2 else 'function of'} {listed} together"


def _power(candidate: Candidate, feature: str, values: Mapping[str, float] | None) -> str:
    """Describe a candidate with the same factor several times."""
    times, factor = len(candidate.factors), candidate.factors[0]
    if factor.base == "LIN":
        degree = f"a curve of degree {times}" if times > 2 else "a parabola"
        return f"{degree} in {feature}"
    several = "two" if times == 2 else str(times)
    phrase = base_kernel(factor.base).phrase.format(feature=feature)
    return f"{phrase} with {several} multiplied patterns{_detail(candidate, factor, values)}"


def _detail(candidate: Candidate, factor: Factor, values: Mapping[str, float] | None) -> str:
    """Describe the values of a factor, in brackets; return an empty string if they are unknown."""
    detail = base_kernel(factor.base).detail
    if values is None or not detail:
        return ""
    details = []
    for copy, hyperparameters in candidate.by_factor:
        named = {h.kind: values.get(h.name) for h in hyperparameters}
        texts = {k: number(v, 2) for k, v in named.items() if v}
        if copy == factor and all(f"{{{k}" not in detail or k in texts for k in named):
            details.append(detail.format_map(texts))
    return f" ({'; '.join(details)})" if details else ""
