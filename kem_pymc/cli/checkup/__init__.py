"""Checks of ``kem doctor``, each of which fills in one finding."""
