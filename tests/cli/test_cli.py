"""The commands, as a newcomer would type them."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import click
import pandas as pd
import pytest
from click.testing import CliRunner

from small_tokenizers import save_tokenizer, small_tokenizer
from wordprob.cli import COMMANDS, cli, main
from wordprob.cli.messages import to_flags
from wordprob.cli.options import models_options, options_of, scoring_options
from wordprob.core.words import define
from wordprob.errors import OptionError
from wordprob.options import ModelOptions, ScoringOptions

EXACT = ["--model", "exact:bow"]


def run(*arguments: str) -> subprocess.CompletedProcess:
    """Run the command in a new process."""
    return subprocess.run(
        [sys.executable, "-m", "wordprob", *arguments], capture_output=True, text=True, check=False, encoding="utf-8"
    )


def invoke(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    """Run the command in this process, through its entry point; return exit code, output and messages."""
    monkeypatch.setattr(sys, "argv", ["wordprob", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


@pytest.fixture
def wordprob(monkeypatch, capsys):
    return lambda *arguments: invoke(monkeypatch, capsys, *arguments)


def test_score_writes_a_table_and_its_metadata(wordprob, tmp_path):
    source, target = tmp_path / "in.txt", tmp_path / "out.tsv"
    source.write_text("She saw the mark.\n\nthe marker\n", encoding="utf-8")
    code, out, err = wordprob("score", str(source), "-o", str(target), *EXACT)
    assert (code, out, err) == (0, "", ""), "nothing is printed outside a terminal"
    frame = pd.read_csv(target, sep="\t")
    assert frame["text_id"].tolist() == [0, 0, 0, 0, 2, 2], "the blank line is a text with no words"
    assert json.loads((tmp_path / "out.tsv.meta.json").read_text())["unit"] == "bits"


def test_texts_without_a_word_are_counted(wordprob, tmp_path):
    (tmp_path / "in.txt").write_text("She saw\n\n...\n", encoding="utf-8")
    summary = tmp_path / "texts.tsv"
    arguments = ("--words", r"regex:\w+", "--texts-output", str(summary), *EXACT)
    code, _, err = wordprob("score", str(tmp_path / "in.txt"), *arguments)
    assert (code, err) == (0, "wordprob: 1 of 3 texts has no word with a value: left out of totals\n")
    texts = pd.read_csv(summary, sep="\t", keep_default_na=False)
    assert texts["log_prob_words"].tolist()[1:] == ["", ""]
    assert texts["note"].tolist() == ["", "no words", "no words"]


def test_score_into_a_pipe_is_tsv(wordprob):
    code, out, _ = wordprob("score", "--text", "She saw the mark.", "--words", "punctuation", "--unit", "nats", *EXACT)
    frame = pd.read_csv(io.StringIO(out), sep="\t")
    assert code == 0
    assert frame["word"].tolist() == ["She", "saw", "the", "mark", "."]
    assert len(str(frame["surprisal"][1])) > 8, "full precision, not two decimals"


def test_formats(wordprob):
    _, csv, _ = wordprob("score", "--text", "the mark", "--format", "csv", *EXACT)
    _, lines, _ = wordprob("score", "--text", "the mark", "--format", "jsonl", *EXACT)
    assert pd.read_csv(io.StringIO(csv))["word"].tolist() == ["the", "mark"]
    assert [json.loads(line)["word"] for line in lines.splitlines()] == ["the", "mark"]


def test_whole_file_and_summary(wordprob, tmp_path):
    source = tmp_path / "in.txt"
    source.write_text("She saw\nthe mark.\n", encoding="utf-8")
    code, out, _ = wordprob("score", str(source), "--whole-file", "--texts-output", str(tmp_path / "texts.tsv"), *EXACT)
    assert code == 0
    assert pd.read_csv(io.StringIO(out), sep="\t")["text_id"].unique().tolist() == [0]
    assert pd.read_csv(tmp_path / "texts.tsv", sep="\t")["n_words"].tolist() == [4]


def test_words_from_a_list(wordprob, tmp_path):
    (tmp_path / "in.txt").write_text("She saw the mark.\n\nthe marker\n", encoding="utf-8")
    (tmp_path / "words.txt").write_text("She\nsaw\nthe\nmark\n.\n\nthe\nmarker\n", encoding="utf-8")
    code, out, _ = wordprob("score", str(tmp_path / "in.txt"), "--words", f"list:{tmp_path}/words.txt", *EXACT)
    assert code == 0
    assert pd.read_csv(io.StringIO(out), sep="\t")["word"].tolist() == "She saw the mark . the marker".split()
    (tmp_path / "words.txt").write_text("She\nsaw\n", encoding="utf-8")
    code, out, err = wordprob("score", str(tmp_path / "in.txt"), "--words", f"list:{tmp_path}/words.txt", *EXACT)
    assert code == 1
    assert "2 texts that are not blank but 1 lists" in err


def test_paragraphs(wordprob, tmp_path):
    path = tmp_path / "story.txt"
    path.write_text("She saw\nthe mark\n\n\nthe marker\r\n \nShe saw\n", encoding="utf-8")
    code, out, err = wordprob("score", str(path), "--texts", "blank-line", *EXACT)
    assert code == 0
    rows = [line.split("\t")[:3] for line in out.splitlines()[1:]]
    assert [row[0] for row in rows] == ["0"] * 4 + ["1"] * 2 + ["2"] * 2
    assert "1 paragraph has line breaks inside, which the model reads as they are" in err
    assert wordprob("score", str(path), "--texts", "blank-line", "--whole-file", *EXACT)[0] == 2
    assert wordprob("score", "--text", "She saw", "--texts", "blank-line", *EXACT)[0] == 2


def test_missing_words_are_counted_with_their_reason(wordprob, tmp_path):
    code, _, err = wordprob("score", "--text", "She 中 saw", *EXACT)
    assert code == 0
    assert "1 of 3 words has no value: what comes before it has probability zero" in err


def test_words_of_a_list_that_end_by_no_rule_say_so(wordprob, tmp_path):
    (tmp_path / "words.txt").write_text("the\nmark\ner\n", encoding="utf-8")
    code, out, _ = wordprob("score", "--text", "the marker", "--words", f"list:{tmp_path}/words.txt", *EXACT)
    assert code == 0
    assert out.count("ends by no rule") == 1


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["score", "nowhere.txt"], 1, "no such file: nowhere.txt"),
        (["score", "--text", "x", "--model", "gpt2-smal"], 1, "Did you mean gpt2-small"),
        (["score", "--text", "x", "--model", "./nowhere"], 1, "no such directory: ./nowhere"),
        (["score", "--text", "x", "--model", "nowhere.gguf"], 1, "no such file"),
        (["score", "--text", "x", "--words", "letters"], 2, "no word definition"),
        (["score", "--text", "x", "--words", "regex:("], 2, "not a regular expression"),
        (["score", "--text", "the mark", "--words", r"regex:\d+", *EXACT], 1, "matches nothing"),
        (["score", "--text", "x", "-o", "no/such/place.tsv"], 1, "no directory no/such"),
        (["score", "--text", "x", "-o", "out.docx"], 2, "cannot tell a format"),
        (["score", "--text", "x", "--format", "parquet"], 2, "name a file with -o"),
        (["tokenizer", "nowhere"], 1, "no model is called"),
    ],
)
def test_an_error_is_one_line_that_says_what_to_do(wordprob, tmp_path, monkeypatch, arguments, exit_code, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = wordprob(*arguments)
    assert code == exit_code
    assert out == ""
    assert message in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == [], "nothing half-written"


@pytest.mark.parametrize(
    "arguments",
    [
        ["score"],
        ["score", "f", "--text", "x"],
        ["scor"],
        ["score", "--unit", "bans"],
        ["score", "--text", "x", "--device", "gpu"],
        ["score", "--text", "x", "--dtype", "float8"],
        ["score", "--text", "x", "--min-context", "0"],
        ["candidates", "--context", "x", "--candidate", "y", "--device", "gpu"],
    ],
)
def test_wrong_usage_is_exit_code_2(wordprob, arguments):
    code, _, err = wordprob(*arguments)
    assert code == 2
    assert "Error" in err


def test_a_file_that_is_not_utf8_is_announced(wordprob, tmp_path):
    source = tmp_path / "latin.txt"
    source.write_bytes(b"fine\nna\xefve\n")
    code, out, err = wordprob("score", str(source), *EXACT)
    assert code == 0
    assert "naïve" in out
    assert err.startswith(f"wordprob: {source} is not UTF-8; it is taken for Windows-1252. Line 2 reads 'naïve'.")
    assert err.splitlines()[0].endswith("name its --encoding.")
    code, out, err = wordprob("score", str(source), "--encoding", "mac-roman", *EXACT)
    assert (code, "naÔve" in out, "UTF-8" in err) == (0, True, False)
    code, _, err = wordprob("score", str(source), "--encoding", "utf-8", *EXACT)
    assert (code, "line 2" in err) == (1, True)
    code, _, err = wordprob("score", str(source), "--encoding", "klingon", *EXACT)
    assert (code, "no encoding is called 'klingon'" in err) == (2, True)


def test_an_empty_file_is_an_error(wordprob, tmp_path):
    (tmp_path / "empty.txt").write_bytes(b"")
    code, _, err = wordprob("score", str(tmp_path / "empty.txt"), *EXACT)
    assert code == 1
    assert "is empty" in err


def test_a_byte_order_mark_and_windows_line_ends_are_not_text(wordprob, tmp_path):
    (tmp_path / "win.txt").write_bytes(b"\xef\xbb\xbfthe mark\r\nthe marker\r\n")
    _, out, _ = wordprob("score", str(tmp_path / "win.txt"), *EXACT)
    frame = pd.read_csv(io.StringIO(out), sep="\t")
    assert frame["word"].tolist() == ["the", "mark", "the", "marker"]
    assert frame["start"].tolist() == [0, 4, 0, 4]


def test_existing_output_is_kept_unless_forced(wordprob, tmp_path):
    target = tmp_path / "out.tsv"
    target.write_text("precious")
    code, _, err = wordprob("score", "--text", "the mark", "-o", str(target), "--model", "no/such-model")
    assert code == 1
    assert "--force" in err, "refused before any model is looked for"
    assert target.read_text() == "precious"
    code, _, _ = wordprob("score", "--text", "the mark", "-o", str(target), "--force", *EXACT)
    assert code == 0
    assert target.read_text().startswith("text_id")


def test_unwritable_output_is_refused_before_the_model_is_loaded(wordprob, tmp_path, monkeypatch):
    """The tests may run as root, who may write everywhere, so ``os.access`` is replaced."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    code, _, err = wordprob("score", "--text", "x", "-o", str(tmp_path / "x.tsv"), "--model", "no/such-model")
    assert code == 1
    assert "no permission" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("on_terminal", [True, False])
