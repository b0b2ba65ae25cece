from io import StringIO

import pytest
from rich.console import Console

from kem_pymc.runs import progress
from kem_pymc.runs.folder import Plan
from kem_pymc.runs.progress import Bars

PLAN = Plan(draws=12, tune=8, chains=2, random_seed=1, chunk=4)


def shown(monkeypatch, asked=True, terminal=True):
    """Return what appears while two chains run, one of which fails."""
    screen = StringIO()

    def console(**_):
        return Console(file=screen, force_terminal=terminal, width=160)

    monkeypatch.setattr(progress, "Console", console)
    with Bars(PLAN, asked) as bars:
        bars.update(0, 4, {"n_clusters": 3, "log_density": -12.34})
        bars.update(0, 20, {"n_clusters": 5, "log_density": -10.0})
        bars.update(1, 9, {"n_clusters": 7, "log_density": -11.0})
        bars.fail(1)
        bars.stopping()
    return screen.getvalue()


def test_bars(monkeypatch):
    text = shown(monkeypatch)
    for words in ("Chain 0", "4/20", "tuning", "3 clusters", "log density -12.3", "draws/s"):
        assert words in text
    assert "20/20" in text
    assert "sampling" in text
    assert "Chain 1 failed" in text
    assert "Stopping" in text


@pytest.mark.parametrize(("asked", "terminal"), [(False, True), (True, False)])
def test_quiet(monkeypatch, asked, terminal):
    assert not shown(monkeypatch, asked, terminal).strip()
