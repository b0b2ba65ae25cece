"""UCI Fires: fire weather in two regions of Algeria (paper, table 1 and section 10.2).

Users are made of random days: 8 of 30 days each, 4 from either region, who get 3 days at every one
of 10 time steps. 4 are pilot users, 4 test users, half of them from either region.

    kem fit models/fires.py --out fires
    kem select models/fires.py --evolutions fires/evolutions.json
"""

import kem_pymc as kem

# Data: 9 features of a day, and a fire index: the Build Up Index in Bejaia, the Initial Spread
# Index in Sidi-Bel Abbes. The model scales features to [0, 1] and standardises the target, with the
# pilot users' ranges only.
cohort, test = kem.datasets.fires(seed=0, batch=3)

# Candidates (35): LIN and SE on every feature, PER on all but the month (1; four summer months show
# no period); products of the wind speed (4), known to drive fires, with a smooth function of every
# other feature; and ARD, to be compared with.
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
