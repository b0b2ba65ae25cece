"""The synthetic study (paper, sections 7.1 and 10.2).

The functions of half of the users are drawn from a GP with kernel LIN0 + PER0, those of the other
half from a GP with kernel SE0. Points are uniform on [0, 20] and arrive in batches of 5.

    kem fit models/synthetic.py --out synthetic
    kem select models/synthetic.py --evolutions synthetic/evolutions.json
"""

import kem_pymc as kem

# Data: 10 pilot users and 50 test users, 6 time steps, noise of variance 0.5. The model doesn't
# scale inputs and targets, because the priors were made for this range.
cohort = kem.datasets.synthetic(users=10, time_steps=6, seed=0)
test = kem.datasets.synthetic(users=50, time_steps=6, seed=1)

# Candidates (8): LIN, PER and SE, which make up the true kernels, and their products of two
# factors. SE0 x SE0 is left out, since it is SE0 again.
pool = kem.CandidatePool(
    [
        *("LIN0", "PER0", "SE0"),
        *("LIN0 x LIN0", "LIN0 x PER0", "LIN0 x SE0", "PER0 x PER0", "PER0 x SE0"),
    ]
)

# Priors (paper, 10.2.5): periods near 5, shifts near 0 (the true shifts are near 5), vague
# lengthscales and amplitudes, and large noise where the parent composition has few candidates. A
# candidate of the parent composition stays in the child with probability 0.9; other candidates
# enter with probability 0.1, products with probability 0.02.
priors = kem.priors.synthetic()

# Model: one Dirichlet process over next kernels for every parent composition, with concentration 1;
# later data don't influence earlier kernels (cut).
model = kem.EvolutionModel(cohort, pool, priors, concentration=1.0, feedback="cut")

# Sampler: arguments of pm.sample (draws, tuning draws, independent chains, random seed).
sampler = {"draws": 300, "tune": 300, "chains": 4, "random_seed": 0}
