"""HTML report on a study: learned evolutions, users, predictions and diagnostics."""
