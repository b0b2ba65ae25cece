"""
KEM beside a two-level process
==============================

How well each method predicted what came next, by time step, with intervals over users. On a table of your own it is ``kem compare``.
"""

import pandas as pd

import kem_pymc as kem

learned = kem.Evolutions.load("evolutions.json")  # of the first example
pilot = kem.datasets.synthetic(users=8, time_steps=4, seed=0)
test = kem.datasets.synthetic(users=12, time_steps=4, seed=9)
methods = {
    "KEM": kem.KEMSelector(learned),
    "two-level": kem.TwoLevelSelector.learn(pilot, scaling=learned.scaling),
}
table = pd.concat(
    kem.scores(kem.select_online(selector, test), test).assign(method=name)
    for name, selector in methods.items()
)
kem.plots.log_likelihood(table, value="log_likelihood", unit="user")
