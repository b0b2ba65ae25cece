"""HeartSteps: a wristband's daily steps, predicted from phone and context (paper, section 7.2).

These are not the paper's data, whose target is the daily active minutes of 37 users. With the
authors' files, use loaders.heartsteps(seed=0, callback=print) and loaders.candidates("heartsteps")
below.

    kem fit models/heartsteps.py --out heartsteps
    kem select models/heartsteps.py --evolutions heartsteps/evolutions.json
"""

import kem_pymc as kem
from loaders import heartsteps_daily

# Data: 17 features of a day; the target is the square root of the number of steps. Users have at
# least 10 days, 5 at every time step. The model scales features to [0, 1] and standardises the
# target, based on the pilot users' data only.
cohort, test = heartsteps_daily(seed=0)

# Candidates (73): LIN on every feature; PER and SE on the 12 features that aren't binary; products
# of travel (12) and weekend (13), which are known to affect activity, with SE of every other
# feature or, if it is binary, with LIN; and ARD, for comparison.
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
