"""The papers' experiments: methods x data sets x trials, from data to figures."""
