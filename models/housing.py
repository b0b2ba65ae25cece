"""UCI Housing: the price of homes in Boston (paper, table 1 and section 10.2).

Users are made of random tracts: 10 of 50 tracts each, who get 5 tracts at every one of 10 time
steps. 5 are pilot users, 5 test users.

    kem fit models/housing.py --out housing
    kem select models/housing.py --evolutions housing/evolutions.json
"""

import kem_pymc as kem

# Data: 13 features of a tract, and its median price (1000 USD). The model scales features to [0, 1]
# and standardises the target, with the pilot users' ranges only.
cohort, test = kem.datasets.housing(seed=0)

# Candidates (38): LIN on every feature; PER and SE on all but CHAS (3, the river, which is binary,
# so that a line says all); and ARD, to be compared with.
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

# Priors (paper, 10.2.5): lengthscales and periods near a fifth of a feature's range; vague
# amplitudes; shifts near zero; noise expected to be large where the parent composition is small. A
# candidate of the parent composition stays with probability 0.9; others enter with 0.1, products
# with 0.02.
priors = kem.priors.paper()

# Model: one Dirichlet process of next kernels below every parent composition, with concentration 1;
# no kernel looks at later data (cut).
model = kem.EvolutionModel(cohort, pool, priors, concentration=1.0, feedback="cut", shared=None)

# Sampler: independent chains with draws to settle (tune) and to keep.
sampler = {"draws": 200, "tune": 200, "chains": 4, "random_seed": 0}
