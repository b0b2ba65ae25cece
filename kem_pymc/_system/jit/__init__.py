"""How functions are compiled: the only package that knows Numba's private parts."""
