"""The mean process has the moments of the posterior, whose weights are conditioned by hand."""

import numpy as np
import pytest

import kem_pymc as kem
from kem_pymc.data.cohort import Cohort
from kem_pymc.population import PopulationPosterior
from kem_pymc.population.design import Surface, designs
from kem_pymc.population.hyperparameters import scales
from kem_pymc.population.mean_process import MeanProcess, Smooth
from kem_pymc.population.shared_part import mean_process

#: Values of the hyperparameters in two draws, and the draws' weights.
DRAWS = {
    "s(day).sd": [0.7, 0.4],
    "s(day).lengthscale": [0.6, 1.1],
    "s(day):arm.sd": [0.5, 0.2],
    "s(day):arm.lengthscale": [0.9, 0.5],
    "personal level.sd": [0.8, 0.5],
    "personal day.sd": [0.3, 0.2],
    "personal day.correlation": [-0.4, 0.5],
    "noise.sd": [0.3, 0.4],
}
WEIGHTS = np.array([0.3, 0.7])


@pytest.fixture(scope="module")
def cohort():
    """Six users in three arms, days from 0 to 10, and a dose."""
    rng = np.random.default_rng(3)
    sizes = (7, 5, 9, 6, 8, 7)
    inputs = [
        np.column_stack([np.sort(rng.uniform(0, 10, n)), np.full(n, u % 3), rng.uniform(0, 2, n)])
        for u, n in enumerate(sizes)
    ]
    targets = [50 + 6 * np.sin(x[:, 0]) + 3 * x[:, 1] + rng.normal(0, 2, len(x)) for x in inputs]
    return Cohort(
        users=tuple("abcdef"),
        inputs=tuple(inputs),
        targets=tuple(targets),
        ends=tuple(np.array([n]) for n in sizes),
        features=("day", "arm", "dose"),
        levels={"arm": ("x", "y", "z")},
        time="day",
    )


@pytest.fixture(scope="module")
def posterior(cohort):
    terms = ["day", "arm", "dose", "s(day)", "s(day):arm"]
    model = kem.PopulationModel(cohort, terms, ["level", "day"])
    draws = {name: np.array(values) for name, values in DRAWS.items()}
    return PopulationPosterior(model, draws, WEIGHTS, -np.inf, np.nan)


def by_hand(posterior, users, new, draw):
    """Return mean and covariance of the shared function at inputs, given users' rows."""
    model = posterior.model
    values = {name: np.array([v[draw]]) for name, v in posterior.draws.items()}
    every = scales(model.shared, model.personal, values)
    x = [model.cohort.inputs[u] for u in users]
    y = np.concatenate([model.cohort.targets[u] for u in users])
    rows, label = np.concatenate(x), np.repeat(users, [len(part) for part in x])
    own = model.personal(rows) @ every.personal[0]
    prior = np.diag(every.shared[0] ** 2)
    h, at = model.shared(rows), model.shared(new)
    total = h @ prior @ h.T + (own @ own.T) * (label[:, None] == label)
    total += every.noise[0] ** 2 * np.eye(len(rows))
    gain = np.linalg.solve(total, h @ prior @ at.T).T
    mean = gain @ (y - model.target_mean) / model.target_sd
    covariance = at @ prior @ at.T - gain @ h @ prior @ at.T
    return mean * model.target_sd + model.target_mean, covariance * model.target_sd**2


