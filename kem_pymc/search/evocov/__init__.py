"""EvoCov: kernels evolved from elementary mathematical expressions (Roman et al. 2019).

A kernel is an expression tree of the primitives of table 2, to which white noise is added. Trees
aren't compiled: a compiled interpreter evaluates them, with gradients.
"""
