"""The sampler: its state, the joint density, and one module per move."""