def test_a_progress_bar_on_a_terminal_and_nothing_elsewhere(monkeypatch, on_terminal):
    from wordprob.cli.output import progress

    screen = io.StringIO()
    screen.isatty = lambda: on_terminal
    monkeypatch.setattr(sys, "stderr", screen)
    with progress(4, "texts") as advance:
        advance(2, 4)
        advance(4, 4)
    assert ("texts" in screen.getvalue()) == on_terminal


def test_models_lists_names_sources_and_licences(wordprob):
    _, out, _ = wordprob("models")
    assert "smollm2-135m" in out
    assert "EleutherAI/pythia-1.4b" in out
    assert "Apache-2.0" in out
    _, out, _ = wordprob("models", "--json")
    names = [row["name"] for row in json.loads(out)]
    assert {"gpt2-small", "gpt2-xl", "pythia-70m", "pythia-1.4b", "pythia-12b"} <= set(names)


def test_tokenizer_facts(wordprob, tmp_path):
    directory = str(save_tokenizer("small-openai-gpt", tmp_path))
    _, out, _ = wordprob("tokenizer", directory, "--json")
    facts = json.loads(out)
    assert facts["family"] == "eow"
    assert facts["first_word_marked"] is False
    assert sum(facts["atoms"].values()) == facts["vocabulary"] == small_tokenizer("small-openai-gpt").vocabulary.size
    assert facts["start"] is None
    assert facts["end"] == []
    _, out, _ = wordprob("tokenizer", directory)
    assert "end-of-word" in out
    assert "mark</w>" in out


