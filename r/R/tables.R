# Tables to and from the command: CSV in UTF-8, whatever the locale of R is.

WORDS_OF_TEXT <- c("word", "note", "model", "region", "candidate", "context", "target", "separator")

write_table <- function(data, path) {
  quoted <- function(cells) {
    cells <- enc2utf8(as.character(cells))
    cells[is.na(cells)] <- ""
    paste0("\"", gsub("\"", "\"\"", cells, fixed = TRUE), "\"")
  }
  lines <- do.call(paste, c(lapply(unclass(data), quoted), sep = ","))
  connection <- file(path, open = "wb")
  on.exit(close(connection))
  writeLines(c(paste(quoted(names(data)), collapse = ","), lines), connection, useBytes = TRUE)
}

# An empty cell is missing; the word NA stays a word, and a note is never missing.
read_table <- function(path) {
  cells <- read.csv(
    path,
    colClasses = "character", check.names = FALSE, encoding = "UTF-8", na.strings = character(), quote = "\""
  )
  for (name in names(cells)) {
    is_text <- name %in% WORDS_OF_TEXT || grepl("(^|_)note(_|$)", name)
    if (!is_text) cells[[name]] <- type.convert(cells[[name]], na.strings = "", as.is = TRUE)
  }
  cells
}

# The flags for further columns. One flag serves for two levels: "token_entropy" and "word_entropy" are
# --entropy token,word. Without a level, "entropy" and "rank" are those of the token.
extra_flags <- function(extras) {
  extras <- as.character(extras)
  with_levels <- c("entropy", "rank")
  extras <- ifelse(extras %in% with_levels, paste0("token_", extras), extras)
  flags <- character()
  for (name in with_levels) {
    levels <- c("token", "word")
    levels <- levels[paste(levels, name, sep = "_") %in% extras]
    if (length(levels)) flags <- c(flags, paste0("--", name), paste(levels, collapse = ","))
  }
  others <- setdiff(extras, c(outer(c("token", "word"), with_levels, paste, sep = "_")))
  c(flags, if (length(others)) paste0("--", gsub("_", "-", others, fixed = TRUE)))
}

# The flags for options that are given.
flags_of <- function(...) {
  given <- list(...)
  flags <- character()
  for (name in names(given)) {
    value <- given[[name]]
    flag <- paste0("--", gsub("_", "-", name, fixed = TRUE))
    if (is.null(value) || isFALSE(value)) next
    flags <- c(flags, if (isTRUE(value)) flag else as.vector(rbind(flag, as.character(value))))
  }
  flags
}
