"""
A new user, with few data and more
==================================

A kernel is selected at every time step; bands are wide where it knows little. The line is the true function.
"""

import kem_pymc as kem

learned = kem.Evolutions.load("evolutions.json")  # of the first example
test = kem.datasets.synthetic(users=2, time_steps=6, seed=7)
trajectories = kem.select_online(kem.KEMSelector(learned), test)
selections = trajectories[test.users[0]]
truth = (test.truth.x_test, test.truth.f_test[0])
kem.plots.few_and_many([selections[0], selections[-1]], truth=truth, study=test)
