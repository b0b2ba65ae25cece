"""
What a prediction is made of
============================

The contribution of each part of the selected kernel, with its share of the variance.
"""

import kem_pymc as kem

learned = kem.Evolutions.load("evolutions.json")  # of the first example
test = kem.datasets.synthetic(users=1, time_steps=6, seed=7)
selector = kem.KEMSelector(learned)
kem.plots.components(selector.select(test.inputs[0], test.targets[0]), study=test)
