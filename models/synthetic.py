"""The synthetic study (paper, sections 7.1 and 10.2).

The functions of half of the users are drawn from a GP with kernel LIN0 + PER0, those of the others
from one with SE0. Points are uniform on [0, 20] and arrive in batches of 5.

    kem fit models/synthetic.py --out synthetic
    kem select models/synthetic.py --evolutions synthetic/evolutions.json
"""

import kem_pymc as kem

# Data: 10 pilot users and 50 test users, 6 time steps, noise of variance 0.5. The model sees inputs
# and targets as they are, because the priors were made for this range.
cohort = kem.datasets.synthetic(users=10, time_steps=6, seed=0)
test = kem.datasets.synthetic(users=50, time_steps=6, seed=1)

# Candidates (8): LIN, PER and SE, and their products up to the second degree, among them the truth;
# SE0 x SE0 is SE0 again.
pool = kem.CandidatePool(
    [
        *("LIN0", "PER0", "SE0"),
        *("LIN0 x LIN0", "LIN0 x PER0", "LIN0 x SE0", "PER0 x PER0", "PER0 x SE0"),
    ]
)

# Priors (paper, 10.2.5): periods near 5, shifts near 0 (the true ones are near 5), vague
# lengthscales and amplitudes; noise expected to be large where the parent composition is small. A
# candidate of the parent composition stays with probability 0.9; others enter with 0.1, products
# with 0.02.
priors = kem.priors.synthetic()

# Model: one Dirichlet process of next kernels below every parent composition, with concentration 1;
# no kernel looks at later data (cut).
model = kem.EvolutionModel(cohort, pool, priors, concentration=1.0, feedback="cut", shared=None)

# Sampler: independent chains with draws to settle (tune) and to keep.
sampler = {"draws": 300, "tune": 300, "chains": 4, "random_seed": 0}
