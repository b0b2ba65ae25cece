"""Labels, colours and letters of compositions, consistent within a report."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.prose import describe
from kem_pymc.plots import style

LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Look:
    """Labels, colours and letters of the compositions of a study.

    Attributes
    ----------
    features : tuple of str
    colours : dict of str to str
        Colours by label, the same as in :mod:`kem_pymc.plots`.
    """

    features: tuple[str, ...]
    colours: dict[str, str]

    @classmethod
    def of(cls, evolutions: Evolutions, shown: Iterable[Composition]) -> "Look":
        """Return the labels and colours of a study's compositions.

        The compositions with the most pilot datasets, or shown most often, have colours.
        """
        weights = Counter(style.datasets_of(evolutions))
        weights.update(Counter(evolutions.label(composition) for composition in shown))
        important = sorted(weights, key=lambda label: (-weights[label], label))
        return cls(evolutions.features, style.composition_colours(important))

    def label(self, composition: Composition) -> str:
        """Return the typeset label of a composition, with feature names if there are several."""
        if len(self.features) > 1:
            return style.spelled(style.with_features(composition, self.features))
        return style.spelled(composition.label(len(self.features)))

    def words(self, composition: Composition) -> str:
        """Return a description of a composition in plain English."""
        return describe(composition, self.features)

    def colour(self, composition: Composition) -> str:
        """Return the CSS class of a composition's colour."""
        label = composition.label(len(self.features))
        return f"c{list(self.colours).index(label)}" if label in self.colours else "other"

    def css(self) -> Markup:
        """Return the CSS rules of the colours' classes."""
        # The colours are constants of the package, so nothing needs escaping.
        rules = (
            f".c{i}{{--own:{colour};--on-own:{style.ink_on(colour)}}}"
            for i, colour in enumerate(self.colours.values())
        )
        return Markup("\n".join(rules))

    def letters(self, shown: Iterable[Composition]) -> dict[Composition, str]:
        """Return a letter for each composition with a colour, the most frequent first."""
        counts: dict[Composition, int] = {}
        for composition in shown:
            counts[composition] = counts.get(composition, 0) + 1
        frequent = sorted(counts, key=lambda c: (-counts[c], c))
        own = [c for c in frequent if self.colour(c) != "other"]
        return dict(zip(own, LETTERS, strict=False))
