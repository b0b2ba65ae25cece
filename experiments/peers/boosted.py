"""GPBoost: boosted trees as the mean of a mixed model (Sigrist 2022)."""

import logging
from typing import Any

import numpy as np

from experiments.peers.forecast import Pilots
from experiments.peers.joint import Fitted, Joint

#: Grid of tuning parameters of the package's guide, of which some are tried; most trees, and rounds
#: without a gain after which no more are added; folds of users.
GRID = {
    "learning_rate": [1, 0.1, 0.01],
    "min_data_in_leaf": [1, 10, 100],
    "max_depth": [1, 3, 5, 10],
}
TRIED, TREES, PATIENCE, FOLDS = 12, 1000, 10, 4

#: Takes what the package has to say of every fit of the cross-validation.
SILENT = logging.getLogger("experiments.peers.boosted")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False


def boosted_trees(pilots: Pilots, seed: int) -> Fitted:
    """Fit GPBoost to pilot users' rows: trees, and an intercept and a slope for each user.

    Slopes are those of the first feature (the time, if there is one). Parameters of the trees and
    their number are chosen by cross-validation over users, as the authors recommend.
    """
    import gpboost as gpb

    gpb.register_logger(SILENT)
    users, first = pilots.users, pilots.x[:, :1]
    count = int(users.max()) + 1

    def model() -> Any:
        return gpb.GPModel(
            group_data=users,
            group_rand_coef_data=first,
            ind_effect_group_rand_coef=[1],
            likelihood="gaussian",
            num_parallel_threads=1,
        )

    fold = np.random.default_rng(seed).permutation(count) % min(FOLDS, count)
    folds = [
        (np.flatnonzero(fold[users] != k), np.flatnonzero(fold[users] == k))
        for k in range(min(FOLDS, count))
    ]
    fixed = {"objective": "regression_l2", "verbose": -1, "num_threads": 1, "num_leaves": 2**10}
    rows = gpb.Dataset(pilots.x, pilots.y, free_raw_data=False)
    best = gpb.grid_search_tune_parameters(
        param_grid=GRID,
        params=dict(fixed),
        num_try_random=TRIED,
        folds=folds,
        gp_model=model(),
        use_gp_model_for_validation=True,
        train_set=rows,
        num_boost_round=TREES,
        early_stopping_rounds=PATIENCE,
        verbose_eval=0,
        metric="test_neg_log_likelihood",
        seed=seed,
    )
    own = model()
    trees = gpb.train(
        params=fixed | best["best_params"],
        train_set=gpb.Dataset(pilots.x, pilots.y),
        gp_model=own,
        num_boost_round=best["best_iter"],
    )
    noise, level, slope = np.asarray(own.get_cov_pars()).ravel()[:3]

    def joint(x: np.ndarray) -> Joint:
        mean = trees.predict(data=x, ignore_gp_model=True)
        covariance = level + slope * np.outer(x[:, 0], x[:, 0])
        return Joint(np.asarray(mean), covariance + noise * np.eye(len(x)))

    return joint
