# Make reference figures for mixed models with lme4 (REML), pbkrtest (Kenward and Roger) and mgcv.
#
# Each model is a straight line in time for every group of users, with a level and a slope for every
# user. Written are the variances, the fixed effects and what is asked of them (means, slopes and
# differences of groups), with standard errors, Kenward and Roger's covariances and degrees of freedom.
# Means and differences are averages over all rows of the table with the group and the time set.
#
#     Rscript benchmarks/mixed_models.R TABLES OUT.json
#
# TABLES is a folder with a CSV for each table; those that R's packages ship are written there first if
# they are missing. On Debian: r-cran-{lme4,pbkrtest,mgcv,nlme,mass,survival,jsonlite,geepack,cardata,hsaur3,mlmrev}.

suppressMessages({library(lme4); library(pbkrtest); library(mgcv); library(jsonlite)})
args <- commandArgs(trailingOnly = TRUE)
folder <- args[1]

# ---- tables

wide <- function(data, columns, times, target)   # one row a user to one row a visit
  na.omit(do.call(rbind, lapply(seq_along(columns), function(k) {
    long <- cbind(user = seq_len(nrow(data)), data[setdiff(names(data), unlist(columns))], time = times[k])
    long[[target]] <- data[[columns[k]]]
    long
  })))
shipped <- function(name, package) as.data.frame(getExportedValue(package, name))
pbc <- function() { d <- shipped("pbcseq", "survival"); d$log_bili <- log(d$bili); d[c("id", "trt", "sex", "age", "day", "log_bili")] }
tables <- list(
  sleepstudy = function() shipped("sleepstudy", "lme4"),
  Orthodont = function() shipped("Orthodont", "nlme"),
  Oxboys = function() shipped("Oxboys", "nlme"),
  BodyWeight = function() shipped("BodyWeight", "nlme"),
  ChickWeight = function() shipped("ChickWeight", "datasets"),
  epil = function() shipped("epil", "MASS"),
  pbcseq = pbc,
  pbcseq30 = function() subset(pbc(), id %in% c(5, 7, 11:15, 19, 20, 23:26, 28:31, 33:37, 40:42, 44:48)),
  Theoph = function() shipped("Theoph", "datasets"),
  Milk = function() shipped("Milk", "nlme"),
  Sitka = function() shipped("Sitka", "MASS"),
  Blackmore = function() shipped("Blackmore", "carData"),
  dietox = function() shipped("dietox", "geepack"),
  Early = function() shipped("Early", "mlmRev"),
  OBrienKaiser = function() {
    d <- shipped("OBrienKaiserLong", "carData")
    transform(d, visit = 5 * (match(phase, c("pre", "post", "fup")) - 1) + as.numeric(as.character(hour)))
  },
  WeightLoss = function() wide(shipped("WeightLoss", "carData")[1:4], c("wl1", "wl2", "wl3"), 1:3, "loss"),
  BtheB = function() wide(shipped("BtheB", "HSAUR3"), paste0("bdi.", c(2, 3, 5, 8), "m"), c(2, 3, 5, 8), "bdi"),
  phosphate = function() {
    times <- c(0, .5, 1, 1.5, 2, 3, 4, 5)
    wide(shipped("phosphate", "HSAUR3"), paste0("t", times), times, "phosphate")
  },
  Fatigue = function() shipped("Fatigue", "nlme"),
  Dialyzer = function() shipped("Dialyzer", "nlme"),
  Pixel = function() shipped("Pixel", "nlme"),
  Soybean = function() { d <- shipped("Soybean", "nlme"); d$log_weight <- log(d$weight); d },
  CO2 = function() shipped("CO2", "datasets"),
  Orange = function() shipped("Orange", "datasets"),
  Loblolly = function() shipped("Loblolly", "datasets"),
  IGF = function() shipped("IGF", "nlme")
)

# ---- models: table, target, user, time, categories and other covariates; groups have lines of their own

model <- function(table, target, user, time, groups = NULL, categories = NULL, numbers = NULL)
  list(table = table, target = target, user = user, time = time, groups = groups, categories = categories, numbers = numbers)
