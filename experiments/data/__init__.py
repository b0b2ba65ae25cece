"""Data of the figures: loaders of files that the user supplies, and simulators."""
