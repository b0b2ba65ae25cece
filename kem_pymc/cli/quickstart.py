"""``kem quickstart``: run the paper's synthetic study from start to end in about two minutes."""

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kem_pymc.cli import folders, options, screen
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from kem_pymc.data.cohort import Cohort
    from kem_pymc.selection.online import Trajectories
    from kem_pymc.selection.selector import Selector

#: File that marks a folder as results of a quickstart, which a later quickstart may replace.
OWN = "quickstart.json"

#: Names in such a folder, including those that `kem report` and `kem diagnose` add.
RESULTS = folders.WRITTEN | {OWN, "selections.csv", "predictions.csv", "predictions.png"}

EXAMPLE = "Example: kem quickstart --out kem-quickstart --seed 1"


def quickstart(
    users: Annotated[
        int, typer.Option(min=2, metavar="N", help="Pilot users, to learn from.")
    ] = 10,
    test_users: Annotated[
        int, typer.Option(min=1, metavar="N", help="New users, to select kernels for.")
    ] = 6,
    feedback: options.Feedback = "cut",
    draws: options.Draws = 200,
    tune: options.Tune = 200,
    chains: options.Chains = 4,
    cores: options.Cores = None,
    seed: options.Seed = 0,
    out: options.Out = Path("kem-quickstart"),
    overwrite: options.Overwrite = False,
) -> None:
    """Simulate the paper's study, learn evolutions, and select kernels for new users.

    Users' functions are drawn alternately from Gaussian processes with the kernels LIN0 + PER0 and
    SE0; every user has 6 time steps of 5 points. Selected kernels are scored by the mean log
    likelihood of 200 test points. The results of an earlier quickstart in the folder are replaced.
    """
    import numpy as np

    from kem_pymc import datasets, priors
    from kem_pymc._system.executors import make_executor
    from kem_pymc.cli import learning
    from kem_pymc.cli.online import select_online
    from kem_pymc.kernels.pool import CandidatePool
    from kem_pymc.model.evolution_model import EvolutionModel
    from kem_pymc.runs.interruption import noticing_interruption
    from kem_pymc.selection.ard import ARDSelector
    from kem_pymc.selection.kem import KEMSelector

    pilot_seed, test_seed = np.random.SeedSequence(seed).spawn(2)
    pilot = datasets.synthetic(users=users, seed=np.random.default_rng(pilot_seed))
    test = datasets.synthetic(users=test_users, seed=np.random.default_rng(test_seed))
    pool, table = CandidatePool(datasets.candidates("synthetic")), priors.synthetic()
    model = EvolutionModel(pilot, pool, table, feedback=feedback or "cut")
    sampler: dict[str, Any] = {
        "draws": draws,
        "tune": tune,
        "chains": chains,
        "cores": cores,
        "random_seed": seed,
    }
    overwrite = overwrite or _own(out)
    with folders.results(out, overwrite, written=RESULTS) as folder:
        screen.study(pilot, pool)
        with closing(make_executor(cores, at_most=chains)) as executor:
            step = learning.ready(model, executor)
            with noticing_interruption():
                outcome = learning.sample(model, step, sampler, folder / "run", executor)
                ends = learning.sample_ends(model, sampler, folder / "run", executor)
                learned = learning.write(outcome, ends, folder, out)
        shutil.rmtree(folder / "run")
        selectors: dict[str, Selector] = {
            "KEM": KEMSelector(learned),
            "ARD, maximum likelihood": ARDSelector(1),
            "ARD, MAP": ARDSelector(1, "map", priors=table),
        }
        trajectories = {
            method: select_online(selector, test, f"Selecting kernels: {method}")
            for method, selector in selectors.items()
        }
        _write(trajectories, test, folder)
        (folder / OWN).write_text(json.dumps({"seed": seed, "users": users}) + "\n", "utf-8")
    screen.heading("Kernels selected for new users, by number of points")
    _print_selected(trajectories["KEM"], test)
    # A single user with bad predictions changes the mean, but hardly the median.
    for title in ("Mean", "Median"):
        screen.heading(f"{title} over users of the log likelihood of a test point")
        _print_compared(trajectories, test, title.lower())
    screen.info(f"Results are in {out}.")
    for failure in outcome.failures:
        screen.warn(f"The results lack a chain: {failure}. They are based on the other chains.")
    if outcome.interrupted:
        screen.warn("Sampling was interrupted. The results are based on the draws so far.")
        raise typer.Exit(130)


