# wordprob inside R, through the package reticulate.
#
#   Rscript examples/reticulate.R gpt2-small

library(reticulate)              # use_virtualenv("~/wordprob") first, if it is installed in one
wordprob <- import("wordprob")

# Text is what every version of reticulate and pandas can pass on.
data_frame <- function(table) read.csv(text = table$to_text("csv"), na.strings = "", encoding = "UTF-8")

scorer <- wordprob$load(commandArgs(trailingOnly = TRUE)[1])
words <- data_frame(scorer$score(c("She saw the mark.", "She saw the mark?"), words = "punctuation"))
print(words[c("text_id", "word", "surprisal", "surprisal_naive")])

# Words of your own: as.list() keeps a single word a list.
own <- data_frame(scorer$score("the mark", words = as.list(c("the", "mark"))))
print(own$word)
