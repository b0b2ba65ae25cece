"""Searches for the kernels of single data sets, as in the paper on BOMS."""
