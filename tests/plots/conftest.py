"""Hand-made inputs for pictures, and what a test asks of a drawn picture."""

from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from kem_pymc.data.families import Family
from kem_pymc.data.scaling import Scaling
from kem_pymc.evolutions.clusters import Cluster
from kem_pymc.evolutions.evolutions import Evolutions
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.recorded import Recorded, ScaledSites
from kem_pymc.kernels.composition import Composition
from kem_pymc.kernels.pool import CandidatePool
from kem_pymc.selection.scored_kernel import ScoredKernel
from kem_pymc.selection.selection import Selection
from tests.diagnostics.conftest import posterior_of

VALUES = {"amplitude": 1.5, "lengthscale": 0.8, "period": 2.0, "shift": 0.1}


def pool_of(compositions, dimension):
    """Return the pool of all candidates in some compositions."""
    parsed = (Composition.parse(text, dimension) for text in compositions)
    return CandidatePool(sorted({c for composition in parsed for c in composition}), dimension)


@pytest.fixture(scope="session")
def make_evolutions():
    """Return evolutions of the draws given, each as rows (parent, child, count)."""

    def make(*draws, features=("week",), others=()):
        rows = [(draw, *row) for draw, rows in enumerate(draws) for row in rows]
        names = {name for _, parent, child, _ in rows for name in (parent, child)}
        pool = pool_of([*names, *others], len(features))
        parsed = {name: Composition.parse(name, len(features)) for name in names}
        sizes = {name: len(Coordinates(pool, parsed[name])) for name in names}
        clusters = [
            Cluster(draw, parsed[parent], parsed[child], count, (0.0,) * sizes[child])
            for draw, parent, child, count in rows
        ]
        scaling = Scaling.identity(len(features))
        return Evolutions(pool, scaling, features, "steps", tuple(clusters), len(draws))

    return make


@pytest.fixture(scope="session")
def make_selection():
    """Return the selection of a composition, with ordinary values, for data (n, D) and (n,)."""

    def make(name, x, y, others=(), scaling=None):
        scaling = scaling or Scaling.identity(x.shape[1])
        composition = Composition.parse(name, x.shape[1])
        values = {h.name: VALUES[h.kind] for h in composition.hyperparameters}
        considered = ScoredKernel(
            composition=composition,
            status="fixed",
            hyperparameters=values,
            noise=0.25,
            log_likelihood=0.0,
            n_parameters=1 + len(values),
            bic=0.0,
            criterion=0.0,
            score=0.0,
            weight=1.0,
            probability=1.0,
            evaluations=1,
            converged=True,
        )
        pool = pool_of([name, *others], x.shape[1])
        data = scaling.inputs(x), scaling.targets(y)
        return Selection((considered,), pool, scaling, *data, run_time=0.0)

    return make


@pytest.fixture(scope="session")
def of_a_family():
    """Return a selection whose targets stand for those of a family, with known variances."""

    def make(selection, name, targets, noise=0.4):
        family = Family(name, (), (0.0, 1.0))
        sites = ScaledSites(selection.y, np.full(selection.y.shape, noise), 0.0)
        return replace(
            selection,
            considered=(replace(selection.considered[0], sites=sites),),
            scaling=replace(selection.scaling, family=family),
            recorded=Recorded(family, targets, None, 0.0, 1.0),
        )

    return make


@pytest.fixture(scope="session")
def points():
    """Return n points of D features with a wave in the first one."""

    def make(n, dimension=1, seed=0):
        rng = np.random.default_rng(seed)
        x = rng.uniform(0, 5, (n, dimension))
        return x, np.sin(3 * x[:, 0]) + 0.3 * rng.normal(size=n)

    return make


@pytest.fixture(scope="session")
def posterior():
    """Posterior of 4 draws of 3 users (7, 8, 9) and 3 time steps; user 9 lacks the last one.

    LIN0 is in from the first step on; PER0 joins at the second, in 3 draws of 4, for user 7;
    SE0 never is. All datasets of a time step share a cluster, but user 9 is alone in half of the
    draws.
    """
    draws, users, steps = 4, 3, 3
    inclusion = np.zeros((1, draws, users, steps, 3), dtype=bool)
    inclusion[..., 0] = True
    inclusion[0, :3, 0, 1:, 1] = True
    assignment = np.tile(np.arange(steps), (1, draws, users, 1))
    assignment[0, :2, 2, :2] = [6, 7]
    assignment[..., 2, 2] = -1
    tree = posterior_of(inclusion, assignment)
    tree["posterior"] = tree["posterior"].to_dataset().assign_coords(user=[7, 8, 9])
    return tree


@pytest.fixture(scope="session")
def drawn():
    """Draw the figure of axes for good, as saving does, and return its renderer."""

    def draw(ax):
        figure = ax.figure.figure
        figure.savefig(BytesIO(), format="png")
        return FigureCanvasAgg(figure).get_renderer()

    return draw


@pytest.fixture(scope="session")
def texts():
    """Return the texts within axes, as they would be typed on one line."""

    def find(ax):
        return [plain(text.get_text()) for text in ax.texts]

    return find


@pytest.fixture(scope="session")
def typed():
    """Return a text as it would be typed on one line."""
    return plain


def plain(text):
    text = text.replace("\N{MULTIPLICATION SIGN}", "x").replace("\N{NO-BREAK SPACE}", " ")
    return " ".join(text.split())
