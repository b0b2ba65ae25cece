"""HeartSteps daily steps: a wristband's steps from the phone and the day (see paper, section 7.2).

Not the paper's data: its target is daily active minutes, of 37 users. With the authors' files,
write kem.datasets.heartsteps(seed=0, tell=print) and kem.datasets.candidates("heartsteps") below.

    kem fit models/heartsteps.py --out heartsteps
    kem select models/heartsteps.py --evolutions heartsteps/evolutions.json
"""

import kem_pymc as kem

# Data: 17 features of a day, and the square root of its steps, of users with 10 days or more; 5
# days at every time step. The model scales features to [0, 1] and standardises the target, with the
# pilot users' ranges only.
cohort, test = kem.datasets.heartsteps_daily(seed=0)

# Candidates (73): LIN on every feature; PER and SE on the 12 that aren't binary; products of travel
# (12) and weekend (13), known to change how active a day is, with every other feature, smooth or,
# where it is binary, linear; and ARD, to be compared with.
numbers = range(12)
pool = kem.CandidatePool(
    [
        *(f"LIN{i}" for i in range(17)),
        *(f"{base}{i}" for base in ("PER", "SE") for i in numbers),
        *(f"LIN{flag} x SE{i}" for flag in (12, 13) for i in numbers),
        *(f"LIN{flag} x LIN{i}" for flag in (12, 13) for i in (14, 15, 16)),
        "LIN12 x LIN13",
        "ARD",
    ],
    dimension=17,
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
