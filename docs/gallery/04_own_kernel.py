"""
A kernel of your own
====================

One PyTensor expression. This one is a bell that is wide open around noon: functions that live during the day.
"""

import matplotlib.pyplot as plt
import numpy as np
import pytensor.tensor as pt

import kem_pymc as kem


def day(x, z, width):
    return pt.exp(-((x - 12) ** 2 + (z - 12) ** 2) / width**2)


kem.register_kernel(kem.kernels.BaseKernel("DAY", ("width",), day))

hours = np.linspace(0, 24, 300)
name = "DAY0 x SE0"
values = {
    f"{name}.amplitude": 1,
    f"{name}.DAY0.width": 5,
    f"{name}.SE0.lengthscale": 2,
}
_, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(hours, kem.gp.draw_functions(name, hours, values, 4, rng=1).T)
ax.set(xlabel="hour", title=name)
