"""UCI Concrete: the strength of concrete (paper, table 1 and section 10.2).

A user is a set of 50 random mixtures, 5 at each of 10 time steps. There are 10 pilot users and 10
test users.

    kem fit models/concrete.py --out concrete
    kem select models/concrete.py --evolutions concrete/evolutions.json
"""

import kem_pymc as kem
from loaders import concrete

# Data: the features are 7 ingredients of a mixture and its age, the target is its compressive
# strength (MPa). The model scales features to [0, 1] and standardises the target, based on the
# pilot users' data only.
cohort, test = concrete(seed=0)

# Candidates (39): LIN, PER and SE on every feature; products of the amount of cement (0) and of the
# age (7), on which strength is known to depend most, with a smooth function of every other feature;
# and ARD, for comparison.
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
