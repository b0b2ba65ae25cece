"""Commands of the ``kem`` command-line program, one module each, and their shared functions."""
