"""What a model cannot do, and options that do not go together, are refused before the model is loaded.

The models here are directories with a ``config.json`` and nothing else, or servers that nobody runs, so that loading
one would be another error.
"""

from __future__ import annotations

import json
import sys

import pandas as pd
import pytest

import wordprob
from wordprob import runs, studies
from wordprob.cli import main
from wordprob.errors import OptionError, UnsupportedError
from wordprob.models import registry
from wordprob.models.completions.client import Client
from wordprob.models.huggingface import hub
from wordprob.models.protocol import Capabilities
from wordprob.options import ModelOptions, ScoringOptions

CONFIGS = {
    "masked": {"model_type": "bert", "architectures": ["BertForMaskedLM"]},
    "encoder-decoder": {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]},
    "causal": {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]},
}
SERVERS = ("https://127.0.0.1:9/v1", "openai:some-model@https://127.0.0.1:9/v1")

SCORE = ["score", "--text", "She saw the mark"]
SPELLINGS = ["spellings", "She saw the", "mark"]
CANDIDATES = ["candidates", "--context", "She saw the", "--candidate", "mark"]
NEXT = ["next", "--context", "She saw the"]
CHECK = ["check", "She saw the"]

NEEDS_NEXT_TOKENS = {
    "score, all spellings": [*SCORE, "--spellings", "all"],
    "score, entropy of words": [*SCORE, "--entropy", "word"],
    "score, rank of words": [*SCORE, "--rank", "word"],
    "candidates, all spellings": [*CANDIDATES, "--spellings", "all"],
    "spellings": SPELLINGS,
    "next": NEXT,
    "check": CHECK,
}


@pytest.fixture
def model(tmp_path):
    """Return a function that makes the directory of a model of some kind, without weights and tokenizer."""

    def make(kind):
        directory = tmp_path / kind
        directory.mkdir()
        (directory / "config.json").write_text(json.dumps(CONFIGS[kind]))
        return str(directory)

    return make


@pytest.fixture(autouse=True)
def no_connections(monkeypatch):
    """Fail if a server is asked anything."""

    def refuse(*_arguments, **_options):
        raise AssertionError("a server was asked")

    monkeypatch.setattr(Client, "get", refuse)
    monkeypatch.setattr(Client, "post", refuse)


@pytest.fixture
def refusal(monkeypatch, capsys):
    """Return a function that runs a command, which must refuse with an exit code, and returns what it says."""

    def run(exit_code, *command):
        monkeypatch.setattr(sys, "argv", ["wordprob", *map(str, command)])
        with pytest.raises(SystemExit) as ended:
            main()
        message = capsys.readouterr().err
        assert ended.value.code == exit_code, message
        return message

    return run


# --- what a kind of model cannot do -----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", NEEDS_NEXT_TOKENS.values(), ids=NEEDS_NEXT_TOKENS)
def test_a_masked_model(refusal, model, command):
    assert "is a masked model" in refusal(1, *command, "--model", model("masked"))


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("command", NEEDS_NEXT_TOKENS.values(), ids=NEEDS_NEXT_TOKENS)
def test_a_server(refusal, server, command):
    assert "a server lists only the most probable tokens" in refusal(1, *command, "--model", server)


@pytest.mark.parametrize("command", [SCORE, SPELLINGS, CANDIDATES, NEXT, CHECK], ids=lambda command: command[0])
def test_an_encoder_decoder_model_without_sources(refusal, model, command):
    exit_code = 2 if command[0] in ("score", "candidates") else 1
    assert "is an encoder–decoder model" in refusal(exit_code, *command, "--model", model("encoder-decoder"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--per-word", "--entropy", "word"],
            "the entropy and the rank of words are not for targets that have a source",
        ),
        (["--max-context", "5"], "--max-context is not for targets that have a source"),
    ],
)
def test_an_encoder_decoder_model_with_sources(refusal, model, tmp_path, options, message):
    (tmp_path / "pairs.csv").write_text("source,target\nSie sah,She saw\n")
    command = ["score", tmp_path / "pairs.csv", "--text-column", "target", "--source-column", "source"]
    assert message in refusal(1, *command, *options, "--model", model("encoder-decoder"))


def test_sources_for_another_model(refusal, model, tmp_path):
    (tmp_path / "pairs.csv").write_text("source,target\nSie sah,She saw\n")
    command = ["score", tmp_path / "pairs.csv", "--text-column", "target", "--source-column", "source"]
    assert "for encoder–decoder models only" in refusal(2, *command, "--model", model("causal"))


def test_tables(model):
    table = pd.DataFrame({"text": ["She saw the mark"]})
    with pytest.raises(UnsupportedError, match="masked model, for which `spellings` has no meaning"):
        wordprob.score_table(table, model("masked"), text_column="text", spellings="all")
    with pytest.raises(UnsupportedError, match="so the entropy cannot be computed"):
        wordprob.score_table(table, SERVERS[0], text_column="text", per_word=True, extras=["token_entropy"])


def test_the_second_model_is_checked_before_the_first_is_loaded(model):
    table = pd.DataFrame({"text": ["She saw the mark"]})
    with pytest.raises(UnsupportedError, match="masked model"):
        wordprob.score_table(table, [model("causal"), model("masked")], text_column="text", spellings="all")


def test_runs(model, tmp_path):
    (tmp_path / "corpus.txt").write_text("She saw the mark\n")
    with pytest.raises(UnsupportedError, match="masked model, for which `spellings` has no meaning"):
        runs.run(tmp_path / "corpus.txt", tmp_path / "out", model=model("masked"), spellings="all")
    with pytest.raises(OptionError, match="is an encoder–decoder model"):
        runs.run(tmp_path / "corpus.txt", tmp_path / "out", model=model("encoder-decoder"))
    with pytest.raises(OptionError, match="need the whole context"):
        runs.run(
            tmp_path / "corpus.txt", tmp_path / "out", model=model("causal"), extras=["word_rank"], max_context="5"
        )
    assert not (tmp_path / "out").exists()


