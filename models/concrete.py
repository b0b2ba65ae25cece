"""UCI Concrete: the strength of concrete (paper, table 1 and section 10.2).

Users are made of random mixtures: 20 of 50 mixtures each, who get 5 mixtures at every one of 10
time steps. 10 are pilot users, 10 test users.

    kem fit models/concrete.py --out concrete
    kem select models/concrete.py --evolutions concrete/evolutions.json
"""

import kem_pymc as kem

# Data: 7 ingredients and the age of a mixture, and its compressive strength (MPa). The model scales
# features to [0, 1] and standardises the target, with the pilot users' ranges only.
cohort, test = kem.datasets.concrete(seed=0)

# Candidates (39): LIN, PER and SE on every feature; products for what concrete's strength is known
# to depend on most, the amount of cement (0) and the age (7), each times a smooth function of every
# other feature; and ARD, to be compared with.
features = range(8)
pool = kem.CandidatePool(
    [
        *(f"{base}{i}" for base in ("LIN", "PER", "SE") for i in features),
        *(f"LIN0 x SE{i}" for i in features if i != 0),
        *(f"LIN7 x SE{i}" for i in features if i != 7),
        "ARD",
    ],
    dimension=8,
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
