"""Experiments of the papers: methods are run on data sets and trials, and shown in figures."""