def test_tokenizer_of_the_toy(wordprob):
    code, out, _ = wordprob("tokenizer", "exact:eow-unmarked", "--json")
    assert code == 0
    assert json.loads(out)["family"] == "eow"


def test_the_help_of_every_command_shows_examples():
    for name in COMMANDS:
        shown = CliRunner().invoke(cli, [name, "--help"]).output
        assert "Examples:" in shown, name
    shown = CliRunner().invoke(cli, ["--help"]).output
    assert all(name in shown for name in COMMANDS)


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from wordprob.cli import cli\n"
        "try: cli(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'transformers', 'pandas', 'numpy', 'matplotlib', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_closed_pipe_is_not_an_error():
    command = f"{sys.executable} -m wordprob models | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_module_and_version():
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("wordprob ")
    assert Path(sys.executable).exists()


# --- candidates -------------------------------------------------------------------------------------------------------


def candidates(wordprob, *arguments: str) -> pd.DataFrame:
    code, out, err = wordprob("candidates", *arguments, "--words", "punctuation", *EXACT)
    assert code == 0, err
    return pd.read_csv(io.StringIO(out), sep="\t")


def test_candidates_have_the_probabilities_of_the_language(wordprob, tmp_path):
    (tmp_path / "lexicon.txt").write_text("mark\nmarker\n\nmarked\n", encoding="utf-8")
    lexicon = ["--words-file", f"{tmp_path}/lexicon.txt"]
    frame = candidates(wordprob, "--context", "She saw the", *lexicon, "--unit", "nats")
    assert (-frame["surprisal"]).map(math.exp).round(6).tolist() == [0.4, 0.35, 0.25]
    assert frame["candidate"].tolist() == ["mark", "marker", "marked"]
    assert frame["probability"].round(6).tolist() == [0.4, 0.35, 0.25]
    assert "share" not in frame.columns


