"""
Who shares a kernel
===================

The probability that two datasets are in one cluster, ordered by similarity.
"""

import xarray as xr

import kem_pymc as kem

idata = xr.open_datatree("posterior.zarr", engine="zarr")  # of the first example
kem.plots.co_clustering(idata, order="similarity")