models <- list(
  model("sleepstudy", "Reaction", "Subject", "Days"),
  model("Orthodont", "distance", "Subject", "age", "Sex"),
  model("Oxboys", "height", "Subject", "age"),
  model("BodyWeight", "weight", "Rat", "Time", "Diet"),
  model("ChickWeight", "weight", "Chick", "Time", "Diet"),
  model("epil", "y", "subject", "period", "trt", numbers = c("base", "age")),
  model("epil", "y", "subject", "period", "trt", numbers = "base"),
  model("epil", "y", "subject", "period", "trt"),
  model("pbcseq", "log_bili", "id", "day", "trt", "sex", "age"),
  model("pbcseq30", "log_bili", "id", "day", "trt", "sex", "age"),
  model("pbcseq30", "log_bili", "id", "day", categories = c("trt", "sex")),
  model("Theoph", "conc", "Subject", "Time", numbers = "Wt"),
  model("Milk", "protein", "Cow", "Time", "Diet"),
  model("Sitka", "size", "tree", "Time", "treat"),
  model("Blackmore", "exercise", "subject", "age", "group"),
  model("dietox", "Weight", "Pig", "Time", "Cu", "Evit", "Start"),
  model("Early", "cog", "id", "age", "trt"),
  model("OBrienKaiser", "score", "id", "visit", "treatment", "gender"),
  model("WeightLoss", "loss", "user", "time", "group"),
  model("BtheB", "bdi", "user", "time", "treatment", c("drug", "length"), "bdi.pre"),
  model("phosphate", "phosphate", "user", "time", "group"),
  model("Fatigue", "relLength", "Path", "cycles"),
  model("Dialyzer", "rate", "Subject", "pressure", "QB"),
  model("Pixel", "pixel", "Dog", "day", categories = "Side"),
  model("Soybean", "log_weight", "Plot", "Time", "Variety", "Year"),
  model("CO2", "uptake", "Plant", "conc", c("Type", "Treatment")),
  model("Orange", "circumference", "Tree", "age"),
  model("Loblolly", "height", "Seed", "age"),
  model("IGF", "conc", "Lot", "age")
)

read_table <- function(name) {
  path <- file.path(folder, paste0(name, ".csv"))
  if (!file.exists(path)) write.csv(tables[[name]](), path, row.names = FALSE)
  read.csv(path, stringsAsFactors = FALSE)
}
as_category <- function(x) factor(as.character(x), levels = sort(unique(as.character(x)), method = "radix"))
vector_of <- function(x) I(unname(as.vector(x)))   # stays a list of length one in JSON
matrix_of <- function(x) unname(as.matrix(x))

# ---- generalised least squares given the variances, user by user

given_variances <- function(X, y, time, user, D, noise) {
  D <- as.matrix(D)
  p <- ncol(X); XVX <- matrix(0, p, p); XVy <- numeric(p); yVy <- 0; logdet <- 0
  blocks <- lapply(split(seq_along(y), user), function(i) {
    Z <- cbind(1, time[i])[, seq_len(ncol(D)), drop = FALSE]
    list(i = i, Z = Z, V = Z %*% D %*% t(Z) + noise^2 * diag(length(i)))
  })
  for (b in blocks) {
    R <- chol(b$V)
    A <- backsolve(R, X[b$i, , drop = FALSE], transpose = TRUE); a <- backsolve(R, y[b$i], transpose = TRUE)
    XVX <- XVX + crossprod(A); XVy <- XVy + crossprod(A, a); yVy <- yVy + sum(a^2); logdet <- logdet + 2 * sum(log(diag(R)))
  }
  covariance <- solve(XVX); estimate <- drop(covariance %*% XVy)
  quadratic <- yVy - sum(estimate * XVy); n <- length(y)
  ml <- -(n * log(2 * pi) + logdet + quadratic) / 2
  users <- lapply(blocks, function(b) {   # best linear unbiased predictions and the covariance of their errors
    K <- D %*% t(b$Z) %*% solve(b$V); M <- K %*% X[b$i, , drop = FALSE]
    list(deviation = drop(K %*% (y[b$i] - X[b$i, , drop = FALSE] %*% estimate)),
         covariance = D - K %*% b$Z %*% D + M %*% covariance %*% t(M))
  })
  list(estimate = estimate, covariance = covariance, users = users, log_likelihood = ml,
       reml = ml + (p * log(2 * pi) - as.numeric(determinant(XVX)$modulus)) / 2)
}

# ---- what is asked: each a row of coefficients of the fixed effects

questions <- function(spec, data, formula, lines) {   # lines: groups whose slopes differ
  t <- data[[spec$time]]; middle <- mean(t)
  row <- function(at, ...) {
    d <- data; d$time_centred <- at - middle
    for (v in names(list(...))) d[[v]] <- factor(list(...)[[v]], levels = levels(data[[v]]))
    colMeans(model.matrix(formula, d))
  }
  slope <- function(...) row(middle + 1, ...) - row(middle, ...)
  times <- c("first time" = min(t), "mean time" = middle, "middle time" = (min(t) + max(t)) / 2, "last time" = max(t), "time 0" = 0)
  one <- function(quantity, L, variable = NULL, level = NULL, reference = NULL, at = NULL, time = NULL)
    list(quantity = quantity, variable = variable, level = level, reference = reference, at = at, time = time, L = L)
  out <- list(one("slope", slope()))
  for (k in names(times)) out <- c(out, list(one("mean", row(times[[k]]), at = k, time = times[[k]])))
  for (v in c(spec$groups, spec$categories)) {
    set <- function(f, level, ...) do.call(f, c(list(...), setNames(list(level), v)))
    first <- levels(data[[v]])[1]
    for (g in levels(data[[v]])) {
      for (k in names(times)) out <- c(out, list(one("mean", set(row, g, times[[k]]), v, g, NULL, k, times[[k]])))
      if (v %in% lines) out <- c(out, list(one("slope", set(slope, g), v, g)))
      if (g == first) next
      for (k in if (v %in% lines) c("first time", "mean time", "last time") else "mean time")
        out <- c(out, list(one("contrast", set(row, g, times[[k]]) - set(row, first, times[[k]]), v, g, first, k, times[[k]])))
      if (v %in% lines) out <- c(out, list(one("slope contrast", set(slope, g) - set(slope, first), v, g, first)))
    }
  }
  out
}

