"""Priors of one's own: the synthetic study with shifts, amplitudes and lengthscales less certain.

The paper's table expects shifts within 0.2 of zero, while those behind the data are near 5. Here
shifts may lie anywhere near the data, the standard deviation of a component has a half-Student-t
prior, as is usual for scales (Gelman 2006), and lengthscales have a hierarchical one, whose median
and spread are learned.

    kem fit models/extending_priors.py --out wider
    kem select models/extending_priors.py --evolutions wider/evolutions.json
"""

import pymc as pm
import pytensor.tensor as pt

import kem_pymc as kem

# Data: 10 pilot users and 50 test users with 5 points at each of 6 time steps, uniform on [0, 20],
# noise of variance 0.5; half of the functions are LIN0 + PER0, half SE0. Used as they are.
cohort = kem.datasets.synthetic(users=10, time_steps=6, seed=0)
test = kem.datasets.synthetic(users=50, time_steps=6, seed=1)

# Candidates (8): LIN, PER and SE, and their products up to the second degree, among them the truth;
# SE0 x SE0 is SE0 again.
pool = kem.CandidatePool.from_base(["LIN", "PER", "SE"], dimension=1, interactions=True)


# Amplitudes are variances. Their root, a component's standard deviation, is half-Student-t.
def half_t_variance(nu, scale, size):
    return pt.sqr(pm.HalfStudentT.dist(nu, scale, size=size))


# Logs of lengthscales are normal over clusters, around a mean and with a spread that all clusters
# share: they are sampled with everything else, and az.summary and kem diagnose tell of them.
typical = kem.population_parameter("typical_log_lengthscale", pm.Normal.dist(0, 1))
spread = kem.population_parameter("spread_of_lengthscales", pm.HalfNormal.dist(1))

# Priors: the paper's but for these three, of which each applies to all kernels that have it.
priors = kem.priors.synthetic().replace(
    shift=pm.Normal.dist(5, 5),
    amplitude=pm.CustomDist.dist(3.0, 2.0, dist=half_t_variance, class_name="HalfStudentTSquared"),
    lengthscale=pm.LogNormal.dist(typical, spread),
)

# Model: one Dirichlet process of next kernels below every parent composition, with concentration 1;
# no kernel looks at later data (cut).
model = kem.EvolutionModel(cohort, pool, priors, concentration=1.0, feedback="cut", shared=None)

# Sampler: independent chains with draws to settle (tune) and to keep.
sampler = {"draws": 300, "tune": 300, "chains": 4, "random_seed": 0}
