"""MIMIC-III demo: the plateau pressure of ventilated patients (paper, sections 7.2 and 10.2).

Open data of 100 patients stand in for the paper's, which take credentials: users are ICU stays, not
diagnoses, and hypotension stands in for vasopressors. For the paper's study with your own files,
write kem.datasets.mimic(seed=0, tell=print) below; the candidates stay the same.

    kem fit models/mimic.py --out mimic
    kem select models/mimic.py --evolutions mimic/evolutions.json
"""

import kem_pymc as kem

# Data: 13 vitals and ventilator settings and whether blood pressure is low; plateau pressure
# (cmH2O). Stays of 30 readings or more, 10 at every time step. The model scales features to [0, 1]
# and standardises the target, with the pilot users' ranges only.
cohort, test = kem.datasets.mimic_demo(seed=0, by="stay")

# Candidates (50): LIN on every feature, SE on all but hypotension (13, binary), PER on those that
# aren't set at the ventilator; products of hypotension with a smooth function of every other
# feature, since the paper has those of vasopressors; and ARD, to be compared with.
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
