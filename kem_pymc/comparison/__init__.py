"""Comparison of methods of kernel selection on random splits of users."""
