# Surprisals: of the words of a data frame, of texts, and of vectors of words.

wp_score <- function(data, word = NULL, by = NULL, text = NULL, space_after = NULL,
                     words = "whitespace", model = NULL, unit = NULL, extras = character(),
                     prefix = "", arguments = character()) {
  how <- c(
    flags_of(model = model_or_default(model), unit = unit_or_default(unit), prefix = if (nzchar(prefix)) prefix),
    extra_flags(extras),
    as.character(arguments)
  )
  if (is.character(data)) {
    if (!is.null(word) || !is.null(by) || !is.null(text)) {
      stop("`word`, `by` and `text` name columns of a data frame; a vector holds texts. ",
        "For a vector of words use wp_surprisal().", call. = FALSE)
    }
    return(score_texts(data, c(how, flags_of(words = words))))
  }
  if (!is.data.frame(data)) {
    stop("`data` is a data frame or a character vector of texts, not ", class(data)[1], ".", call. = FALSE)
  }
  if (is.null(word) == is.null(text)) {
    stop("name the column that holds the words with `word`, or the one that holds texts with `text`.", call. = FALSE)
  }
  columns <- unique(c(word, text, by, space_after))
  check_columns(data, columns)
  if (!nrow(data)) stop("`data` has no rows.", call. = FALSE)
  layout <- if (is.null(word)) {
    if (!is.null(by) || !is.null(space_after)) {
      stop("`by` and `space_after` are for a word on each row: name that column with `word`.", call. = FALSE)
    }
    flags_of(text_column = text, words = words)
  } else {
    flags_of(word_column = word, group_by = group_flag(by), space_after = space_after)
  }
  added <- score_columns(data[columns], c(layout, how, if (length(model) > 1) c("--shape", "wide")))
  clashes <- intersect(names(added), names(data))
  if (length(clashes)) {
    stop("`data` has columns called ", paste(clashes, collapse = ", "), " already; ",
      "name the new ones differently, for example with prefix = \"wp_\".", call. = FALSE)
  }
  result <- data
  result[names(added)] <- added
  result
}

wp_surprisal <- function(words, by = NULL, model = NULL, unit = NULL, column = "surprisal", ...) {
  if (is.factor(words)) words <- as.character(words)
  if (!is.character(words)) stop("`words` is a character vector, not ", class(words)[1], ".", call. = FALSE)
  if (!length(words)) return(numeric())
  groups <- if (is.data.frame(by)) by else if (is.null(by)) NULL else data.frame(by = by)
  if (!is.null(groups) && nrow(groups) != length(words)) {
    stop(length(words), " words, but `by` has ", nrow(groups), " values; give one for each word.", call. = FALSE)
  }
  # One number for each group: what the values are does not matter.
  data <- data.frame(word = words, stringsAsFactors = FALSE)
  if (!is.null(groups)) {
    keys <- do.call(paste, c(lapply(unclass(groups), as.character), sep = "\r"))
    data$group <- match(keys, unique(keys))
  }
  scored <- wp_score(data, word = "word", by = if (!is.null(groups)) "group", model = model, unit = unit, ...)
  if (!column %in% names(scored)) stop("there is no column '", column, "' in the result.", call. = FALSE)
  scored[[column]]
}

# The surprisal of targets, each after its own context, or of every target after one context.
wp_cloze <- function(context, target, separator = " ", words = "whitespace", model = NULL, unit = NULL,
                     extras = character(), arguments = character()) {
  if (is.factor(context)) context <- as.character(context)
  if (is.factor(target)) target <- as.character(target)
  if (!is.character(context) || !is.character(target) || !length(target)) {
    stop("`context` and `target` are character vectors.", call. = FALSE)
  }
  if (length(context) == 1) context <- rep(context, length(target))
  if (length(context) != length(target)) {
    stop(length(context), " contexts, but ", length(target), " targets; give one context, or one for each target.",
      call. = FALSE)
  }
  how <- c(
    flags_of(
      context_column = "context", target_column = "target", words = words,
      model = model_or_default(model), unit = unit_or_default(unit)
    ),
    paste0("--separator=", separator),
    extra_flags(extras),
    as.character(arguments)
  )
  data <- data.frame(context = context, target = target, stringsAsFactors = FALSE)
  added <- score_columns(data, c(how, if (length(model) > 1) c("--shape", "wide")))
  data[names(added)] <- added
  data
}

