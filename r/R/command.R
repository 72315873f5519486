# The command `wordprob`: where it is, how it is called, and what becomes of its messages.

#' Options that hold for all calls: the model, the unit, and where the command is.
wp_options <- function(model, unit, command) {
  if (!missing(model)) options(wordprob.model = model)
  if (!missing(unit)) options(wordprob.unit = match.arg(unit, c("bits", "nats")))
  if (!missing(command)) options(wordprob.command = command)
  chosen <- list(
    model = getOption("wordprob.model"),
    unit = getOption("wordprob.unit", "bits"),
    command = getOption("wordprob.command")
  )
  if (missing(model) && missing(unit) && missing(command)) chosen else invisible(chosen)
}

# The folder of the Python environment that wp_install() makes.
default_environment <- function() file.path(R_user_dir("wordprob", "data"), "python")

# The path of a program inside a Python environment.
program_in <- function(environment, name) {
  if (.Platform$OS.type == "windows") {
    file.path(environment, "Scripts", paste0(name, ".exe"))
  } else {
    file.path(environment, "bin", name)
  }
}

wp_command <- function() {
  chosen <- getOption("wordprob.command")
  if (!is.null(chosen)) return(chosen)
  variable <- Sys.getenv("WORDPROB_COMMAND")
  if (nzchar(variable)) {
    return(if (file.exists(variable)) variable else strsplit(variable, " +")[[1]])
  }
  installed <- program_in(default_environment(), "wordprob")
  if (file.exists(installed)) return(installed)
  found <- unname(Sys.which("wordprob"))
  if (nzchar(found)) return(found)
  stop(
    "the command wordprob is not installed. Install it with wp_install(), or name it with ",
    "wp_options(command = \"/path/to/wordprob\").",
    call. = FALSE
  )
}

# Run the command; return what it printed. Its remarks become messages, its failure an error.
run_command <- function(arguments) {
  command <- wp_command()
  out <- tempfile()
  err <- tempfile()
  on.exit(unlink(c(out, err)))
  arguments <- enc2utf8(as.character(c(command[-1], arguments)))
  status <- suppressWarnings(system2(command[1], shQuote(arguments), stdout = out, stderr = err))
  said <- read_lines(err)
  if (status == 127) {
    stop("the command ", command[1], " could not be started.", call. = FALSE)
  }
  if (status != 0) stop(failure_message(said, status), call. = FALSE)
  for (remark in said[startsWith(said, "wordprob: ")]) message(remark)
  read_lines(out)
}

read_lines <- function(path) {
  if (!file.exists(path)) return(character())
  readLines(path, warn = FALSE, encoding = "UTF-8")
}

# What the command said when it failed; without its name, as R puts "Error:" before it.
failure_message <- function(said, status) {
  ours <- sub("^(wordprob|Error): ", "", said[grepl("^(wordprob|Error): ", said)])
  if (length(ours)) return(paste(ours, collapse = "\n"))
  if (length(said)) return(paste(utils::tail(said, 5), collapse = "\n"))
  paste("wordprob ended with exit code", status)
}

wp_models <- function() {
  lines <- run_command("models")
  cat(lines, sep = "\n")
  invisible(lines)
}

wp_install <- function(environment = NULL, python = NULL, package = "wordprob[models]", upgrade = FALSE) {
  if (is.null(environment)) environment <- default_environment()
  if (is.null(python)) python <- find_python()
  own_python <- program_in(environment, "python")
  if (!file.exists(own_python)) {
    dir.create(dirname(environment), recursive = TRUE, showWarnings = FALSE)
    run_step(python, c("-m", "venv", environment), "the Python environment could not be made")
  }
  flags <- c("-m", "pip", "install", if (upgrade) "--upgrade", package)
  run_step(own_python, flags, paste(package, "could not be installed"))
  command <- program_in(environment, "wordprob")
  if (!file.exists(command)) {
    stop(package, " was installed, but there is no command at ", command, ".", call. = FALSE)
  }
  if (!identical(environment, default_environment())) wp_options(command = command)
  message("wordprob is installed: ", command)
  invisible(command)
}

find_python <- function() {
  found <- Sys.which(c("python3", "python"))
  found <- unname(found[nzchar(found)])
  if (!length(found)) {
    stop("Python is not installed; wordprob needs Python 3.11 or later. Name it with `python`.", call. = FALSE)
  }
  found[1]
}

run_step <- function(program, arguments, failure) {
  said <- tempfile()
  on.exit(unlink(said))
  status <- suppressWarnings(system2(program, shQuote(arguments), stdout = said, stderr = said))
  if (status != 0) {
    stop(failure, ":\n", paste(utils::tail(read_lines(said), 10), collapse = "\n"), call. = FALSE)
  }
  invisible(NULL)
}
