"""UCI Fires: fire weather in two regions of Algeria (paper, table 1 and section 10.2).

A user is a set of 30 random days in one region, 3 at each of 10 time steps. There are 4 pilot users
and 4 test users, 2 of each from either region.

    kem fit models/fires.py --out fires
    kem select models/fires.py --evolutions fires/evolutions.json
"""

import kem_pymc as kem
from loaders import fires

# Data: 9 features of a day; the target is a fire index, the Build Up Index in Bejaia and the
# Initial Spread Index in Sidi-Bel Abbes. The model scales features to [0, 1] and standardises the
# target, based on the pilot users' data only.
cohort, test = fires(seed=0, batch=3)

# Candidates (35): LIN and SE on every feature; PER on every feature except the month (1), since
# four summer months show no period; products of the wind speed (4), which is known to drive fires,
# with a smooth function of every other feature; and ARD, for comparison.
features = range(9)
pool = kem.CandidatePool(
    [
        *(f"LIN{i}" for i in features),
        *(f"PER{i}" for i in features if i != 1),
        *(f"SE{i}" for i in features),
        *(f"LIN4 x SE{i}" for i in features if i != 4),
        "ARD",
    ],
    dimension=9,
)

# Priors (paper, 10.2.5): lengthscales and periods near a fifth of a feature's range, vague
# amplitudes, shifts near zero, and large noise where the parent composition has few candidates. A
# candidate of the parent composition stays in the child with probability 0.9; other candidates
# enter with probability 0.1, products with probability 0.02.
priors = kem.priors.paper()

# Model: one Dirichlet process over next kernels for every parent composition, with concentration 1;
# later data don't influence earlier kernels (cut).
model = kem.EvolutionModel(cohort, pool, priors, concentration=1.0, feedback="cut")

# Sampler: arguments of pm.sample (draws, tuning draws, independent chains, random seed).
sampler = {"draws": 200, "tune": 200, "chains": 4, "random_seed": 0}