# ---- one model

fitted_model <- function(spec, interaction, slope) {
  data <- read_table(spec$table)
  data <- na.omit(data[unique(unlist(spec[c("target", "user", "time", "groups", "categories", "numbers")]))])
  for (v in c(spec$groups, spec$categories, spec$user)) data[[v]] <- as_category(data[[v]])
  spread <- sd(data[[spec$time]])
  data$time_centred <- data[[spec$time]] - mean(data[[spec$time]])
  terms <- c(spec$groups, "time_centred", if (interaction) paste0(spec$groups, ":time_centred"), spec$categories, spec$numbers)
  formula <- reformulate(terms)
  y <- data[[spec$target]]

  # lme4 works best with time in standard deviations; the figures are converted to its own unit
  scaled <- transform(data, time_centred = time_centred / spread)
  random <- sprintf("(%s | %s)", if (slope) "1 + time_centred" else "1", spec$user)
  fit <- suppressMessages(lmer(reformulate(c(terms, random), spec$target), scaled, REML = TRUE,
    control = lmerControl("bobyqa", calc.derivs = FALSE, optCtrl = list(rhobeg = .02, rhoend = 1e-10, maxfun = 1e5))))
  unit <- if (slope) c(1, 1 / spread) else 1
  D <- VarCorr(fit)[[1]]; D <- matrix(D, nrow(D)) * outer(unit, unit)
  sds <- signif(sqrt(diag(D)), 12); noise <- signif(sigma(fit), 12)
  correlation <- if (slope && all(sds > 0)) signif(D[1, 2] / sqrt(D[1, 1] * D[2, 2]), 12) else 0
  D <- diag(sds, length(sds)) %*% (if (slope) matrix(c(1, correlation, correlation, 1), 2) else diag(1)) %*% diag(sds, length(sds))

  X <- model.matrix(formula, data)
  gls <- given_variances(X, y, data$time_centred, data[[spec$user]], D, noise)
  back <- ifelse(grepl("time_centred", colnames(X)), 1 / spread, 1)   # of the scaled fit's fixed effects
  lmer_reml <- as.numeric(logLik(fit)) + sum(log(back))
  agreement <- max(abs(fixef(fit) * back - gls$estimate) / sqrt(diag(gls$covariance)))
  stopifnot(identical(names(fixef(fit)), colnames(X)))

  raw <- vcov(fit); adjusted <- vcovAdj(fit)
  kr_covariance <- as.matrix(adjusted) * outer(back, back)
  answer <- function(L) {
    estimate <- sum(L * gls$estimate); se <- sqrt(drop(L %*% gls$covariance %*% L)); kr <- sqrt(drop(L %*% kr_covariance %*% L))
    df <- Lb_ddf(L * back, as.matrix(raw), adjusted)
    list(estimate = estimate, se = se, kr_se = kr, kr_df = df, kr_half_width = qt(.975, df) * kr)
  }
  p <- ncol(X)
  fixed <- lapply(seq_len(p), function(j) c(list(name = colnames(X)[j]), answer(as.numeric(seq_len(p) == j))))
  asked <- lapply(questions(spec, data, formula, if (interaction) spec$groups), function(q) {
    L <- q$L; q$L <- vector_of(L)
    c(Filter(Negate(is.null), q), answer(L))
  })
  effects <- ranef(fit)[[1]]
  shown <- as.character(unique(data[[spec$user]]))[1:3]
  list(
    table = spec$table, target = spec$target, user = spec$user, time = spec$time, rows = nrow(data), users = nlevels(data[[spec$user]]),
    fixed_terms = vector_of(gsub("time_centred", spec$time, terms)),
    random_terms = if (slope) vector_of(c("level", "slope")) else vector_of("level"),
    categories = sapply(c(spec$groups, spec$categories), function(v) levels(data[[v]]), simplify = FALSE),
    time_mean = mean(data[[spec$time]]), singular = isSingular(fit, tol = 1e-4),
    reml = c(list(sd_level = sds[1]), if (slope) list(sd_slope = sds[2], correlation = correlation), list(noise = noise)),
    log_likelihood = list(reml = gls$reml, marginal = gls$log_likelihood, lme4_reml = lmer_reml),
    fixed_effects = fixed, covariance = matrix_of(gls$covariance), kr_covariance = matrix_of(kr_covariance),
    lme4_agrees = agreement,
    quantities = asked,
    user_effects = lapply(shown, function(u) list(
      user = u, deviation = vector_of(gls$users[[u]]$deviation), covariance = matrix_of(gls$users[[u]]$covariance),
      lme4 = vector_of(unlist(effects[u, ]) * unit)))
  )
}

