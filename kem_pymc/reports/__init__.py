"""One HTML file on a study: what was learned, from whom, and whether it may be trusted."""
