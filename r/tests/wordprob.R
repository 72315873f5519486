# Tests in plain R, with the toy model. They need the command: set WORDPROB_COMMAND, or have it on the path.
library(wordprob)

has_command <- !inherits(try(wp_command(), silent = TRUE), "try-error")

message_of <- function(expression) {
  tryCatch({
    expression
    ""
  }, error = conditionMessage)
}

close_to <- function(values, wanted) isTRUE(all.equal(values, wanted, tolerance = 1e-6))

test_without_command <- function() {
  stopifnot(grepl("data frame or a character vector", message_of(wp_score(1:3))))
  stopifnot(grepl("no column called wrod. It has: word", message_of(wp_score(data.frame(word = "a"), "wrod"))))
  stopifnot(grepl("`word`", message_of(wp_score(data.frame(word = "a")))))
  stopifnot(grepl("name columns of a data frame", message_of(wp_score("a", word = "word"))))
  stopifnot(grepl("2 words, but `by` has 3", message_of(wp_surprisal(c("a", "b"), by = 1:3))))
  stopifnot(identical(wp_surprisal(character()), numeric()))
  before <- wp_options(command = file.path(tempdir(), "no-such-command"))
  on.exit(options(wordprob.command = NULL))
  stopifnot(grepl("could not be started", message_of(wp_score("the mark"))))
}

test_data_frame <- function() {
  data <- data.frame(
    item = factor(c("b", "b", "b", "b", "a", "a")), day = Sys.Date() + 1:6,
    word = c("She", "saw", "the", "mark", "the", "marker"), rt = c(310, 287, 255, 400, 260, 410),
    row.names = letters[1:6]
  )
  scored <- wp_score(data, "word", by = "item")
  stopifnot(identical(scored[names(data)], data))
  stopifnot(close_to(scored$surprisal[1:4], c(1.2515388, 0.6057211, 0.7369656, 2.1844247)))
  stopifnot(is.integer(scored$n_tokens), identical(scored$note, rep("", 6)))
  stopifnot(identical(wp_surprisal(data$word, by = data$item), scored$surprisal))
  nats <- wp_score(data, "word", by = "item", unit = "nats", prefix = "wp_", extras = "token_entropy")
  stopifnot(close_to(nats$wp_surprisal, scored$surprisal * log(2)), is.numeric(nats$wp_token_entropy))
  both <- wp_score(data, "word", by = "item", extras = c("entropy", "word_rank", "word_entropy"))
  stopifnot(close_to(both$token_entropy * log(2), nats$wp_token_entropy), is.numeric(both$word_entropy))
  stopifnot(is.numeric(both$word_rank_low))
  stopifnot(grepl("prefix", message_of(wp_score(scored, "word", by = "item"))))
  whole <- wp_score(data[1:4, ], "word")
  stopifnot(identical(whole$surprisal, scored$surprisal[1:4]))
  stopifnot(grepl("comes again", message_of(wp_score(data[c(1, 5, 2), ], "word", by = "item"))))
}

test_texts <- function() {
  scored <- wp_score(c("She saw the mark", "NA", "", "the\nmarker"))
  stopifnot(identical(scored$word, c("She", "saw", "the", "mark", "NA", "the", "marker")))
  stopifnot(identical(scored$text_id, c(0L, 0L, 0L, 0L, 1L, 3L, 3L)))
  data <- data.frame(sentence = c("She saw the mark", "the marker"))
  sentences <- wp_score(data, text = "sentence")
  stopifnot(close_to(sentences$surprisal[1], sum(scored$surprisal[1:4])), identical(sentences$n_words, c(4L, 2L)))
}

test_letters <- function() {
  words <- c("na\u00efve", "\u4e2d\u6587", "\"quoted\"", "a,b", "$(x)", "'")
  scored <- wp_score(data.frame(word = words), "word")
  stopifnot(identical(enc2utf8(scored$word), enc2utf8(words)))
  stopifnot(identical(enc2utf8(wp_score(paste(words, collapse = " "))$word), enc2utf8(words)))
}

test_next <- function() {
  result <- wp_next(c("She saw the", "the"), top = 2)
  stopifnot(identical(unique(result$context), c("She saw the", "the")))
  stopifnot(identical(result$kind, rep(c("word", "word", "end", "rest"), 2)))
  stopifnot(identical(result$separator, rep(c(" ", " ", "", ""), 2)))
  stopifnot(all.equal(as.numeric(tapply(result$probability, result$context_id, sum)), c(1, 1)))
  half <- wp_next("She saw the", mass = 0.7, words = "punctuation", spellings = "all")
  stopifnot(identical(half$word, c("mark", "marker", "", "")), close_to(half$probability[1:2], c(0.4, 0.35)))
  stopifnot(close_to(half$probability_high, half$probability))
  stopifnot(identical(wp_next("She saw the", top = 1, mass = 0.7)$kind, c("word", "end", "rest")))
  stopifnot(grepl("context 2 is missing", message_of(wp_next(c("She", NA)))))
}

test_cloze <- function() {
  scored <- wp_cloze(c("She saw the", "She saw", ""), c("mark", "the mark", "mark"))
  stopifnot(close_to(scored$surprisal[1:2], c(2.184424571, 2.921390165)), is.na(scored$surprisal[3]))
  stopifnot(identical(scored$note, c("", "", "no context in 'context'")))
  stopifnot(identical(scored$target, c("mark", "the mark", "mark")))
  one <- wp_cloze("She saw the", c("mark", "marker"))
  stopifnot(close_to(one$surprisal, c(2.184424571, 2.514573173)))
  stopifnot(grepl("2 contexts, but 3 targets", message_of(wp_cloze(c("a", "b"), c("x", "y", "z")))))
}

test_candidates <- function() {
  found <- wp_candidates("She saw the", c("mark", "marker", "NA"), share = TRUE, words = "punctuation")
  stopifnot(identical(found$candidate, c("mark", "marker", "NA")), close_to(found$probability, c(0.4, 0.35, 0)))
  stopifnot(close_to(sum(found$share), 1))
  stopifnot(grepl("candidate 2 is missing", message_of(wp_candidates("She", c("saw", NA)))))
}

test_without_command()
if (has_command) {
  wp_options(model = "exact:bow")
  test_data_frame()
  test_texts()
  test_letters()
  test_next()
  test_cloze()
  test_candidates()
  stopifnot(any(grepl("smollm2", wp_models())))
  cat("all tests passed\n")
} else {
  cat("the command wordprob is not installed: only the tests without it ran\n")
}
