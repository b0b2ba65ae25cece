"""Plot of the best score of a search against the number of models evaluated."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kem_pymc._system.options import checked
from kem_pymc.errors import InputError
from kem_pymc.plots import style
from kem_pymc.search.result import SCORES, SearchResult


@checked
def search_path(
    results: SearchResult | Mapping[str, SearchResult], *, ax: Axes | None = None
) -> Axes:
    """Draw the best score per point against the number of models evaluated.

    The scores of single models are drawn as crosses, as far as they are within the range of the
    best scores, and so is that of a constant plus noise, as a line.

    Parameters
    ----------
    results : SearchResult or EvolutionResult, or mapping of str to these
        One search, or several for the same data by name, each with a colour of its own.
    ax : Axes, optional
        By default the axes of a new figure.

    Returns
    -------
    Axes

    Raises
    ------
    InputError
        If there are no results, or one isn't of a search.
    """
    named = {results.method: results} if isinstance(results, SearchResult) else results
    if not named or not all(isinstance(result, SearchResult) for result in named.values()):
        raise InputError("These aren't searches to draw. Give one, or several by name.")
    ax = style.axes_or_new(ax, 5.5, 3.4)
    looks = style.line_styles(list(named))
    for name, result in named.items():
        table = result.path
        numbers = table.index + 1
        colour = looks[name]["color"]
        ax.step(numbers, table["best_per_point"], where="post", label=name, **looks[name])
        ax.plot(numbers, table["score_per_point"], linestyle="none", marker="x", color=colour)
    best = [result.path["best_per_point"] for result in named.values()]
    # The first model, a constant, may be far below all others.
    low, high = min(path[:2].max() for path in best), max(path.max() for path in best)
    margin = 0.05 * (high - low) or 0.5
    first = next(iter(named.values()))
    constant = first.constant / first.evaluator.compared
    if constant >= low - margin:
        ax.axhline(constant, color=style.MUTED, linestyle=":", label="a constant plus noise")
    ax.set_ylim(low - margin, high + margin)
    ax.set(xlabel="models evaluated", ylabel=f"{SCORES[first.evaluator.criterion]} per point")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(ax.get_legend_handles_labels()[0]) > 1:
        style.legend(ax, beside=False)
    return style.tidy(ax)
