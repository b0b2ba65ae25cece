"""Optimisers of functions that follow each other, as in the paper on LBO."""
