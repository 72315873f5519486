# The reading-time protocol in R, for small.tsv: folds by sample(), regressions by lm().
# Run in this folder: Rscript reading_times.R   (written with R 4.2.2)
options(digits = 17)
data <- read.delim("small.tsv", colClasses = c(word = "character"), na.strings = "")
lagged <- function(column, k) {
  ave(data[[column]], data$text_id, FUN = function(x) c(rep(NA, k), head(x, -k)))
}
at <- c("", "prev_", "prev2_", "prev3_")
for (k in 1:3) {
  for (column in c("word_len", "freq", "surprisal", "surprisal_naive")) {
    data[[paste0(at[k + 1], column)]] <- lagged(column, k)
  }
}
used <- c("time", outer(at, c("word_len", "freq", "surprisal", "surprisal_naive"), paste0))
complete <- complete.cases(data[used])
set.seed(42)
order <- sample(nrow(data))
order <- order[complete[order]]
data$fold <- 0
data$fold[order] <- cut(seq_along(order), breaks = 10, labels = FALSE)
data <- data[data$fold > 0, ]

baseline <- paste("time ~", paste0(at, "word_len * ", at, "freq", collapse = " + "))
formulas <- c(
  baseline = baseline,
  corrected = paste(baseline, "+", paste0(at, "surprisal", collapse = " + ")),
  naive = paste(baseline, "+", paste0(at, "surprisal_naive", collapse = " + "))
)
held_out <- function(formula, fold) {
  train <- data[data$fold != fold, ]
  test <- data[data$fold == fold, ]
  fit <- lm(as.formula(formula), train)
  mean(dnorm(test$time, predict(fit, test), sqrt(mean(residuals(fit)^2)), log = TRUE))
}
number <- function(x) format(x, digits = 17, scientific = TRUE, trim = TRUE)
folds <- expand.grid(fold = 1:10, estimate = c("corrected", "naive"), stringsAsFactors = FALSE)
folds$n <- sapply(folds$fold, function(fold) sum(data$fold == fold))
folds$delta_llh <- number(mapply(
  function(fold, name) held_out(formulas[[name]], fold) - held_out(formulas[["baseline"]], fold),
  folds$fold, folds$estimate
))
write.table(folds, "expected_folds.tsv", sep = "\t", quote = FALSE, row.names = FALSE)

rows <- do.call(rbind, lapply(names(formulas), function(name) {
  table <- summary(lm(as.formula(formulas[[name]]), data))$coefficients
  data.frame(regression = name, term = rownames(table), estimate = number(table[, 1]),
             std_error = number(table[, 2]), t = number(table[, 3]), p = number(table[, 4]))
}))
write.table(rows, "expected_coefficients.tsv", sep = "\t", quote = FALSE, row.names = FALSE)
