"""The Indian buffet process and its variational approximation (Zhang et al. 2019, section 2.2).

The probability that a task uses network m is ``pi_m = v_1 ... v_m`` with ``v_k ~ Beta(alpha, 1)``;
alpha is the expected number of networks that a task uses. Whether it uses one is approximated by a
Binary Concrete variable with odds gamma, ``z = sigmoid((log gamma + log u - log(1 - u)) / tau)``.
In the paper's equation 7 both logs of u have the same sign, which isn't a sample of equation 6.
"""

from typing import Any

import numpy as np
import pytensor.tensor as pt

#: Temperature tau of Binary Concrete variables.
TEMPERATURE = 0.1


def logit_sample(log_odds: Any, uniform: Any) -> Any:
    """Return the logits of Binary Concrete samples for uniform variates, as an expression."""
    return (log_odds + pt.log(uniform) - pt.log1p(-uniform)) / TEMPERATURE


def log_density(logit: Any, log_odds: Any) -> Any:
    """Return log densities of the logits of Binary Concrete variables, as an expression."""
    spread = log_odds - TEMPERATURE * logit
    return np.log(TEMPERATURE) + spread - 2.0 * pt.softplus(spread)


def prior_log_odds(uniform: Any, alpha: float) -> Any:
    """Return log odds of sampled probabilities pi for uniform variates (S, M), as an expression.

    A uniform variate to the power of 1 / alpha has the distribution Beta(alpha, 1).
    """
    log_pi = pt.cumsum(pt.log(uniform), axis=1) / alpha
    return log_pi - pt.log(-pt.expm1(log_pi))


def expected_log_odds(networks: int, alpha: float) -> np.ndarray:
    """Return the log odds (M,) of the expected probabilities ``(alpha / (1 + alpha))^m``."""
    pi = (alpha / (1.0 + alpha)) ** np.arange(1, networks + 1)
    return np.log(pi) - np.log1p(-pi)