def test_shares_of_candidates_add_up_to_one(wordprob):
    given = ["--candidate", "mark", "--candidate", "marker", "--candidate", "marked mark"]
    frame = candidates(wordprob, "--context", "She saw the", *given, "--share")
    assert frame["share"].sum() == pytest.approx(1.0, abs=1e-12)
    assert frame["share"].to_numpy() == pytest.approx((frame["probability"] / frame["probability"].sum()).to_numpy())
    assert frame["n_words"].tolist() == [1, 1, 2]
    per_word = candidates(wordprob, "--context", "She saw the", *given, "--per-word")
    assert per_word["word"].tolist() == ["mark", "marker", "marked", "mark"]
    totals = per_word.groupby("text_id")["surprisal"].sum()
    assert frame["surprisal"].to_numpy() == pytest.approx(totals.to_numpy(), abs=1e-12)


def test_a_share_is_not_that_of_words(wordprob):
    given = ["--context", "She saw the", "--candidate", "mark", "--share", "--per-word"]
    code, _, err = wordprob("candidates", *given, *EXACT)
    assert code == 2
    assert "leave --per-word out" in err


def test_the_separator_of_candidates(wordprob):
    """Without one, a candidate that would go on with the context's last word is refused."""
    given = ["--context", "She saw the", "--candidate", "mark", "--separator", ""]
    code, _, err = wordprob("candidates", *given, *EXACT)
    assert code == 1
    assert "goes on with the context's last word" in err


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (["--context", "x"], "--words-file"),
        (["--context", "x", "--candidate", "y", "--words-file", "z"], "--candidate"),
        (["--candidate", "y"], "--context-file"),
    ],
)
def test_candidates_need_one_context_and_one_source(wordprob, arguments, flag):
    code, _, err = wordprob("candidates", *arguments, *EXACT)
    assert code == 2
    assert flag in err


def test_a_file_without_candidates_is_an_error(wordprob, tmp_path):
    (tmp_path / "empty.txt").write_text("\n\n", encoding="utf-8")
    code, _, err = wordprob("candidates", "--context", "x", "--words-file", f"{tmp_path}/empty.txt", *EXACT)
    assert code == 1
    assert "no candidates" in err


def test_candidates_have_the_columns_and_values_of_whole_texts(wordprob):
    options = ["--entropy", "--rank", "--min-context", "2", "--readers", "0"]
    frame = candidates(wordprob, "--context", "She saw the", "--candidate", "mark", "--candidate", "marker", *options)
    _, out, _ = wordprob(
        *["score", "--text", "She saw the mark", "--text", "She saw the marker", "--words", "punctuation"],
        *[*options, *EXACT],
    )
    whole = pd.read_csv(io.StringIO(out), sep="\t").query("word_id == 3").reset_index(drop=True)
    columns = [
        "n_tokens",
        "context_tokens",
        "surprisal",
        "surprisal_naive",
        "before",
        "after",
        "token_entropy",
        "token_rank",
    ]
    pd.testing.assert_frame_equal(frame[columns], whole[columns], atol=1e-12)


def test_the_words_of_candidates_from_a_list(wordprob, tmp_path):
    (tmp_path / "words.txt").write_text("the\nmark\n.\n\nthe\nmarker\n", encoding="utf-8")
    given = ["--context", "She saw", "--candidate", "the mark.", "--candidate", "the marker"]
    code, out, err = wordprob("candidates", *given, "--per-word", "--words", f"list:{tmp_path}/words.txt", *EXACT)
    assert code == 0, err
    frame = pd.read_csv(io.StringIO(out), sep="\t")
    assert frame["word"].tolist() == ["the", "mark", ".", "the", "marker"]
    assert frame["text_id"].tolist() == [0, 0, 0, 1, 1]
    assert frame["start"].tolist() == [0, 4, 8, 0, 4]
    code, _, err = wordprob("candidates", *given[:4], "--words", f"list:{tmp_path}/words.txt", *EXACT)
    assert code == 1
    assert "1 texts that are not blank but 2 lists" in err


