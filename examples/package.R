# Surprisals with the R package. Run it: Rscript package.R [MODEL]
library(wordprob)

model <- commandArgs(trailingOnly = TRUE)
if (length(model)) wp_options(model = model)

reading <- data.frame(
  item = c(1, 1, 1, 1, 2, 2),
  word = c("She", "saw", "the", "mark", "the", "marker"),
  rt = c(310, 287, 255, 400, 260, 410)
)

# A word on each row: the same rows come back, with new columns behind them.
scored <- wp_score(reading, "word", by = "item")
print(scored[c("item", "word", "rt", "surprisal", "surprisal_naive")], digits = 3)

# One number for each word, for use inside transform() or dplyr's mutate().
reading <- transform(reading, surprisal = wp_surprisal(word, by = item, unit = "nats"))

# Texts: a row for each word.
words <- wp_score(c("She saw the mark.", "the marker"), words = "punctuation")
print(words[c("text_id", "word", "surprisal")], digits = 3)