# ---- smooth curves of groups with mgcv: independent level and slope (gam), correlated ones (gamm)

curve_model <- function(table, target, user, time, group = NULL, k = 10) {
  data <- read_table(table)
  d <- data.frame(y = data[[target]], user = as_category(data[[user]]), t = data[[time]])
  d$centred <- d$t - mean(d$t)
  d$g <- if (is.null(group)) factor("all") else as_category(data[[group]])
  smooth <- if (is.null(group)) sprintf("y ~ s(t, k = %d)", k) else sprintf("y ~ g + s(t, by = g, k = %d)", k)
  both <- list(
    gam = gam(as.formula(paste(smooth, '+ s(user, bs = "re") + s(user, centred, bs = "re")')), data = d, method = "REML"),
    gamm = gamm(as.formula(smooth), random = list(user = ~ 1 + centred), data = d, method = "REML"))
  grid <- expand.grid(t = seq(min(d$t), max(d$t), length.out = 5), g = levels(d$g))
  grid$user <- d$user[1]; grid$centred <- grid$t - mean(d$t)
  out <- lapply(names(both), function(name) {
    fit <- if (name == "gam") both$gam else both$gamm$gam
    P <- predict(fit, grid, type = "lpmatrix"); P[, grepl("user", colnames(P))] <- 0
    se <- function(P, V) sqrt(rowSums((P %*% V) * P))
    curves <- lapply(levels(d$g), function(g) {
      rows <- grid$g == g; D <- P[rows, ] - P[grid$g == levels(d$g)[1], ]
      c(list(group = g, time = grid$t[rows], mean = drop(P[rows, ] %*% coef(fit)), se = se(P[rows, ], fit$Vp)),
        if (!is.null(fit$Vc)) list(se_unconditional = se(P[rows, ], fit$Vc)),
        if (g != levels(d$g)[1]) list(minus_first = drop(D %*% coef(fit)), minus_first_se = se(D, fit$Vp)))
    })
    sds <- if (name == "gam") {
      capture.output(v <- gam.vcomp(both$gam)); v <- if (is.list(v)) v$vc[, 1] else v[, 1]
      list(sd_level = v[["s(user)"]], sd_slope = v[["s(user,centred)"]], noise = sqrt(both$gam$sig2))
    } else {
      v <- tail(nlme::VarCorr(both$gamm$lme), 3)
      list(sd_level = as.numeric(v[1, "StdDev"]), sd_slope = as.numeric(v[2, "StdDev"]), correlation = as.numeric(v[2, "Corr"]), noise = as.numeric(v[3, "StdDev"]))
    }
    list(method = name, reml = sds, smooth_edf = vector_of(sapply(fit$smooth, function(s) sum(fit$edf[s$first.para:s$last.para]))[seq_len(nlevels(d$g))]), curves = curves)
  })
  list(table = table, target = target, user = user, time = time, group = group, basis = k, fits = out)
}

# ---- all of them

results <- list()
for (spec in models) for (interaction in if (is.null(spec$groups)) FALSE else c(TRUE, FALSE)) {
  fit <- fitted_model(spec, interaction, slope = TRUE)
  results <- c(results, list(fit), if (fit$singular) list(fitted_model(spec, interaction, slope = FALSE)))
  message(spec$table, ": ", paste(fit$fixed_terms, collapse = " + "), if (fit$singular) " (singular)", sprintf("  lme4 %.1e", fit$lme4_agrees))
}
curves <- list(curve_model("Oxboys", "height", "Subject", "age"), curve_model("ChickWeight", "weight", "Chick", "Time", "Diet"),
               curve_model("Orthodont", "distance", "Subject", "age", "Sex", k = 4))
versions <- sapply(c("lme4", "pbkrtest", "mgcv"), function(p) as.character(packageVersion(p)), simplify = FALSE)
write_json(list(versions = c(list(R = paste(R.version$major, R.version$minor, sep = ".")), versions), models = results, curves = curves),
           args[2], digits = I(12), auto_unbox = TRUE, pretty = FALSE)
