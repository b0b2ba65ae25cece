# Mixed models of pilot users' rows, and of one more user's: a process that answers requests, one after the other.
#
#     Rscript experiments/peers/mixed.R lme4|mgcv       (Debian: r-cran-{lme4,mgcv,jsonlite})
#
# A request is a line "WHAT LINES", then as many lines of CSV with the columns y, user and x1, x2, ...; features are from
# 0 to 1, and x1 is the one along which users differ (the time, if there is one). An answer is a line of JSON.
#
#     pilots   the pilot users' rows, first of all. lme4 answers with its estimates by REML: a line for each feature, and
#              users' intercepts, or intercepts and slopes of x1, whichever has the lower AIC by maximum likelihood
#     update   (mgcv) rows of one more user so far: fits smooth functions of all features and one of x1 for each user
#              to these and the pilot users' rows. Answers with the fit's number, CPU seconds, and kilobytes kept
#     NUMBER   (mgcv) new rows of this user: means and standard deviations of observations, by an earlier fit

args <- commandArgs(trailingOnly = TRUE)
suppressMessages({library(jsonlite); library(args[1], character.only = TRUE)})
LAST <- 50   # fits that are kept
LARGEST <- 1e4   # smoothing parameter at which a fit begins: beyond it REML hardly changes
requests <- file("stdin", "r"); pilots <- NULL; features <- character(); fits <- list(); made <- 0; first <- NULL

answer <- function(value) { cat(toJSON(lapply(value, unname), digits = NA), "\n", sep = ""); flush(stdout()) }

estimates <- function() {
  X <- model.matrix(reformulate(features), pilots); independent <- qr(X)
  kept <- sort(independent$pivot[seq_len(independent$rank)])[-1] - 1
  both <- lapply(c("(1 | user)", sprintf("(1 + %s | user)", features[1])), function(random)
    suppressWarnings(suppressMessages(lmer(reformulate(c(features[kept], random), "y"), pilots, REML = TRUE))))
  fit <- both[[which.min(sapply(both, function(f) AIC(suppressWarnings(suppressMessages(refitML(f))))))]]
  D <- VarCorr(fit)$user
  list(kept = kept, fixed = fixef(fit), uncertainty = as.matrix(vcov(fit)), own = matrix(D, nrow(D)), noise = sigma(fit))
}

# The richest formula with no more coefficients than rows. Bases of 10 functions are mgcv's default; 5 functions for each
# user are those of Pedersen et al. (2019), whose model GS this is.
formula_of <- function(rows) {
  distinct <- sapply(rows[features], function(v) length(unique(v)))
  curved <- distinct >= 4
  lines <- features[!curved]
  for (shared in c(10, 5)) for (own in if (curved[1]) min(5, distinct[1]):3) {
    k <- pmin(shared, distinct)
    if (1 + sum(ifelse(curved, k - 1, 1)) + own * nlevels(rows$user) > nrow(rows)) next
    return(reformulate(c(lines, sprintf("s(%s, k = %d)", features, k)[curved],
                         sprintf('s(%s, user, bs = "fs", k = %d)', features[1], own)), "y"))
  }
  reformulate(c(features, 's(user, bs = "re")', sprintf('s(user, %s, bs = "re")', features[1])), "y")
}

# By REML, from the smoothing parameters of pilot users alone: in a fraction of the time, with the same result where REML
# has one optimum. mgcv warns of two smooths of x1.
smooths <- function(rows) {
  formula <- formula_of(rows)
  terms <- function(formula) gsub("k = [0-9]+", "", paste(deparse(formula), collapse = ""))
  begin <- if (!is.null(first) && terms(formula) == terms(first$formula)) list(sp = pmin(first$sp, LARGEST), scale = first$sig2)
  suppressWarnings(tryCatch(gam(formula, data = rows, method = "REML", in.out = begin),
                            error = function(e) gam(formula, data = rows, method = "REML")))
}

update_with <- function(rows) {
  rows$user <- "new"
  both <- rbind(transform(pilots, user = as.character(user)), rows[names(pilots)])
  both$user <- factor(both$user)
  cpu <- function() sum(proc.time()[1:2])
  began <- cpu()
  fit <- smooths(both)
  seconds <- cpu() - began
  for (part in c("Ve", "R", "F", "hat", "weights", "prior.weights", "residuals", "fitted.values", "linear.predictors",
                 "working.weights", "db.drho", "dw.drho", "y", "offset")) fit[[part]] <- NULL   # not for predictions
  made <<- made + 1
  fits[[as.character(made)]] <<- fit
  if (made > LAST) fits[[as.character(made - LAST)]] <<- NULL
  kept <- list(fit$coefficients, if (is.null(fit$Vc)) fit$Vp else fit$Vc, rows)
  list(number = made, seconds = seconds, kilobytes = as.numeric(object.size(kept)) / 1000)
}

predicted <- function(number, rows) {
  fit <- fits[[number]]
  if (is.null(fit)) stop("This fit is no longer kept.")
  rows$user <- factor("new", levels = levels(fit$model$user))
  found <- predict(fit, rows, se.fit = TRUE, unconditional = TRUE)   # uncertain smoothing parameters included
  list(mean = as.numeric(found$fit), sd = sqrt(as.numeric(found$se.fit)^2 + fit$sig2))
}

repeat {
  head <- readLines(requests, 1)
  if (!length(head)) break
  head <- strsplit(head, " ")[[1]]
  rows <- read.csv(text = readLines(requests, as.integer(head[2])))
  answer(tryCatch({
    if (head[1] == "pilots") {
      features <- grep("^x", names(rows), value = TRUE)
      pilots <- rows; pilots$user <- factor(pilots$user)
      if (args[1] == "lme4") estimates() else { first <- smooths(pilots); list(rows = nrow(pilots)) }
    } else if (head[1] == "update") update_with(rows) else predicted(head[1], rows)
  }, error = function(e) list(error = conditionMessage(e))))
}
