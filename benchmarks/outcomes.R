# Fit a mixed model with a level of its own for every user: lme4's glmer (yes or no), glmmTMB (counts; lme4's
# glmer.nb fails on large ones), ordinal's clmm (levels, logit). IN.csv has columns y, user and x1, x2, ...; OUT.json
# has coefficients, the sd of users' levels, the size of the negative binomial distribution, and cut points.
#
#     Rscript benchmarks/outcomes.R binary|count|ordinal IN.csv OUT.json    (Debian: r-cran-{lme4,glmmtmb,ordinal,jsonlite})

suppressMessages({library(lme4); library(glmmTMB); library(ordinal); library(jsonlite)})
args <- commandArgs(trailingOnly = TRUE)
rows <- read.csv(args[2])
formula <- as.formula(paste("y ~", paste(c(setdiff(names(rows), c("y", "user")), "(1 | user)"), collapse = " + ")))
rows$user <- factor(rows$user)
sd_of <- function(variances) as.numeric(attr(variances$user, "stddev"))
if (args[1] == "ordinal") {
  rows$y <- factor(rows$y)
  fit <- clmm(formula, rows, nAGQ = 10)
  out <- list(intercept = 0, slopes = fit$beta, sd = as.numeric(fit$ST$user), cuts = fit$alpha, levels = as.numeric(levels(rows$y)))
} else if (args[1] == "binary") {
  fit <- glmer(formula, rows, binomial, nAGQ = 10)
  out <- list(intercept = fixef(fit)[[1]], slopes = fixef(fit)[-1], sd = sd_of(VarCorr(fit)))
} else {
  fit <- glmmTMB(formula, rows, family = nbinom2)
  stopifnot(fit$fit$convergence == 0)
  fixed <- fixef(fit)$cond
  out <- list(intercept = fixed[[1]], slopes = fixed[-1], sd = sd_of(VarCorr(fit)$cond), size = sigma(fit))
}
write_json(lapply(out, unname), args[3], digits = NA, auto_unbox = FALSE)
