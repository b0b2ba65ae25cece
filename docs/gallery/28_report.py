"""
A report
========

One HTML file has the graph, kernels, predictions and diagnostics: `this one <../report.html>`__ is of the first example's run. Its
two short chains are drawn here as well.
"""

import xarray as xr

import kem_pymc as kem

idata = xr.open_datatree("posterior.zarr", engine="zarr")  # of the first example
kem.report(idata, "report.html", overwrite=True)
kem.plots.traces(idata)
