"""User-defined priors: the synthetic study with wider priors of three hyperparameters.

The paper's priors expect shifts within 0.2 of zero, while the true shifts are near 5. Here shifts
may lie anywhere near the data, the standard deviation of a component has a half-Student-t prior, as
is usual for scales (Gelman 2006), and lengthscales have a hierarchical prior, whose median and
spread are learned.

    kem fit models/extending_priors.py --out wider
    kem select models/extending_priors.py --evolutions wider/evolutions.json
"""

import pymc as pm
import pytensor.tensor as pt

import kem_pymc as kem

# Data: 10 pilot users and 50 test users with 5 points at each of 6 time steps, uniform on [0, 20],
# and noise of variance 0.5. The kernel of half of the functions is LIN0 + PER0, of the others SE0.
# The model doesn't scale these data.
cohort = kem.datasets.synthetic(users=10, time_steps=6, seed=0)
test = kem.datasets.synthetic(users=50, time_steps=6, seed=1)

# Candidates (8): LIN, PER and SE, which make up the true kernels, and their products of two
# factors. SE0 x SE0 is left out, since it is SE0 again.
pool = kem.CandidatePool.from_base(["LIN", "PER", "SE"], dimension=1, interactions=True)


# Amplitudes are variances. Their square root, the standard deviation of a component, has a
# half-Student-t prior.
def half_t_variance(nu, scale, size):
    return pt.sqr(pm.HalfStudentT.dist(nu, scale, size=size))


# Log lengthscales of the clusters have a normal distribution, whose mean and standard deviation are
# shared by all clusters. These two are sampled with all other quantities; az.summary and
# kem diagnose report them.
typical = kem.population_parameter("typical_log_lengthscale", pm.Normal.dist(0, 1))
spread = kem.population_parameter("spread_of_lengthscales", pm.HalfNormal.dist(1))

# Priors: the paper's, except for these three hyperparameters. Each prior applies to all kernels
# that have the hyperparameter.
priors = kem.priors.synthetic().replace(
    shift=pm.Normal.dist(5, 5),
    amplitude=pm.CustomDist.dist(3.0, 2.0, dist=half_t_variance, class_name="HalfStudentTSquared"),
    lengthscale=pm.LogNormal.dist(typical, spread),
)

# Model: one Dirichlet process over next kernels for every parent composition, with concentration 1;
# later data don't influence earlier kernels (cut).
model = kem.EvolutionModel(cohort, pool, priors, concentration=1.0, feedback="cut")

# Sampler: arguments of pm.sample (draws, tuning draws, independent chains, random seed).
sampler = {"draws": 300, "tune": 300, "chains": 4, "random_seed": 0}
