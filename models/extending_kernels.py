"""A user-defined base kernel: the synthetic study with a sinusoid among the candidates.

PER repeats a function of any shape. A sinusoid, COS, has one hyperparameter less and may be enough
while there are few points. The learned evolutions show how probable COS is at first, and whether
users then change to PER.

    kem fit models/extending_kernels.py --out sinusoids
    kem select models/extending_kernels.py --evolutions sinusoids/evolutions.json
    kem diagnose sinusoids --study models/extending_kernels.py
"""

import math

import pymc as pm
import pytensor.tensor as pt

import kem_pymc as kem


# Kernel: cos(2 pi (x - z) / period), the covariance of sinusoids of one period whose phase is
# uniform. Values, gradients and compiled code are derived from one PyTensor expression of two
# inputs; kem.kernels.check_kernel("COS") compares them, and checks symmetry and eigenvalues.
def cosine(x, z, period):
    return pt.cos(2 * math.pi * (x - z) / period)


kem.register_kernel(
    kem.kernels.BaseKernel(
        "COS",
        ("period",),
        cosine,
        phrase="a sinusoid in {feature}",  # its description in reports
        detail="repeating every {period}",
    )
)

# Data: 10 pilot users and 50 test users with 5 points at each of 6 time steps, uniform on [0, 20],
# and noise of variance 0.5. The kernel of half of the functions is LIN0 + PER0, of the others SE0.
# The model doesn't scale these data.
cohort = kem.datasets.synthetic(users=10, time_steps=6, seed=0)
test = kem.datasets.synthetic(users=50, time_steps=6, seed=1)

# Candidates: the base kernels, and COS with an amplitude that grows (times LIN0) or fades (SE0).
pool = kem.CandidatePool(["LIN0", "PER0", "SE0", "COS0", "COS0 x LIN0", "COS0 x SE0"])

# Priors: those of the synthetic study. The period of COS is near 5, like that of PER, but with a
# wider prior.
priors = kem.priors.synthetic().replace({"COS.period": pm.LogNormal.dist(math.log(5), 0.5)})

# Model: one Dirichlet process over next kernels for every parent composition, with concentration 1;
# later data don't influence earlier kernels (cut).
model = kem.EvolutionModel(cohort, pool, priors, concentration=1.0, feedback="cut")

# Sampler: arguments of pm.sample (draws, tuning draws, independent chains, random seed).
sampler = {"draws": 300, "tune": 300, "chains": 4, "random_seed": 0}
