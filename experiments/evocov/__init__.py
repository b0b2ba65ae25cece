"""Kernels evolved from elementary expressions, as in the paper on EvoCov."""
