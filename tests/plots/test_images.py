"""Every picture looks as it did: each is compared with one that was looked at.

``pytest tests/plots/test_images.py -n 0 --draw-baselines`` draws them anew; look at each before you
commit it. Pictures are compared under the minor version of matplotlib that drew the baselines: with
another one every letter lies elsewhere. Patch versions draw the same to the bit, and a line of
another colour or place is further away than the tolerance (the last tests).
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib import pyplot, rc_context
from matplotlib.figure import Figure
from matplotlib.testing.compare import compare_images
from PIL import Image

from kem_pymc import plots
from kem_pymc.data.scaling import Scaling
from kem_pymc.search.evaluation import Evaluator
from kem_pymc.search.evocov.individual import Individual
from kem_pymc.search.evocov.result import EvolvedSelection
from kem_pymc.search.evocov.tree import Tree
from kem_pymc.search.hyperpriors import Hyperpriors
from kem_pymc.search.result import SearchResult
from tests.diagnostics.conftest import mixing, posterior_of
from tests.plots.test_graph import PAPER
from tests.population.conftest import trial_posterior  # noqa: F401
from tests.search.conftest import evaluated

BASELINE = Path(__file__).parent / "baseline"

#: The most that pictures may differ: the root of the mean square over values from 0 to 255.
TOLERANCE = 1.0

DPI = 60

WALKS = {
    "ann": ["WHITE", "LIN0", "LIN0 + PER0"],
    "bob": ["SE0", "SE0", "SE0"],
    "cyd": ["LIN0", "LIN0", "LIN0 + PER0"],
    "dan": ["SE0", "SE0"],
}

#: What pictures depend on beside what is drawn; matplotlib brings the font.
STYLE = {
    **{"backend": "agg", "savefig.dpi": DPI, "figure.dpi": DPI},
    **{"font.family": ["DejaVu Sans"], "text.hinting": "none", "text.antialiased": True},
    **{"path.simplify": False},
}


class Maker:
    """Inputs of pictures, made by hand."""

    def __init__(self, make_evolutions, make_selection, points, posterior, population):
        self.evolutions, self.posterior = make_evolutions(PAPER), posterior
        self.population = population
        self.select, self.points = make_selection, points
        self.chains = posterior_of(*mixing(chains=3, draws=40))

    def searches(self):
        """Return two searches with five scores each, of which one is far below the others."""
        evaluator = Evaluator(np.zeros((10, 1)), np.zeros(10), Hyperpriors())
        scores = {"cks": [-9.0, -30.0, -4.0, -6.0, -3.0], "boms": [-12.0, -5.0, -2.5, -7.0, -2.0]}
        return {
            method: SearchResult(
                tuple(
                    evaluated(text, s) for text, s in zip(["WHITE", *4 * ["SE0"]], own, strict=True)
                ),
                method,
                Scaling.identity(1),
                0,
                evaluator,
            )
            for method, own in scores.items()
        }

    def evolved(self):
        """Return an evolved kernel, a decaying rhythm, on 30 points."""
        text = (
            "multiply(exp(multiply(-0.5, sq_dist(euc(x), h0))),"
            "exp(multiply(-0.5, sq_dist(spectral(x, h1), h2))))"
        )
        kernel = Individual(Tree.parse(text), np.array([2.0, 20.0, 1.0, 0.02]), 0.0, 0.0, {})
        x = np.linspace(0, 1, 30)
        y = np.sin(20 * x) + 0.1 * np.random.default_rng(0).normal(size=30)
        scaling = Scaling(np.zeros(1), np.full(1, 2.0), 5.0, 3.0)
        return EvolvedSelection(((kernel, 1.0),), scaling, x[:, None], y)

    def lifelong(self):
        """Return networks of which the second task uses another one, and the third both."""
        weights = np.zeros((3, 4))
        weights[[0, 2], 0] = 0.9, 0.6
        weights[[1, 2], 2] = 0.8, 0.5
        return xr.Dataset(
            {"weight": (("task", "network"), weights)}, coords={"task": ["2022", "2023", "2024"]}
        )

    def online(self):
        """Return a table of predictions for 4 points after 2 of them, and after all."""
        x, y = np.array([3.0, 1.0, 4.0, 2.0]), np.array([1.0, -1.0, 2.5, 0.5])
        ends = {
            f"{end}_{level}": sign * sd
            for level, sd in ((50, 0.67), (95, 1.96))
            for end, sign in (("low", -1), ("high", 1))
        }
        return pd.concat(
            pd.DataFrame(
                {"user": "ann", "time_step": step, "seen": [True] * 2 + [step == 1] * 2}
                | {"week": x, "observed": y}
                | {name: x - 2 + side * width for name, side in ends.items()}
            )
            for step, width in enumerate((1.5, 0.7))
        )

    def selection(self, name="LIN0 + PER0", n=15, dimension=1):
        scaling = Scaling(np.zeros(dimension), np.full(dimension, 2.0), 0.0, 1.0)
        return self.select(name, *self.points(n, dimension), scaling=scaling)

    def scores(self):
        rng = np.random.default_rng(0)
        rows = [
            (method, trial, step, level * (1 + step) ** -0.5 + 0.1 * rng.normal())
            for method, level in {"KEM": -2.0, "Final": -2.5, "ARD": -4.0}.items()
            for trial in range(4)
            for step in range(5)
        ]
        return pd.DataFrame(rows, columns=["method", "trial", "time_step", "value"])


@pytest.fixture(scope="module")
def make(make_evolutions, make_selection, points, posterior, trial_posterior):  # noqa: F811
    return Maker(make_evolutions, make_selection, points, posterior, trial_posterior)


PICTURES = {
    "evolution_graph": lambda m: plots.evolution_graph(m.evolutions),
    "trajectories": lambda _: plots.trajectories(WALKS),
    "trajectories_posterior": lambda m: plots.trajectories(m.posterior),
    "predictions": lambda m: plots.predictions(m.selection()),
    "predictions_left_out": lambda m: plots.predictions(m.selection("SE0 x SE1", 20, 2)),
    "few_and_many": lambda m: plots.few_and_many([m.selection(n=4), m.selection(n=15)]),
    "components": lambda m: plots.components(m.selection("LIN1 + PER0 + SE0 x SE1", 20, 2)),
    "evolved_kernel": lambda m: plots.evolved_kernel(m.evolved()),
    "search_path": lambda m: plots.search_path(m.searches()),
    "networks": lambda m: plots.networks(m.lifelong()),
    "online_predictions": lambda m: plots.online_predictions(m.online(), feature="week"),
    "co_clustering": lambda m: plots.co_clustering(m.posterior),
    "inclusion": lambda m: plots.inclusion(m.posterior),
    "mean_curves": lambda m: plots.mean_curves(m.population, "arm"),
    "comparisons": lambda m: plots.comparisons(m.population, "arm"),
    "deviations": lambda m: plots.deviations(m.population),
    "variance_shares": lambda m: plots.variance_shares(m.population),
    "log_likelihood": lambda m: plots.log_likelihood(m.scores(), unit="trial"),
    "edges_by_chain": lambda m: plots.edges_by_chain(m.chains),
    "traces": lambda m: plots.traces(m.chains),
}


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name, make, tmp_path, request):
    with rc_context(STYLE):
        picture = draw(PICTURES[name], make, tmp_path / f"{name}.png")
    assert pyplot.gcf().get_axes()  # what plt.savefig would save
    if request.config.getoption("--draw-baselines"):
        BASELINE.mkdir(exist_ok=True)
        (BASELINE / picture.name).write_bytes(picture.read_bytes())
        return
    assert drawn_by(BASELINE / picture.name) == drawn_by(picture), "Draw the baselines anew."
    difference = compare_images(str(BASELINE / picture.name), str(picture), TOLERANCE)
    assert difference is None, difference


def test_every_public_picture_has_a_baseline():
    drawn = {name for name in plots.__all__ if name != "composition_colours"}
    assert drawn <= set(PICTURES)
    assert {path.stem for path in BASELINE.glob("*.png")} == set(PICTURES)


@pytest.mark.parametrize("name", ["predictions", "log_likelihood"])
@pytest.mark.parametrize("change", ["colour", "place"])
def test_a_changed_line_is_noticed(name, change, make, tmp_path):
    def changed(make):
        drawn = PICTURES[name](make)
        ax = np.ravel(drawn)[0]
        line, limits = ax.lines[0], ax.get_ylim()
        if change == "colour":
            line.set_color("#7f3fbf")
        else:
            line.set_ydata(np.asarray(line.get_ydata(orig=False)) + 0.03 * np.ptp(limits))
            ax.set_ylim(limits)
        return drawn

    with rc_context(STYLE):
        picture = draw(changed, make, tmp_path / f"{name}.png")
    assert compare_images(str(BASELINE / picture.name), str(picture), TOLERANCE) is not None


def test_a_given_figure_is_used(make):
    inputs = {plots.components: make.selection(), plots.online_predictions: make.online()}
    for function, shown in inputs.items():
        figure = Figure()
        axes = function(shown, figure=figure)
        assert [*axes] == figure.axes


def draw(function, make, path):
    """Draw a picture into a file, whatever its function returns."""
    drawn = function(make)
    figure = drawn.viz["figure"].item() if hasattr(drawn, "viz") else np.ravel(drawn)[0].figure
    # Whole pixels: versions differ in how they round.
    figure.set_size_inches((np.round(figure.get_size_inches() * DPI) + 0.01) / DPI)
    figure.savefig(path)
    return path


def drawn_by(path):
    """Return the minor version of matplotlib that drew a picture, which notes it in the file."""
    with Image.open(path) as image:
        return image.text["Software"].split(".")[:2]
