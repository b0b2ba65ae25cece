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

# Candidates (39): LIN, PER and SE on every feature; the amount of cement (0) and the age (7), each
# times a smooth function of every other feature; and ARD.
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

# Priors: lengthscales and periods of a fifth of a feature's range.
priors = kem.priors.unit_scale()

model = kem.EvolutionModel(cohort, pool, priors, concentration=1.0, feedback="cut")
sampler = {"draws": 200, "tune": 200, "chains": 4, "random_seed": 0}