def test_studies(model, tmp_path):
    (tmp_path / "corpus.txt").write_text("She saw the mark\n")
    all_spellings = ScoringOptions(spellings="all")
    with pytest.raises(UnsupportedError, match="masked model, for which `spellings` has no meaning"):
        studies.word_lengths([tmp_path / "corpus.txt"], model("masked"), scoring=all_spellings)
    with pytest.raises(OptionError, match="is an encoder–decoder model"):
        studies.perplexity([tmp_path / "corpus.txt"], model("encoder-decoder"))
    with pytest.raises(UnsupportedError, match="so the sum over all spellings cannot be computed"):
        studies.reading_times(corpora=["provo"], models=SERVERS[0], scoring=all_spellings)


# --- what is known about a model without loading it -------------------------------------------------------------------


def test_capabilities_by_kind(model):
    assert registry.capabilities(ModelOptions(model=model("causal"))) == Capabilities()
    assert registry.capabilities(ModelOptions(model=model("masked"))) == Capabilities(predicts_next_token=False)
    assert registry.capabilities(ModelOptions(model=model("encoder-decoder"))) == Capabilities(needs_source=True)
    for server in SERVERS:
        assert registry.capabilities(ModelOptions(model=server)) == Capabilities(has_whole_distributions=False)


@pytest.mark.parametrize("content", [None, "no JSON", "[]", '{"architectures": 1}'])
def test_what_cannot_be_read_is_not_known(tmp_path, content):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    assert registry.capabilities(ModelOptions(model=str(tmp_path))) is None


def test_a_backend_may_say_nothing():
    assert registry.capabilities(ModelOptions(model="exact:bow")) is None


# --- options that are wrong for every model ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ([*NEXT, "--mass", "5"], "--mass is 5.0; it must be above 0, and 1 at most"),
        ([*NEXT, "--words", "nonsense"], "no word definition is called 'nonsense'"),
        ([*NEXT, "--words", r"regex:\w{1,3}"], r"the words of 'regex:\w{1,3}' cannot be enumerated"),
        ([*CHECK, "--words", r"regex:\w{1,3}"], r"the words of 'regex:\w{1,3}' cannot be enumerated"),
        ([*CANDIDATES, "--entropy", "word"], "the entropy and the rank of words are computed for whole texts"),
        ([*CANDIDATES, "--rank", "word"], "the entropy and the rank of words are computed for whole texts"),
        ([*CANDIDATES, "--rank", "word", "--per-word"], "the entropy and the rank of words are computed for whole"),
        ([*SCORE, "--entropy", "word", "--max-context", "5"], "need the whole context; leave --max-context out"),
        (["spellings", "a", ""], "'' is 0 words by the definition 'whitespace'; give one"),
        (["spellings", "a", "b c"], "'b c' is 2 words by the definition 'whitespace'; give one"),
        (["spellings", "a", "b.", "-w", "punctuation"], "'b.' is 2 words by the definition 'punctuation'; give one"),
        (
            ["spellings", "a", "b c", "--boundary", "punctuation"],
            "'b c' is 2 words by the definition 'whitespace, boundary punctuation'; give one",
        ),
    ],
)
def test_options_that_are_wrong_for_every_model(refusal, model, command, message):
    exit_code = 1 if command[0] == "spellings" else 2
    assert message in refusal(exit_code, *command, "--model", model("causal"))


def test_no_beginnings_to_look_into(refusal, model):
    assert "0 is not in the range x>=1" in refusal(2, *CHECK, "--max-open", "0", "--model", model("causal"))


def test_entropy_of_words_for_targets_after_contexts(refusal, model, tmp_path):
    (tmp_path / "cloze.csv").write_text("context,target\nShe saw the,mark\n")
    command = ["score", tmp_path / "cloze.csv", "--context-column", "context", "--target-column", "target"]
    message = refusal(2, *command, "--entropy", "word", "--model", model("causal"))
    assert "the entropy and the rank of words are computed for whole texts" in message


def test_what_is_possible_is_not_refused(refusal, model):
    directory = model("causal")
    for command in [SCORE, *NEEDS_NEXT_TOKENS.values()]:
        assert "could not be loaded" in refusal(1, *command, "--model", directory)


# --- models on the hub ------------------------------------------------------------------------------------------------


def test_the_configuration_in_the_cache_is_read_without_the_hub(monkeypatch, model):
    path = f"{model('masked')}/config.json"
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: path)
    monkeypatch.setattr(hub, "in_reach", lambda: pytest.fail("the hub was asked"))
    assert registry.capabilities(ModelOptions(model="someone/bert")) == Capabilities(predicts_next_token=False)


def test_only_the_configuration_is_fetched(monkeypatch, model):
    fetched = []

    def fetch(source, file, revision):
        fetched.append((source, file, revision))
        return f"{model('encoder-decoder')}/{file}"

    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: None)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", fetch)
    monkeypatch.setattr(hub, "in_reach", lambda: True)
    assert registry.capabilities(ModelOptions(model="someone/t5@v2")) == Capabilities(needs_source=True)
    assert fetched == [("someone/t5", "config.json", "v2")]


def test_nothing_is_known_without_the_hub(monkeypatch):
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: None)
    monkeypatch.setattr(hub, "in_reach", lambda: False)
    assert registry.capabilities(ModelOptions(model="someone/gpt")) is None
