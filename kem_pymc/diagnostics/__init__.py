"""Diagnostics and summaries of posteriors: agreement of chains, results, and stacking of chains."""
