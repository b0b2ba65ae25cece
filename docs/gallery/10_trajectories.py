"""
Kernels in turn
===============

Which kernel each new user had at each time step.
"""

import kem_pymc as kem

learned = kem.Evolutions.load("evolutions.json")  # of the first example
test = kem.datasets.synthetic(users=10, time_steps=4, seed=8)
kem.plots.trajectories(kem.select_online(kem.KEMSelector(learned), test))
