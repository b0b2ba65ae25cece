"""Loaders of seven longitudinal tables of R, with time as the only feature.

Each loader reads one CSV file from the folder ``longitudinal`` of the data home and splits the
users at random into pilot and test users. By default every row is a time step.
"""

import numpy as np

from kem_pymc.data.datasets import Split
from kem_pymc.data.datasets.files import Folder, read_csv

from .split import Seed, split_table

SOURCE = "https://github.com/vincentarelbundock/Rdatasets"


def sleepstudy(data_home: Folder = None, seed: Seed = 0, *, batch: int = 1) -> Split:
    """Load the sleep deprivation study: 18 users of 10 days, 9 of them pilot users.

    The target is ``Reaction`` (mean reaction time in ms) by ``Days`` of restricted sleep (Belenky
    et al., 2003; lme4). File ``longitudinal/sleepstudy.csv``, with columns Subject, Days, Reaction.

    Parameters
    ----------
    data_home : path, optional
        Folder of the data files, see :func:`kem_pymc.data.datasets.data_home`.
    seed : int or Generator
        Seed of the random choice of pilot users.
    batch : int
        Number of rows per time step.

    Raises
    ------
    DataFileNotFoundError
        If the file isn't there.
    InputError
        If the file lacks columns, has missing values, or has text instead of numbers.
    """
    return _load("sleepstudy.csv", "Subject", "Days", "Reaction", data_home, seed, batch)


def chick_weight(data_home: Folder = None, seed: Seed = 0, *, batch: int = 1) -> Split:
    """Load the growth of chicks: 50 users of 2 to 12 weighings, 25 of them pilot users.

    The target is ``weight`` (g) by ``Time`` (days since birth); the four diets aren't a feature
    (Crowder and Hand, 1990). File ``longitudinal/ChickWeight.csv``, with columns Chick, Time,
    weight. Parameters and errors are those of :func:`sleepstudy`.
    """
    return _load("ChickWeight.csv", "Chick", "Time", "weight", data_home, seed, batch)


def orthodont(data_home: Folder = None, seed: Seed = 0, *, batch: int = 1) -> Split:
    """Load the orthodontic growth of children: 27 users of 4 visits, 13 of them pilot users.

    The target is ``distance`` (mm, from the pituitary to the pterygomaxillary fissure) by ``age``
    in years; sex isn't a feature (Potthoff and Roy, 1964; nlme). File
    ``longitudinal/Orthodont.csv``, with columns Subject, age, distance. Parameters and errors are
    those of :func:`sleepstudy`.
    """
    return _load("Orthodont.csv", "Subject", "age", "distance", data_home, seed, batch)


def theoph(data_home: Folder = None, seed: Seed = 0, *, batch: int = 1) -> Split:
    """Load the kinetics of theophylline: 12 users of 11 samples, 6 of them pilot users.

    The target is ``conc`` (mg/l in serum) by ``Time`` (hours since the dose); weight and dose
    aren't features (Boeckmann, Sheiner and Beal, 1994). File ``longitudinal/Theoph.csv``, with
    columns Subject, Time, conc. Parameters and errors are those of :func:`sleepstudy`.
    """
    return _load("Theoph.csv", "Subject", "Time", "conc", data_home, seed, batch)


def body_weight(data_home: Folder = None, seed: Seed = 0, *, batch: int = 1) -> Split:
    """Load the growth of rats: 16 users of 11 weighings, 8 of them pilot users.

    The target is ``weight`` (g) by ``Time`` in days; the three diets aren't a feature (Crowder and
    Hand, 1990; nlme). File ``longitudinal/BodyWeight.csv``, with columns Rat, Time, weight.
    Parameters and errors are those of :func:`sleepstudy`.
    """
    return _load("BodyWeight.csv", "Rat", "Time", "weight", data_home, seed, batch)


def oxboys(data_home: Folder = None, seed: Seed = 0, *, batch: int = 1) -> Split:
    """Load the growth of boys in Oxford: 26 users of 9 visits, 13 of them pilot users.

    The target is ``height`` (cm) by ``age`` (standardised; Goldstein, 1987; nlme). File
    ``longitudinal/Oxboys.csv``, with columns Subject, age, height. Parameters and errors are those
    of :func:`sleepstudy`.
    """
    return _load("Oxboys.csv", "Subject", "age", "height", data_home, seed, batch)


def pbcseq(data_home: Folder = None, seed: Seed = 0, *, batch: int = 1) -> Split:
    """Load patients with biliary cirrhosis: 285 users of 2 to 16 visits, 142 of them pilot users.

    The target is the logarithm of ``bili`` (serum bilirubin in mg/dl) by ``day`` since the first
    visit; visits are irregular (Murtaugh et al., 1994; survival). File ``longitudinal/pbcseq.csv``,
    with columns id, day, bili. Parameters and errors are those of :func:`sleepstudy`.
    """
    return _load("pbcseq.csv", "id", "day", "bili", data_home, seed, batch, log=True)


def _load(
    name: str,
    user: str,
    time: str,
    target: str,
    data_home: Folder,
    seed: Seed,
    batch: int,
    *,
    log: bool = False,
) -> Split:
    table = read_csv(
        f"longitudinal/{name}",
        data_home,
        source=SOURCE,
        columns=(user, time, target),
        numbers=(time, target),
        complete=True,
    )
    if log:
        table[target] = np.log(table[target])
    rows = table.sort_values([user, time], kind="stable")
    return split_table(
        rows, user=user, features=(time,), target=target, batch=batch, minimum=2, seed=seed
    )
