"""Settings of the experiments: what is refused, and what the package's own settings name."""

from contextlib import suppress

import pytest

from experiments import settings as given
from kem_pymc.comparison.runner import tasks_of
from kem_pymc.datasets import DataFileNotFoundError
from kem_pymc.errors import InputError
from tests.experiments.conftest import TINY


@pytest.mark.integration
def test_users_of_the_packages_settings():
    """Every trial can be dealt; the parts of pilot users, too."""
    settings = given.default()
    assert settings.methods["KEM, ml, bic"].options == {"fit": "ml", "criterion": "bic"}
    tasks = tasks_of(settings, settings.figures.values(), trials=1)
    looked_at = set()
    for task in {(p.name, p.trial, p.folds): p for p in tasks}.values():
        with suppress(DataFileNotFoundError):
            users = task.users()
            assert not set(users.pilot.users) & set(users.test.users) or task.folds is None
            assert users.test.n_users >= 1
            looked_at.add(task.name)
    assert looked_at >= {"synthetic", "similar", "complex"}


def test_choices_are_made_on_users_whom_nothing_reports():
    settings = given.default()
    choices = settings.figures["kem-choices"]
    others = [figure for name, figure in settings.figures.items() if name != "kem-choices"]
    assert not set(choices.studies) & {name for figure in others for name in figure.studies}
    seeds = lambda figures, **own: {p.seed for p in tasks_of(settings, figures, **own)}  # noqa: E731
    assert seeds([choices]) == {100}
    assert seeds([choices, *others], trials=1, seed=3) == {103, 3}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[quick]", "[quick", "can't be used"),
        ('judged = "truth"', 'judged = "tea leaves"', "can't be used"),
        ('methods = ["KEM", "Final"]', 'methods = ["KEM", "Best"]', "uses 'Best'"),
        ("trials = 2", "trials = 0", "can't be used"),
        ("trials = 2", f"trials = {'[' * 20_000}", "can't be used: maximum recursion depth"),
    ],
)
def test_settings_are_checked(old, new, message):
    with pytest.raises(InputError, match=message):
        given.read(TINY.replace(old, new, 1))
