"""How compositions are fitted, scored and ranked."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import norm

from kem_pymc import priors
from kem_pymc.errors import InputError
from kem_pymc.evolutions.clusters import KernelSummary
from kem_pymc.gp.coordinates import Coordinates
from kem_pymc.gp.objective import Objective
from kem_pymc.kernels.composition import Composition
from kem_pymc.selection import scorer
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.selection.scored_kernel import ScoredKernel
from kem_pymc.selection.scorer import Proposal, Scorer, ranked, study_prior
from kem_pymc.selection.selector import ScaledPoints
from tests.gp.objectives import coordinates, data, gradient, scattered, stand_in_priors
from tests.selection.pilots import POOL, evidence_at, pilot_cluster, row, user, with_clusters


def test_posterior_criterion_by_hand(learned):
    x, y = user(12)
    selection = KEMSelector(learned).select(x, y, previous="LIN0")
    for child in learned.children("LIN0"):
        chosen = row(selection, str(child.composition))
        where = Coordinates(POOL, child.composition)
        values = where.from_named(chosen.hyperparameters, chosen.noise)
        normals = [norm(c, s) for c, s in zip(child.centre, child.spread, strict=True)]
        evidence = evidence_at(where, x, y, values, normals)
        likelihood, _ = Objective(where, x, y).terms(values)
        expected = evidence + math.log(child.probability)
        assert chosen.score == pytest.approx(expected, abs=1e-3)
        assert chosen.log_likelihood == pytest.approx(likelihood)
        assert chosen.n_parameters == len(values)


def test_every_criterion_sorts_by_its_score(learned):
    x, y = user(12)
    for criterion, way in itertools.product(
        ("posterior", "bic", "aic", "laplace", "loo"), ("pilot", "ml")
    ):
        rows = KEMSelector(learned, way, criterion).select(x, y, previous="LIN0").considered
        assert [r.score for r in rows] == sorted((r.score for r in rows), reverse=True)
        weights = np.exp([r.score - rows[0].score for r in rows])
        np.testing.assert_allclose([r.weight for r in rows], weights / weights.sum())
        for r in rows:
            expected = r.n_parameters * math.log(12) - 2 * r.log_likelihood
            assert r.bic == pytest.approx(expected)
            if criterion == "bic":
                assert (r.criterion, r.score) == pytest.approx((expected, -expected / 2))


def test_values_of_the_last_selection_are_a_start(learned):
    x, y = user(12)
    selector = KEMSelector(learned, "ml", "bic", runs=20)
    last = selector.select(x, y, previous="SE0")
    again = selector.select(x, y, previous=last)
    assert again.considered[0].log_likelihood >= last.considered[0].log_likelihood - 1e-6
    one = KEMSelector(learned, "ml", "bic", runs=1)
    fresh, warm = (one.select(x, y, previous=p).considered[0] for p in ("SE0", last))
    assert warm.evaluations < fresh.evaluations


def test_far_compositions_are_left_unfinished_and_all_others_are_as_before(learned, monkeypatch):
    """Catches an approximate score of a composition that matters, and time spent on others."""
    others = [pilot_cluster(0, "LIN0", name, 2, 0.3) for name in ("SE0", "WHITE", "PER0 + SE0")]
    selector = KEMSelector(with_clusters(learned, *others))
    evaluated = []
    original = scorer.laplace

    def counted(objective, fitted):
        evaluated.append(3 * len(fitted.values) + 3)  # gradients, as its documentation says
        return original(objective, fitted)

    monkeypatch.setattr(scorer, "laplace", counted)
    used, selections = [], []
    for far in (scorer.FAR, math.inf):
        monkeypatch.setattr(scorer, "FAR", far)
        evaluated.clear()
        selections.append([selector.select(*user(60, s), previous="LIN0") for s in range(3)])
        fits = sum(row.evaluations for found in selections[-1] for row in found.considered)
        used.append(fits + sum(evaluated))
    assert used[0] < 0.85 * used[1]
    for found, whole in zip(*selections, strict=True):
        assert found.composition == whole.composition
        for exact in whole.considered:
            kept = row(found, str(exact.composition))
            if exact.score > whole.considered[0].score - 10:
                assert kept.score == exact.score
            else:
                assert kept.weight < 1e-4
        assert any(c.score != row(whole, str(c.composition)).score for c in found.considered)


def test_map_uses_the_studys_priors(learned):
    learned = with_clusters(learned, priors=priors.synthetic().to_dict())
    x, y = user(12)
    selection = KEMSelector(learned, "map").select(x, y, previous="LIN0")
    given = KEMSelector(learned, "map", priors=priors.synthetic()).select(x, y, previous="LIN0")
    assert given.considered == selection.considered
    table = {
        "LIN0.shift": norm(0, 0.1),
        "LIN0.amplitude": norm(0, 2),
        "PER0.period": norm(math.log(5), 0.25),
        "PER0.lengthscale": norm(0, 2),
        "PER0.amplitude": norm(0, 2),
    }
    for chosen in selection.considered:
        where = Coordinates(POOL, chosen.composition)
        below = norm(1, 1)  # the noise below a parent of size 1
        own = [table[h.name] for h in where.hyperparameters] + [below]
        values = where.from_named(chosen.hyperparameters, chosen.noise)
        evidence = evidence_at(where, x, y, values, own)
        expected = evidence + math.log(chosen.probability)
        assert chosen.score == pytest.approx(expected, abs=1e-3)


def considered(name, score, amplitude=1.0):
    """Return a record of which only the composition and the score matter."""
    return ScoredKernel(
        composition=Composition.parse(name),
        status="child",
        hyperparameters={"amplitude": amplitude},
        noise=1.0,
        log_likelihood=0.0,
        n_parameters=1,
        bic=0.0,
        criterion=0.0,
        score=score,
        weight=math.nan,
        probability=1.0,
        evaluations=1,
        converged=True,
    )


def test_compositions_are_ranked_by_the_sum_of_their_weights():
    """Catches weights within each draw, and a rank by the best row alone."""
    rounds = [
        [considered("LIN0", math.log(2.0)), considered("SE0", math.log(1.5), 1.0)],
        [considered("LIN0", math.log(0.5)), considered("SE0", math.log(4.0) - 1000, 2.0)],
        [considered("SE0", math.log(2.0 - 1e-9), 3.0)],
    ]
    rows = ranked(rounds)
    assert [str(row.composition) for row in rows] == ["SE0", "SE0", "SE0", "LIN0", "LIN0"]
    expected = np.array([2.0, 1.5, 0.0, 2.0, 0.5]) / 6
    np.testing.assert_allclose([row.weight for row in rows], expected, rtol=0, atol=1e-9)
    assert [row.hyperparameters["amplitude"] for row in rows[:3]] == [3.0, 1.0, 2.0]


def test_where_nothing_is_possible_all_weigh_the_same():
    rows = ranked([[considered("SE0", -math.inf), considered("LIN0", -math.inf)]])
    assert [row.weight for row in rows] == [0.5, 0.5]
    assert rows == ranked([[considered("LIN0", -math.inf), considered("SE0", -math.inf)]])


def test_the_shortlist_is_by_status_and_in_order():
    """Catches a shortlist over all statuses together, and one sorted by plausibility."""
    x, y = user(30)
    options = []
    for status, name, probability in [
        ("child", "SE0", 0.1),
        ("final", "WHITE", 0.5),
        ("child", "WHITE", 1e-9),
        ("child", "LIN0 + PER0", 0.2),
        ("final", "LIN0", 0.5),
    ]:
        composition = Composition.parse(name)
        centre = pilot_cluster(0, "WHITE", name, 1, 0.5).values
        typical = KernelSummary(np.array(centre), np.ones(len(centre)), np.array([centre]))
        options.append(Proposal(composition, status, probability, typical))
    by_hand = [
        math.log(own.probability)
        + Objective(Coordinates(POOL, own.composition), x, y).terms(own.summary.centre)[0]
        for own in options
    ]
    scorer = Scorer(POOL, "pilot", "posterior", 3, 0.01)
    for count in (1, 2, 3):
        expected = [
            i
            for i, own in enumerate(options)
            if sum(
                by_hand[i] < by_hand[j]
                for j, other in enumerate(options)
                if other.status == own.status
            )
            < count
        ]
        found = scorer.shortlist(options, count, ScaledPoints(x, y))
        assert [options.index(own) for own in found] == expected


def test_study_prior_uses_entries_and_parent():
    where, parent = coordinates("LIN0 + PER0"), Composition.parse("LIN0 + SE1", 2)
    problem = Objective(where, *data(0), study_prior(stand_in_priors(), where, parent))
    values = scattered(problem, 1)[0]
    entries = where.places % 3
    by_hand = -0.5 * ((values[:-1] - entries) ** 2).sum() - 0.5 * (values[-1] - 2) ** 2
    assert problem.terms(values)[1] == pytest.approx(by_hand)
    numeric = approx_fprime(values, lambda v: sum(problem.terms(v)), 1e-6)
    np.testing.assert_allclose(gradient(problem, values), numeric, rtol=1e-3, atol=1e-3)


def test_a_parent_from_elsewhere_is_refused():
    with pytest.raises(InputError, match="RQ0 is not in the candidate pool"):
        study_prior(stand_in_priors(), coordinates("LIN0"), Composition.parse("RQ0", 2))