@pytest.mark.parametrize("left_out", [None, 4])
def test_moments_are_those_of_the_mixture(posterior, left_out):
    """Fails where a draw's weight, the spread of its means or the user left out is forgotten."""
    users = [u for u in range(6) if u != left_out]
    new = np.array([[1.0, 0, 0.4], [4.0, 1, 1.5], [9.0, 2, 0.1], [9.0, 0, 0.1]])
    means, covariances = zip(*(by_hand(posterior, users, new, s) for s in (0, 1)), strict=True)
    mean = WEIGHTS @ means
    away = np.array(means) - mean
    covariance = np.einsum("s,sij->ij", WEIGHTS, covariances) + (WEIGHTS * away.T) @ away
    given = PopulationPosterior(
        posterior.model, posterior.draws, WEIGHTS, -np.inf, np.nan, left_out=left_out
    )
    found = mean_process(given)
    again = MeanProcess.from_dict(found.to_dict())
    for process in (found, again):
        np.testing.assert_allclose(process.mean(new), mean, rtol=1e-6)
        np.testing.assert_allclose(process.covariance(new, new), covariance, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(again.covariance(new[:2], new), found.covariance(new[:2], new))


def test_beyond_the_data_smooth_functions_have_their_prior(posterior):
    """Fails where a smooth function counts as known, or comes back, far from all users' days."""
    process = mean_process(posterior)
    far = np.array([[30.0, 0, 1.0], [30.5, 0, 1.0], [-25.0, 0, 1.0]])
    columns = process.design(far)
    smooth = [
        s for t, s in zip(process.design.terms, process.design.spans(), strict=True) if t.smooth
    ]
    assert max(np.abs(columns[:, span]).max() for span in smooth) < 1e-12
    left = process.covariance(far, far) - columns @ process.root.T @ process.root @ columns.T
    one, other = process.smooths["s(day)"], process.smooths["s(day):arm"]
    extent = np.ptp(np.concatenate(posterior.model.cohort.inputs)[:, 0]) / 2
    expected = one.variance + other.variance * 2 / 3
    np.testing.assert_allclose(left.diagonal(), expected, rtol=1e-9)
    away = 0.5 / extent / np.array([one.lengthscales[0], other.lengthscales[0]])
    near = np.array([one.variance, other.variance * 2 / 3]) @ np.exp(-(away**2) / 2)
    assert left[0, 1] == pytest.approx(near)
    assert abs(left[0, 2]) < 1e-9
    inside = np.concatenate(posterior.model.cohort.inputs)
    known = process.design(inside) @ process.root.T
    np.testing.assert_allclose(process.covariance(inside, inside), known @ known.T, atol=1e-9)


def test_an_unknown_level_is_an_average_one_and_uncertain(posterior):
    """Fails where a new level passes for a known one, or its difference counts as known."""
    process = mean_process(posterior)
    levels = np.array([[5.0, level, 1.0] for level in (0, 1, 2, 7)])
    mean, variance = process.mean(levels), process.covariance(levels, levels).diagonal()
    assert mean[3] == pytest.approx(mean[:3].mean())
    assert variance[3] > variance[:3].mean() + 0.5 * mean[:3].var()


def test_a_surface_has_its_kernels_variance_everywhere(cohort):
    """Without data, columns and the rest make the kernel's variance, near the points and far."""
    design, _ = designs(cohort, ["s(day, dose)"], [])
    points, scales = np.random.default_rng(0).uniform(-1, 1, (9, 2)), np.array([0.5, 0.8])
    surface = Surface(points, scales)
    design = type(design)(design.features, design.terms, {"s(day, dose)": surface})
    root = 1.5 * np.eye(10)
    root[0, 0] = 0.0  # no level
    process = MeanProcess(design, {"s(day, dose)": Smooth(1.5**2, (0.5, 0.8))}, np.zeros(10), root)
    x = np.column_stack([np.linspace(-5, 20, 30), np.zeros(30), np.linspace(3, -1, 30)])
    covariance = process.covariance(x, x)
    np.testing.assert_allclose(covariance.diagonal(), 1.5**2, rtol=1e-5)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9
    places = design.places(design.terms[1], x)
    between = ((places[:, None] - points) / scales) ** 2
    kernel = np.exp(-between.sum(axis=2) / 2)
    gram = np.exp(-((((points[:, None] - points) / scales) ** 2).sum(axis=2)) / 2)
    expected = kernel @ np.linalg.solve(gram, kernel.T)
    basis = surface.basis(places)
    np.testing.assert_allclose(basis @ basis.T, expected, atol=1e-4)
