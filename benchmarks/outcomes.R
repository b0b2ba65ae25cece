# Fit a mixed model with a level of its own for every user: lme4's glmer (yes or no) and glmer.nb (counts),
# ordinal's clmm (levels, logit). IN.csv has columns y, user and x1, x2, ...; OUT.json has coefficients,
# the sd of users' levels, the size of the negative binomial distribution, and cut points.
#
#     Rscript benchmarks/outcomes.R binary|count|ordinal IN.csv OUT.json      (Debian: r-cran-{lme4,ordinal,jsonlite})

suppressMessages({library(lme4); library(ordinal); library(jsonlite)})
args <- commandArgs(trailingOnly = TRUE)
rows <- read.csv(args[2])
terms <- paste(setdiff(names(rows), c("y", "user")), collapse = " + ")
rows$user <- factor(rows$user)
if (args[1] == "ordinal") {
  rows$y <- factor(rows$y)
  fit <- clmm(as.formula(paste("y ~", terms, "+ (1 | user)")), rows, nAGQ = 10)
  out <- list(intercept = 0, slopes = fit$beta, sd = as.numeric(fit$ST$user), cuts = fit$alpha, levels = as.numeric(levels(rows$y)))
} else {
  formula <- as.formula(paste("y ~", terms, "+ (1 | user)"))
  fit <- if (args[1] == "binary") glmer(formula, rows, binomial, nAGQ = 10) else glmer.nb(formula, rows)
  out <- list(intercept = fixef(fit)[[1]], slopes = fixef(fit)[-1], sd = as.numeric(attr(VarCorr(fit)$user, "stddev")),
              size = if (args[1] == "count") getME(fit, "glmer.nb.theta"))
}
write_json(lapply(out, unname), args[3], digits = NA, auto_unbox = FALSE)