# A row for each candidate after one context: its surprisal and its probability.
wp_candidates <- function(context, candidates, share = FALSE, words = "whitespace", model = NULL, unit = NULL,
                          extras = character(), arguments = character()) {
  if (!is.character(context) || length(context) != 1) stop("`context` is one string.", call. = FALSE)
  if (is.factor(candidates)) candidates <- as.character(candidates)
  if (!is.character(candidates) || !length(candidates)) {
    stop("`candidates` is a character vector.", call. = FALSE)
  }
  wrong <- is.na(candidates) | !nzchar(trimws(candidates)) | grepl("[\r\n]", candidates)
  if (any(wrong)) {
    stop("candidate ", which(wrong)[1], " is missing, empty, or has a line break.", call. = FALSE)
  }
  file <- tempfile(fileext = ".txt")
  on.exit(unlink(file))
  connection <- file(file, open = "wb")
  writeLines(enc2utf8(candidates), connection, useBytes = TRUE)
  close(connection)
  how <- c(
    flags_of(words_file = file, share = share, words = words),
    flags_of(model = model_or_default(model), unit = unit_or_default(unit)),
    extra_flags(extras),
    as.character(arguments)
  )
  with_output(function(output) run_command(c("candidates", paste0("--context=", context), how, "-o", output)))
}

wp_next <- function(context, top = if (is.null(mass)) 20, words = "whitespace", model = NULL, unit = NULL,
                    mass = NULL, spellings = "own", arguments = character()) {
  if (!is.character(context) || !length(context)) stop("`context` is a character vector.", call. = FALSE)
  if (anyNA(context)) stop("context ", which(is.na(context))[1], " is missing.", call. = FALSE)
  how <- c(
    flags_of(
      top = top, mass = mass, words = words, spellings = spellings,
      model = model_or_default(model), unit = unit_or_default(unit)
    ),
    as.character(arguments)
  )
  with_output(function(output) {
    tryCatch(
      run_command(c("next", paste0("--context=", context), how, "-o", output)),
      error = explain_missing_next
    )
  })
}

explain_missing_next <- function(error) {
  if (!grepl("no command is called 'next'", conditionMessage(error), fixed = TRUE)) stop(error)
  stop("the wordprob that is installed has no command `next`, which wp_next() needs. ",
    "Install a later one: wp_install(upgrade = TRUE).", call. = FALSE)
}

# --- steps ---

score_texts <- function(texts, how) {
  if (!length(texts)) stop("there are no texts.", call. = FALSE)
  # A column of texts, so that line breaks inside a text are kept.
  table <- data.frame(text = texts, stringsAsFactors = FALSE)
  scored <- score_table(table, c("--text-column", "text", "--per-word", how))
  scored[setdiff(names(scored), "text")]
}

# The columns that the command adds to a table.
score_columns <- function(data, how) {
  scored <- score_table(data, how)
  if (nrow(scored) != nrow(data)) {
    stop("wordprob returned ", nrow(scored), " rows for ", nrow(data), ".", call. = FALSE)
  }
  scored[seq_along(scored) > ncol(data)]
}

score_table <- function(data, how) {
  input <- tempfile(fileext = ".csv")
  on.exit(unlink(input))
  write_table(data, input)
  with_output(function(output) run_command(c("score", input, "--encoding", "utf-8", how, "-o", output)))
}

# Call a function with the name of a file to write, and read what it has written.
with_output <- function(write) {
  output <- tempfile(fileext = ".csv")
  on.exit(unlink(c(output, paste0(output, ".meta.json"))))
  write(output)
  read_table(output)
}

check_columns <- function(data, columns) {
  if (!is.character(columns)) stop("columns are named by strings, for example word = \"word\".", call. = FALSE)
  missing <- setdiff(columns, names(data))
  if (length(missing)) {
    stop("`data` has no column called ", paste(missing, collapse = ", "), ". It has: ",
      paste(names(data), collapse = ", "), ".", call. = FALSE)
  }
}

group_flag <- function(by) {
  if (is.null(by)) return("none")
  if (any(grepl(",", by, fixed = TRUE))) stop("a column of `by` has a comma in its name; rename it.", call. = FALSE)
  paste(by, collapse = ",")
}

model_or_default <- function(model) if (is.null(model)) getOption("wordprob.model") else model
unit_or_default <- function(unit) if (is.null(unit)) getOption("wordprob.unit") else unit
