"""UCI Energy: the heating load of buildings (paper, table 1 and section 10.2).

A user is a set of 50 random buildings, 5 at each of 10 time steps. There are 7 pilot users and 8
test users.

    kem fit models/energy.py --out energy
    kem select models/energy.py --evolutions energy/evolutions.json
"""

import kem_pymc as kem
from loaders import energy

# Data: 8 features of a building; the target is its heating load (kWh/m^2). The model scales
# features to [0, 1] and standardises the target, based on the pilot users' data only.
cohort, test = energy(seed=0)

# Candidates (16): LIN on every feature; SE on every feature except the height (4), which is binary;
# and ARD, for comparison. There is no PER, since no feature has more than 12 distinct values.
pool = kem.CandidatePool(
    [
        *("LIN0", "LIN1", "LIN2", "LIN3", "LIN4", "LIN5", "LIN6", "LIN7"),
        *("SE0", "SE1", "SE2", "SE3", "SE5", "SE6", "SE7"),
        "ARD",
    ],
    dimension=8,
)

# Priors (paper, 10.2.5): lengthscales near a fifth of a feature's range, vague amplitudes, shifts
# near zero, and large noise where the parent composition has few candidates. A candidate of the
# parent composition stays in the child with probability 0.9; other candidates enter with
# probability 0.1, products with probability 0.02.
priors = kem.priors.paper()

# Model: one Dirichlet process over next kernels for every parent composition, with concentration 1;
# later data don't influence earlier kernels (cut).
model = kem.EvolutionModel(cohort, pool, priors, concentration=1.0, feedback="cut")

# Sampler: arguments of pm.sample (draws, tuning draws, independent chains, random seed).
sampler = {"draws": 200, "tune": 200, "chains": 4, "random_seed": 0}
