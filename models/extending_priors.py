"""Priors of one's own: the synthetic study with shifts, amplitudes and lengthscales less certain.

The paper's table expects shifts within 0.2 of zero, while those behind the data are near 5, and
its log-normal priors give outlying amplitudes and lengthscales hardly any probability. Here every
entry is a PyMC distribution with wider or heavier tails.

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

# Candidates: LIN, PER and SE, and their products up to the second degree.
pool = kem.CandidatePool.from_base(["LIN", "PER", "SE"], dimension=1, interactions=True)


# An amplitude is a variance. Its root, a component's standard deviation, is half-Student-t.
def half_t_variance(nu, scale, size):
    return pt.sqr(pm.HalfStudentT.dist(nu, scale, size=size))


# The log of a lengthscale is normal with a variance of its own in every cluster, which follows an
# inverse gamma(nu / 2, nu s^2 / 2): without that variance, a Student t with nu degrees of freedom.
def hierarchical_lengthscale(nu, median, s, size):
    return pt.exp(pm.StudentT.dist(nu, pt.log(median), sigma=s, size=size))


# Priors: the paper's, but for these. Noise as in the paper, where the parent is small it is large.
priors = kem.priors.synthetic().replace(
    shift=pm.Normal.dist(5, 5),
    amplitude=pm.CustomDist.dist(3.0, 2.0, dist=half_t_variance, class_name="HalfStudentTSquared"),
    lengthscale=pm.CustomDist.dist(
        4.0, 1.0, 1.0, dist=hierarchical_lengthscale, class_name="ExpStudentT"
    ),
)

model = kem.EvolutionModel(cohort, pool, priors, concentration=1.0, feedback="cut")
sampler = {"draws": 300, "tune": 300, "chains": 4, "random_seed": 0}
