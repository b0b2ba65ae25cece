"""What ``kem doctor`` looks at, one finding each."""
