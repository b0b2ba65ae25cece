"""
Which parts a user's kernel has
===============================

The probability of each candidate by time step, for one pilot user: pale with few points, dark where data decide.
"""

import xarray as xr

import kem_pymc as kem

idata = xr.open_datatree("posterior.zarr", engine="zarr")  # of the first example
kem.plots.inclusion(idata, idata["posterior"]["user"].values[0])
