"""MIMIC-III demo: the plateau pressure of ventilated patients (paper, sections 7.2 and 10.2).

These are open data of 100 patients instead of the paper's data, which need credentials. Users are
ICU stays instead of diagnoses, and hypotension replaces vasopressors. To run the paper's study with
your own files, use loaders.mimic(seed=0, callback=print) below, with the same candidates.

    kem fit models/mimic.py --out mimic
    kem select models/mimic.py --evolutions mimic/evolutions.json
"""

import kem_pymc as kem
from loaders import mimic_demo

# Data: 13 vital signs and ventilator settings, and whether blood pressure is low; the target is
# plateau pressure (cmH2O). Stays have at least 30 readings, 10 at every time step. The model scales
# features to [0, 1] and standardises the target, based on the pilot users' data only.
cohort, test = mimic_demo(seed=0, by="stay")

# Candidates (50): LIN on every feature; SE on every feature except hypotension (13), which is
# binary; PER on the same features except those that are set at the ventilator; products of
# hypotension with a smooth function of every other feature, as the paper has products of
# vasopressors; and ARD, for comparison.
features = range(14)
settings = (1, 2, 5, 6)
pool = kem.CandidatePool(
    [
        *(f"LIN{i}" for i in features),
        *(f"PER{i}" for i in features if i not in (*settings, 13)),
        *(f"SE{i}" for i in features if i != 13),
        *(f"LIN13 x SE{i}" for i in features if i != 13),
        "ARD",
    ],
    dimension=14,
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
