# Surprisal and reading times in base R.
#
#   wordprob score examples/study/texts.txt -o reading.tsv
#   Rscript examples/surprisal.R reading.tsv examples/study/reading_times.csv

files <- commandArgs(trailingOnly = TRUE)

# Words and their surprisals. Only an empty cell is missing, so that the word "NA" stays a word.
scored <- read.delim(files[1], na.strings = "", quote = "\"", encoding = "UTF-8")
scored$text <- scored$text_id + 1      # wordprob counts texts and words from 0
scored$position <- scored$word_id + 1

# Reading times: drop lapses (the logarithm more than three standard deviations off), then
# take means over readers.
times <- read.csv(files[2], encoding = "UTF-8")
kept <- abs(scale(log(times$rt))) <= 3
means <- aggregate(rt ~ text + position + word, times[kept, ], mean)

# Put them side by side. Every word of the one must be a word of the other.
words <- merge(scored, means, by = c("text", "position", "word"))
stopifnot(nrow(words) == nrow(scored))
words <- words[order(words$text, words$position), ]

# The word before counts too; the first word of a text has none.
previous <- function(x) ave(x, words$text, FUN = function(v) c(NA, v[-length(v)]))
words$length <- nchar(words$word)
words$length_before <- previous(words$length)
words$surprisal_before <- previous(words$surprisal)
words <- words[complete.cases(words[c("surprisal", "surprisal_before")]), ]

without <- lm(rt ~ length + length_before, data = words)
with <- update(without, . ~ . + surprisal + surprisal_before)
print(round(coef(summary(with)), 3))
print(anova(without, with))
