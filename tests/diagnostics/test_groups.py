"""Differences between groups, from the means and covariances of their levels."""

from types import SimpleNamespace

import numpy as np
import pytest

from kem_pymc.data.scaling import Scaling
from kem_pymc.diagnostics import groups
from kem_pymc.kernels.composition import Composition


def test_levels_vary_together(monkeypatch):
    """Catches intervals of levels that count as independent, a wrong sign, and scaled units."""
    mean = np.array([0.5, 2.0, -1.0])
    covariance = np.array([[1.0, 0.9, 0.2], [0.9, 1.2, 0.1], [0.2, 0.1, 0.5]])
    scaling = Scaling(np.zeros(2), np.ones(2), 7.0, 10.0)
    settings = {
        "features": ["age", "arm"],
        "levels": {"arm": ["a", "b", "c"]},
        "scaling": scaling.to_dict(),
    }
    kernel = SimpleNamespace(composition=Composition.parse("CAT1"))
    part = SimpleNamespace(process=None, model=SimpleNamespace(kernel=kernel))
    monkeypatch.setattr(groups, "study_settings", lambda _: settings)
    monkeypatch.setattr(groups, "read_shared", lambda *_: part)
    monkeypatch.setattr(groups, "_rows", lambda _: np.zeros((4, 2)))
    monkeypatch.setattr(groups, "level_means", lambda *_: (mean, covariance))
    found = groups.contrasts(None, "arm", 0.95).set_index("contrast")
    assert found.index.tolist() == ["b - a", "c - a", "c - b"]
    assert found["mean"].tolist() == pytest.approx([15, -15, -30])
    sd = 10 * np.sqrt([0.4, 1.1, 1.5])
    np.testing.assert_allclose(found["sd"], sd)
    np.testing.assert_allclose(found["high"] - found["low"], 2 * 1.959964 * sd, rtol=1e-6)
