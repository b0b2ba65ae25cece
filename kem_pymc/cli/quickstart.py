"""``kem quickstart``: run the paper's synthetic study from start to end in about two minutes."""

import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kem_pymc.cli import folders, options, screen

if TYPE_CHECKING:
    from kem_pymc.selection.selector import Selector

#: Names in the folder of results, including those that `kem report` and `kem diagnose` add.
RESULTS = folders.WRITTEN | {"selections.csv", "predictions.csv"}

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
    likelihood of 200 test points.
    """
    import numpy as np
    import pandas as pd

    from kem_pymc import datasets, priors
    from kem_pymc._system.executors import make_executor
    from kem_pymc.cli import learning
    from kem_pymc.cli.online import select_online
    from kem_pymc.kernels.pool import CandidatePool
    from kem_pymc.kernels.prose import named
    from kem_pymc.model.evolution_model import EvolutionModel
    from kem_pymc.runs import models
    from kem_pymc.runs.interruption import noticing_interruption
    from kem_pymc.selection.ard import ARDSelector
    from kem_pymc.selection.kem import KEMSelector
    from kem_pymc.selection.online import predictions
    from kem_pymc.selection.scores import scores

    pilot_seed, test_seed = np.random.SeedSequence(seed).spawn(2)
    pilot = datasets.synthetic(users=users, seed=np.random.default_rng(pilot_seed))
    test = datasets.synthetic(users=test_users, seed=np.random.default_rng(test_seed))
    pool = CandidatePool.from_base(["LIN", "PER", "SE"], dimension=1, interactions=True)
    model = EvolutionModel(pilot, pool, priors.synthetic(), feedback=feedback or "cut")
    sampler = {"draws": draws, "tune": tune, "chains": chains, "cores": cores, "random_seed": seed}
    with folders.results(out, overwrite, written=RESULTS) as folder:
        screen.study(pilot, pool)
        with closing(make_executor(cores, at_most=chains)) as executor:
            step = models.ready(model, executor)
            with noticing_interruption():
                runs = models.sample_all(
                    model, step, sampler, folder / "run", executor, screen.info
                )
                learned = learning.write(runs, folder, out)
        shutil.rmtree(folder / "run")
        selectors: dict[str, Selector] = {
            "KEM": KEMSelector(learned),
            "ARD, maximum likelihood": ARDSelector(1),
            "ARD, MAP": ARDSelector(1, "map", priors=priors.synthetic()),
        }
        trajectories = {
            method: select_online(selector, test, f"Selecting kernels: {method}")
            for method, selector in selectors.items()
        }
        kem = trajectories["KEM"]
        frames = [
            selection.to_frame().assign(user=user, time_step=step, n_points=len(selection.y))
            for user, selections in kem.items()
            for step, selection in enumerate(selections)
        ]
        index = ["user", "time_step", "n_points", "composition"]
        selected = pd.concat(frames).set_index(index).reset_index()  # these columns come first
        folders.write_table(selected, folder / "selections.csv")
        folders.write_table(predictions(kem, test), folder / "predictions.csv")
    screen.heading("Kernels selected for new users, and the true ones")
    true = zip(test.users, test.truth.compositions, strict=True)
    screen.paths(
        {f"{user}: {named(kernel, test.features)}": kem[user] for user, kernel in true},
        test.features,
    )
    by_method = {m: scores(paths, test, "truth") for m, paths in trajectories.items()}
    table = pd.concat(by_method, names=["method"]).groupby(["method", "points"], sort=False)
    # A single user with bad predictions changes the mean, but hardly the median.
    for average in ("mean", "median"):
        frame = table["log_likelihood"].agg(average).unstack("points")
        title = "over users of the log likelihood of a test point, by points seen"
        screen.tables({f"{average.title()} {title}": frame})
    screen.info(f"Results are in {out}.")
    outcome = runs[models.MAIN]
    for failure in outcome.failures:
        screen.warn(f"The results lack a chain: {failure}. They are based on the other chains.")
    if outcome.interrupted:
        screen.warn("Sampling was interrupted. The results are based on the draws so far.")
        raise typer.Exit(130)
