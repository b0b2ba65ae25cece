"""
Do chains agree on the graph?
=============================

Each mark is what one chain says of an evolution. Marks far apart on a short bar mean that chains learned different graphs.
"""

import xarray as xr

import kem_pymc as kem

idata = xr.open_datatree("posterior.zarr", engine="zarr")  # of the first example
kem.plots.edges_by_chain(idata, max_edges=10)
