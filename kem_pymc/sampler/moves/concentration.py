"""Gibbs update of the concentration alpha by auxiliary variables (Escobar and West 1995).

All processes have the same alpha. Given the assignments, it depends only on the numbers of clusters
and members of every process. Its conditional is that of Teh, Jordan, Beal, Blei (2006, appendix A),
for processes P with N_P > 0 members and C_P clusters:

    p(alpha | .) ~ Gamma(alpha; a, b) prod_P alpha^{C_P} Gamma(alpha) / Gamma(alpha + N_P).

Every ratio of gamma functions is an integral over w_P in (0, 1) and a sum over s_P in {0, 1}. With
these as auxiliary variables,

    w_P ~ Beta(alpha + 1, N_P),     s_P ~ Bernoulli(N_P / (N_P + alpha)),
    alpha ~ Gamma(a + sum_P (C_P - s_P), b - sum_P log w_P).
"""

import math

from kem_pymc._system.jit.decorators import compiled
from kem_pymc.sampler.joint_density import draw_gamma
from kem_pymc.sampler.state import change_concentration


@compiled
def redraw_concentration(model, state, rng):
    """Draw a learned alpha from its conditional given the assignments."""
    alpha = state.concentration[0]
    shape = model.concentration_shape + state.sizes[0]
    rate = model.concentration_rate
    for p in range(state.used.shape[0]):
        members = float(state.members[p])
        if members > 0.0:
            shape -= rng.random() < members / (members + alpha)
            rate -= math.log(rng.beta(alpha + 1.0, members))
    change_concentration(model, state, draw_gamma(shape, rate, rng))
