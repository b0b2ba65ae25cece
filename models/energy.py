"""UCI Energy: the heating load of buildings (paper, table 1 and section 10.2).

Users are made of random buildings: 15 of 50 buildings each, who get 5 buildings at every one of 10
time steps. 7 are pilot users, 8 test users.

    kem fit models/energy.py --out energy
    kem select models/energy.py --evolutions energy/evolutions.json
"""

import kem_pymc as kem

# Data: 8 features of a building, and heating load (kWh/m^2). The model scales features to [0, 1]
# and standardises the target, with the pilot users' ranges only.
cohort, test = kem.datasets.energy(seed=0)

# Candidates (16): LIN on every feature, SE on all but the binary height (4), and ARD, to be
# compared with. No PER: no feature has more than 12 distinct values.
pool = kem.CandidatePool(
    [
        *("LIN0", "LIN1", "LIN2", "LIN3", "LIN4", "LIN5", "LIN6", "LIN7"),
        *("SE0", "SE1", "SE2", "SE3", "SE5", "SE6", "SE7"),
        "ARD",
    ],
    dimension=8,
)

# Priors (paper, 10.2.5): lengthscales near a fifth of a feature's range; vague amplitudes; shifts
# near zero; noise expected to be large where the parent composition is small. A candidate of the
# parent composition stays with probability 0.9; others enter with 0.1, products with 0.02.
priors = kem.priors.paper()

# Model: one Dirichlet process of next kernels below every parent composition, with concentration 1;
# no kernel looks at later data (cut).
model = kem.EvolutionModel(cohort, pool, priors, concentration=1.0, feedback="cut", shared=None)

# Sampler: independent chains with draws to settle (tune) and to keep.
sampler = {"draws": 200, "tune": 200, "chains": 4, "random_seed": 0}