# --- flags from declared options --------------------------------------------------------------------------------------


def invoke_command(decorator, *arguments: str):
    """Make a command with a decorator, run it, and return what it received."""
    received = {}

    @click.command()
    @decorator
    def command(**values):
        received.update(values)

    result = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return received


def test_options_of_makes_an_object_from_the_flags():
    received = invoke_command(options_of(ModelOptions, "opened"), "-m", "exact:bow", "--compile")
    assert received == {"opened": ModelOptions("exact:bow", compile=True)}


def test_options_left_out_have_no_flag_and_keep_their_default():
    received = invoke_command(scoring_options("readers", "extras"), "--unit", "nats")
    assert received == {"scoring": ScoringOptions(unit="nats")}
    with pytest.raises(AssertionError, match="No such option"):
        invoke_command(scoring_options("readers", "extras"), "--rank")


def test_further_columns_have_a_flag_each():
    assert invoke_command(scoring_options(), "--rank", "--entropy")["scoring"].extras == ("token_entropy", "token_rank")


def test_several_models_share_how_they_are_opened():
    received = invoke_command(models_options(), "-m", "exact:bow", "-m", "exact:eow", "--dtype", "float16")
    assert [model.model for model in received["models"]] == ["exact:bow", "exact:eow"]
    assert {model.dtype for model in received["models"]} == {"float16"}


def test_a_command_may_have_no_model_by_default():
    assert invoke_command(models_options(default=()))["models"] == []
    assert [model.model for model in invoke_command(models_options())["models"]] == [ModelOptions().model]


# --- messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "printed"),
    [
        ("specify another `text_column`", "specify another --text-column"),
        ("either `group_by` or `sum_by`.", "either --group-by or --sum-by."),
        ("`format` or `format_`", "--format or --format"),
        ("`wordprob models` lists the names", "`wordprob models` lists the names"),
        ("no column `nonsense`", "no column `nonsense`"),
        ("the column 'unit'", "the column 'unit'"),
    ],
)
def test_names_of_options_become_flags(message, printed):
    assert to_flags(message) == printed
    assert to_flags(message, cli.get_command(click.Context(cli), "score")) == printed


def test_only_the_flags_of_the_command_that_runs():
    models = cli.get_command(click.Context(cli), "models")
    assert to_flags("`json` and `group_by`", models) == "--json and `group_by`"


def test_the_command_prints_flags_where_the_library_names_options(wordprob, monkeypatch):
    def fail(*_, **__):
        from wordprob.errors import InputError

        raise InputError("the texts are long; specify `min_context`")

    monkeypatch.setattr("wordprob.scoring.loading.open_model", fail)
    code, _, err = wordprob("score", "--text", "the mark", *EXACT)
    assert (code, err) == (1, "wordprob: the texts are long; specify --min-context\n")


def test_a_tokeniser_that_is_loaded_otherwise_than_its_file_says(wordprob, tmp_path):
    """transformers sets the space before texts by the configuration, whatever tokenizer.json says."""
    folder = save_tokenizer("small-gpt2", tmp_path, tokenizer_class="GPT2Tokenizer", add_prefix_space=False)
    assert "otherwise" not in wordprob("tokenizer", str(folder))[1]
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "add_prefix_space": True}))
    code, out, _ = wordprob("tokenizer", str(folder))
    assert code == 0
    difference = "'She saw the mark.' is ĠShe, by tokenizer.json She"
    assert f"file        loaded otherwise than its file says: {difference}\n" in out
    assert json.loads(wordprob("tokenizer", str(folder), "--json")[1])["differs_from_file"] == difference


def test_control_characters_in_messages_are_escaped():
    assert to_flags("no file a\rb\x1b[2J\x85c\u2028d; see `text_column`") == (
        r"no file a\rb\x1b[2J\x85c\u2028d; see --text-column"
    )
    assert to_flags("a list:\n\tone") == "a list:\n\tone"


@pytest.mark.parametrize("pattern", ["((?R))?a", "(a(?1)?b)", "(?P<x>a(?&x)?)", "(?P<x>a(?P>x)?)"])
def test_a_recursive_pattern_is_refused_in_one_line(pattern):
    with pytest.raises(OptionError, match="calls itself or one of its groups") as failure:
        define(f"regex:{pattern}")
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize("pattern", [r"\(?R|\w+", r"[(?R)\w]+", r"(\w)\1|\w"])
def test_a_pattern_that_only_looks_recursive_is_not_called_so(pattern):
    try:
        define(f"regex:{pattern}")
    except OptionError as error:
        assert "calls itself" not in str(error)  # noqa: PT017
