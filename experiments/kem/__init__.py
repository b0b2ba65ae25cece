"""Figures and tables of the paper on the Kernel Evolution Model."""
