"""Decisions with decomposed feedback, as in the paper on D-GPUCB."""
