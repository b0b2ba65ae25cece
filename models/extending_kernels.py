"""A base kernel of one's own: the synthetic study with a sinusoid among the candidates.

PER repeats a function of any shape. A sinusoid, COS, has one hyperparameter less and may do while
there are few points. Pilot users tell who begins with COS and whether they go on to PER.

    kem fit models/extending_kernels.py --out sinusoids
    kem select models/extending_kernels.py --evolutions sinusoids/evolutions.json
    kem diagnose sinusoids --study models/extending_kernels.py
"""

import math

import pymc as pm
import pytensor.tensor as pt

import kem_pymc as kem


# Kernel: cos(2 pi (x - z) / period), the covariance of sinusoids of one period whose phase is
# uniform. One PyTensor expression of two inputs gives values, gradients and compiled code;
# kem.check_kernel("COS") compares them, and looks at symmetry and eigenvalues.
def cosine(x, z, period):
    return pt.cos(2 * math.pi * (x - z) / period)


kem.register_kernel(
    kem.BaseKernel(
        "COS",
        ("period",),
        cosine,
        phrase="a sinusoid in {feature}",  # what reports call it
        detail="repeating every {period}",
    )
)

# Data: 10 pilot users and 50 test users with 5 points at each of 6 time steps, uniform on [0, 20],
# noise of variance 0.5; half of the functions are LIN0 + PER0, half SE0. Used as they are.
cohort = kem.datasets.synthetic(users=10, time_steps=6, seed=0)
test = kem.datasets.synthetic(users=50, time_steps=6, seed=1)

# Candidates: the base kernels, and COS under an envelope: growing, and fading.
pool = kem.CandidatePool(["LIN0", "PER0", "SE0", "COS0", "COS0 x LIN0", "COS0 x SE0"])

# Priors: those of the synthetic study. COS has periods near 5 like PER, less certain here.
priors = kem.priors.synthetic().replace({"COS.period": pm.LogNormal.dist(math.log(5), 0.5)})

# Model: one Dirichlet process of next kernels below every parent composition, with concentration 1;
# no kernel looks at later data (cut).
model = kem.EvolutionModel(cohort, pool, priors, concentration=1.0, feedback="cut", shared=None)

# Sampler: independent chains with draws to settle (tune) and to keep.
sampler = {"draws": 300, "tune": 300, "chains": 4, "random_seed": 0}