def _own(out: Path) -> bool:
    """Return whether a folder holds an earlier quickstart and nothing else, and may be replaced.

    Raises
    ------
    InputError
        If the folder of an earlier quickstart contains other files as well.
    """
    if not (out / OWN).is_file():
        return False
    others = sorted({path.name for path in out.iterdir()} - RESULTS)
    if others:
        raise InputError(
            f"The folder {out} contains {others[0]} in addition to an earlier quickstart. "
            "Move it to another folder, or choose another folder with --out."
        )
    screen.info(f"The earlier quickstart in {out} will be replaced.")
    return True


def _write(trajectories: "dict[str, Trajectories]", test: "Cohort", folder: Path) -> None:
    """Write tables of considered compositions and of predictions, and a plot of one user."""
    import pandas as pd

    from kem_pymc.plots import few_and_many
    from kem_pymc.selection.online import predictions

    frames = [
        selection.to_frame().assign(user=user, time_step=step, n_points=len(selection.y))
        for user, own in trajectories["KEM"].items()
        for step, selection in enumerate(own)
    ]
    table = pd.concat(frames).set_index(["user", "time_step", "n_points", "composition"])
    table.to_csv(folder / "selections.csv")
    predictions(trajectories["KEM"], test).to_csv(folder / "predictions.csv", index=False)
    user = test.users[0]
    chosen = {method: [own[user][0], own[user][-1]] for method, own in trajectories.items()}
    truth = test.truth.x_test, test.truth.f_test[0]
    axes = few_and_many(chosen, truth=truth, study=test)
    axes[0, 0].figure.savefig(folder / "predictions.png", dpi=150)


def _print_selected(trajectories: "Trajectories", test: "Cohort") -> None:
    """Print a table of kernels by user and time step, with a dot for an unchanged kernel."""
    first, *later = [str(n) for n in test.ends[0]]
    rows = []
    width = (screen.console.width - 20) // (1 + len(later)) - 3
    for user, truth in zip(test.users, test.truth.compositions, strict=True):
        labels = [s.label() for s in trajectories[user]]
        changes = [
            screen.broken(label, width) if label != before else "·"
            for label, before in zip(labels, [None, *labels], strict=False)
        ]
        rows.append((str(user), str(truth), *changes))
    screen.table(("user", "truth", first, *later), rows)


def _print_compared(
    trajectories: "dict[str, Trajectories]", test: "Cohort", over_users: str
) -> None:
    """Print a table of scores by method and time step."""
    import numpy as np

    users = np.array([_log_likelihoods(own, test) for own in trajectories.values()])
    scores = users.mean(axis=1) if over_users == "mean" else np.median(users, axis=1)
    sizes = [str(n) for n in test.ends[0]]
    rows = [(method, *row) for method, row in zip(trajectories, scores, strict=True)]
    screen.table(("method", *sizes), rows, dict.fromkeys(sizes, ".2f"))


def _log_likelihoods(trajectories: "Trajectories", test: "Cohort") -> "np.ndarray":
    """Return the mean log predictive density of a test point, by user and time step."""
    import numpy as np

    x, y = test.truth.x_test, test.truth.y_test
    by_user = [
        [selection.log_predictive_density(x, y[u]).mean() for selection in trajectories[user]]
        for u, user in enumerate(test.users)
    ]
    return np.array(by_user)
