"""UCI Housing: the price of homes in Boston (paper, table 1 and section 10.2).

A user is a set of 50 random census tracts, 5 at each of 10 time steps. There are 5 pilot users and
5 test users.

    kem fit models/housing.py --out housing
    kem select models/housing.py --evolutions housing/evolutions.json
"""

import kem_pymc as kem
from loaders import housing

# Data: 13 features of a tract; the target is its median price (1000 USD). The model scales features
# to [0, 1] and standardises the target, based on the pilot users' data only.
cohort, test = housing(seed=0)

# Candidates (38): LIN on every feature; PER and SE on every feature except CHAS (3, at the river or
# not), of which any function is linear because it is binary; and ARD, for comparison.
features = range(13)
pool = kem.CandidatePool(
    [
        *(f"LIN{i}" for i in features),
        *(f"PER{i}" for i in features if i != 3),
        *(f"SE{i}" for i in features if i != 3),
        "ARD",
    ],
    dimension=13,
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
