"""Models on a server: exact where the server lists everything, and the truth inside the bounds where it does not."""

from __future__ import annotations

import gzip
import json
import threading
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import audit
import wordprob
from completions_server import DIALECTS, KEY, as_llama_cpp, serving
from wordprob.errors import ModelError, OptionError, UnknownModelError, UnsupportedError, WordprobError
from wordprob.models.completions import client as client_module
from wordprob.models.completions.client import Client, NonsenseError, RefusedError, ServerError
from wordprob.models.exact import LeakyLM
from wordprob.models.registry import resolve

TEXTS = ["the marker", "the mark's. the marked ark", "..", "th"]
EVERYTHING = 1000
BOUNDS = ["surprisal_low", "surprisal", "surprisal_high"]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """Do not wait between attempts, and use no key that the machine may have."""
    waited = []
    monkeypatch.setattr(client_module.time, "sleep", waited.append)
    for name in client_module.KEY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return waited


@pytest.fixture(scope="module")
def truth():
    return wordprob.Scorer(LeakyLM())


def load(server, **options):
    return wordprob.load(server.url, tokenizer="exact:leaky", **options)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("words", ["whitespace", "punctuation", "characters"])
def test_a_server_that_lists_everything_is_exact(dialect, words, truth):
    with serving(dialect) as server:
        found = load(server, top_logprobs=EVERYTHING).score(TEXTS, words, unit="nats").to_pandas()
    expected = truth.score(TEXTS, words, unit="nats").to_pandas()
    assert found["word"].tolist() == expected["word"].tolist()
    for column in ["surprisal_naive", *BOUNDS]:
        source = "surprisal_naive" if column == "surprisal_naive" else "surprisal"
        assert np.allclose(found[column], expected[source], atol=1e-9), column


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("top", [1, 3, 10])
def test_the_truth_is_inside_the_bounds(dialect, top, truth):
    with serving(dialect) as server:
        found = load(server, top_logprobs=top).score(TEXTS, "punctuation", tolerance=3.0).to_pandas()
    expected = truth.score(TEXTS, "punctuation").to_pandas()
    assert np.allclose(found["surprisal_naive"], expected["surprisal_naive"], atol=1e-9)
    assert (found["surprisal_low"] <= expected["surprisal"] + 1e-9).all()
    assert (found["surprisal_high"] >= expected["surprisal"] - 1e-9).all()
    assert ((found["surprisal_low"] <= found["surprisal"]) & (found["surprisal"] <= found["surprisal_high"])).all()
    width = found["surprisal_high"] - found["surprisal_low"]
    assert (width > 0).any()
    assert (found["note"].str.contains("wider than the tolerance") == (width > 3.0)).all()
    assert {bool(is_wide) for is_wide in width > 3.0} == ({False} if top == 10 else {True, False})


def test_more_listed_tokens_make_narrower_intervals(truth):
    widths = []
    with serving() as server:
        for top in (2, 5, 10, 20):
            found = load(server, top_logprobs=top).score(TEXTS).to_pandas()
            widths.append(float(np.minimum(found["surprisal_high"] - found["surprisal_low"], 100).mean()))
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < widths[0] / 2


def test_bounds_hold_for_random_distributions():
    """Judge the bounds on atoms by distributions that are known in full."""
    from wordprob.core.atoms import Atoms
    from wordprob.models.completions.listing import listed_row, scores_from_listing
    from wordprob.models.protocol import Request

    random = np.random.default_rng(0)
    for _ in range(300):
        size = int(random.integers(3, 30))
        atoms = Atoms(("a", "b", "end", "unreachable"), random.integers(0, 4, size))
        log_probs = random.normal(0, 3, size)
        log_probs -= np.log(np.exp(log_probs).sum())
        observed = int(random.integers(size))
        order = np.argsort(-log_probs)[: int(random.integers(1, size + 1))]
        row = listed_row({int(i): float(log_probs[i]) for i in order}, observed, float(log_probs[observed]))
        ids = random.choice(size, size=2, replace=False)
        request = Request(np.array([0, observed]), gather=np.array([0]), gather_lists=np.array([0]), id_lists=[ids])
        scores = scores_from_listing([row, row], request, atoms)
        members = random.random(4) < 0.5
        truth = np.exp(log_probs)[members[atoms.atom_of_token]].sum()
        least, most = np.exp(scores.unlisted.log_bounds(0, members, np.zeros(4, dtype=bool)))
        assert least - 1e-9 <= truth <= most + 1e-9
        gathered = np.exp(log_probs)[ids].sum()
        assert scores.unlisted.gathered_listed[0] - 1e-9 <= gathered
        assert gathered <= scores.unlisted.gathered_listed[0] + scores.unlisted.gathered_most[0] + 1e-9


def test_continuations_long_texts_and_repeated_texts(truth):
    with serving() as server:
        scorer = load(server, top_logprobs=EVERYTHING)
        words = ["mark", "marker", "ark."]
        found = scorer.score_continuations("the", words).to_pandas()["surprisal"]
        assert np.allclose(found, truth.score_continuations("the", words).to_pandas()["surprisal"])
        long = "the marker " * 120  # more tokens than the server takes at a time
        found = scorer.score([long.strip()], min_context=20).to_pandas()
        assert found["context_tokens"].max() < 256
        assert np.allclose(found["surprisal"], truth.score([long.strip()]).to_pandas()["surprisal"])
        before = len(server.requests)
        scorer.score(["the mark"])
        n_requests = len(server.requests) - before
        before = len(server.requests)
        scorer.score(["the mark"] * 5)
        assert len(server.requests) - before == n_requests, "the same text is sent once"


CUT_OFF = 9  # "ed", which only "marked" has


def test_a_token_that_is_cut_off_is_known_where_it_is_listed(truth):
    with serving("llama.cpp") as server:
        scorer = load(server, top_logprobs=EVERYTHING)
        server.toy.cut_off = (CUT_OFF,)
        found = scorer.score(TEXTS).to_pandas()
    assert np.allclose(found["surprisal"], truth.score(TEXTS).to_pandas()["surprisal"], atol=1e-9)


@pytest.mark.parametrize("top", [1, 2])
def test_a_token_that_is_cut_off_is_missing_where_it_is_not_listed(top, truth):
    with serving("llama.cpp") as server:
        scorer = load(server, top_logprobs=top)
        expected = scorer.score(TEXTS).to_pandas()
        server.toy.cut_off = (CUT_OFF,)
        found = scorer.score(TEXTS).to_pandas()
    is_missing = found["surprisal"].isna()
    assert found["word"][is_missing].tolist() == ["marked"]
    assert found["note"][is_missing].str.contains("does not tell the probability of a token that ends inside").all()
    for column in BOUNDS:
        assert np.allclose(found[column][~is_missing], expected[column][~is_missing]), column
    assert np.isnan(found["surprisal_high"][is_missing]).all()


def test_a_server_that_lists_nothing_at_all():
    with serving("llama.cpp") as server:
        scorer = load(server)
        server.toy.cut_off = range(31)
        with pytest.raises(NonsenseError, match="where a list of log-probabilities belongs"):
            scorer.score("the mark")


# --- what a server cannot give ---------------------------------------------------------------------------------------


def test_what_needs_whole_distributions_is_refused():
    with serving() as server:
        scorer = load(server)
        with pytest.raises(UnsupportedError, match="lists only the most probable tokens, so the entropy"):
            scorer.score("the mark", extras=["token_entropy"])
        with pytest.raises(UnsupportedError, match="all spellings"):
            scorer.score("the mark", spellings="all")
        with pytest.raises(UnsupportedError, match="whole distributions"):
            scorer.next_words("the")
        with pytest.raises(OptionError, match="`dtype` is for models that run on this machine"):
            load(server, dtype="float32")
    with pytest.raises(OptionError, match="`top_logprobs` is for models on a server"):
        wordprob.load("exact:bow", top_logprobs=3)


def silent(_toy, _body):
    return {"choices": [{"text": "hello"}]}


def generated_only(toy, _body):
    return {"choices": [{"logprobs": {"tokens": ["a"], "token_logprobs": [-1.0], "top_logprobs": [{"a": -1.0}]}}]}


def list_of_numbers(_toy, _body):
    return [1, 2, 3]


def too_probable(toy, body):
    ids = toy.ids(body["prompt"])
    lists = [None, *({str(i): {"logprob": 0.0} for i in {2, 3, observed}} for observed in ids[1:])]
    after = {"token_id:2": 0.0, "token_id:3": 0.0}
    return {"choices": [{"prompt_logprobs": lists, "logprobs": {"top_logprobs": [after]}}]}


@pytest.mark.parametrize("answer", [silent, generated_only, list_of_numbers])
def test_a_server_that_does_not_list_the_prompt(answer):
    with serving(answer) as server, pytest.raises(ModelError, match="does not tell the log-probabilities of a prompt"):
        load(server)


def test_probabilities_that_add_up_to_more_than_one():
    with (
        serving(too_probable) as server,
        pytest.raises(NonsenseError, match=r"add up to a probability of .*more than 1"),
    ):
        load(server).score("the mark")


def test_another_tokenizer_is_noticed():
    with serving("echo") as server, pytest.raises(ModelError, match="its tokeniser is another one"):
        wordprob.load(server.url, tokenizer="exact:bow")


def test_a_tokenizer_that_is_not_known():
    with serving() as server, pytest.raises(ModelError, match="Name it with `tokenizer`"):
        wordprob.load(server.url)


def test_which_model():
    with serving(models=("one", "two")) as server:
        with pytest.raises(OptionError, match="has 2 models: one; two. Name one of them"):
            load(server)
        with pytest.raises(UnknownModelError, match="no model 'tow'. Did you mean two"):
            wordprob.load(f"openai:tow@{server.url}", tokenizer="exact:leaky")
        scorer = wordprob.load(f"openai:two@{server.url}/v1", tokenizer="exact:leaky")
        assert server.requests[-1][1]["model"] == "two"
        assert scorer.model.metadata["source"] == f"two at {server.url}"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("https://me:secret@example.org/v1", "has a user name or a password"),
        ("https://example.org/v1?key=secret", "which may be a key"),
        ("openai:gpt", "has no address"),
        ("openai:gpt@ftp://example.org", "is not the address of a server"),
        ("http://", "is not the address of a server"),
    ],
)
def test_addresses_that_cannot_be_used(model, message):
    with pytest.raises(OptionError, match=message) as error:
        wordprob.load(model)
    assert "secret" not in str(error.value)


def test_addresses_are_models():
    assert resolve("https://example.org/v1") == ("openai", "https://example.org/v1")
    assert resolve("openai:a@http://127.0.0.1:1") == ("openai", "a@http://127.0.0.1:1")


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failures",
    [[500], [503, 502], [429], [(429, [("Retry-After", "7")])], [408]],
)
def test_temporary_failures_are_tried_again(failures, no_pauses, truth):
    with serving() as server:
        scorer = load(server, top_logprobs=EVERYTHING)
        server.failures = list(failures)
        found = scorer.score("the mark").to_pandas()["surprisal"]
    assert np.allclose(found, truth.score("the mark").to_pandas()["surprisal"])
    assert len(no_pauses) == len(failures)
    if failures[0] == (429, [("Retry-After", "7")]):
        assert no_pauses == [7.0]


def test_a_server_that_stays_down_is_a_fault_of_the_machine_and_not_of_the_text():
    from wordprob.runs.shard_scoring import is_machine_fault

    with serving() as server:
        scorer = load(server)
        server.failures = [500] * 100
        with pytest.raises(ServerError, match="answered 500: not now .* attempts") as error:
            scorer.score("the mark")
        assert is_machine_fault(error.value)
    with pytest.raises(ServerError, match="cannot be reached"):
        scorer.score("the mark")


def test_a_long_silence(monkeypatch, truth):
    monkeypatch.setenv(client_module.TIMEOUT_VARIABLE, "0.2")
    with serving() as server:
        scorer = load(server, top_logprobs=EVERYTHING)
        server.failures = [1.0]
        found = scorer.score("the mark").to_pandas()["surprisal"]
        assert np.allclose(found, truth.score("the mark").to_pandas()["surprisal"])
    monkeypatch.setenv(client_module.TIMEOUT_VARIABLE, "soon")
    with pytest.raises(OptionError, match="it must be a number of seconds"):
        Client("http://127.0.0.1:1")


@pytest.mark.parametrize("answer", [b'{"choices": [{"prompt_logpro', b"<html>busy</html>", b"\xff\xfe", b"null", b"{}"])
def test_answers_that_are_nonsense(answer):
    with serving() as server:
        scorer = load(server)
        server.failures = [answer] * 10
        with pytest.raises(NonsenseError, match="not JSON|where a list of log-probabilities belongs"):
            scorer.score("the mark")


@pytest.mark.parametrize("value", [None, "x", float("nan"), 3.0, True])
def test_numbers_that_are_nonsense(value):
    from completions_server import as_vllm

    broken = []

    def answer(toy, body):
        found = as_vllm(toy, body)
        if broken:
            lists = found["choices"][0]["prompt_logprobs"]
            lists[-1] = {key: {"logprob": value} for key in lists[-1]}
        return found

    with serving(answer) as server:
        scorer = load(server)
        broken.append(True)
        with pytest.raises(NonsenseError, match="where a log-probability belongs"):
            scorer.score("the mark")


DEEP = b"[" * 200_000 + b"]" * 200_000


@pytest.mark.parametrize("answer", [DEEP, b'{"choices": ' + DEEP + b"}", b"9" * 5000], ids=["list", "object", "number"])
def test_answers_that_cannot_be_parsed(answer):
    with serving() as server:
        scorer = load(server)
        server.failures = [answer] * 10
        with pytest.raises(NonsenseError, match="not JSON"):
            scorer.score("the mark")
        server.failures = [lambda handler: handler.reply(400, answer)] * 10
        with pytest.raises(RefusedError, match="refuses /v1/completions"):
            scorer.score("the mark")


@pytest.mark.parametrize(
    "header", ["Wed, 21 Oct 2015 07:28:00 -0000", "inf", "nan", "-5", "1e400", "soon", "9" * 400, ""]
)
def test_times_to_wait_that_are_nonsense(header, no_pauses, truth):
    with serving() as server:
        scorer = load(server, top_logprobs=EVERYTHING)
        server.failures = [(429, [("Retry-After", header)])]
        found = scorer.score("the mark").to_pandas()["surprisal"]
    assert np.allclose(found, truth.score("the mark").to_pandas()["surprisal"])
    assert 0.0 <= no_pauses[0] <= client_module.MAX_PAUSE_SECONDS


@pytest.mark.parametrize("number", [b"-1e400", b"-" + b"9" * 400, b"-Infinity"], ids=["float", "integer", "infinity"])
@pytest.mark.parametrize("dialect", ["vllm", "llama.cpp"])
def test_log_probabilities_beyond_all_floats_are_those_of_the_impossible(number, dialect):
    from wordprob.models.completions.dialects import _log_prob

    assert _log_prob(json.loads(number)) == -np.inf
    with serving(dialect) as server:
        scorer = load(server)
        answers = []

        def beyond(handler):
            answer = json.dumps(server.answer(server.toy, server.requests[-1][1])).encode()
            answers.append(client_module.json.loads(answer))
            handler.reply(200, _with_number(answer, number))

        server.failures = [beyond] * 10
        found = scorer.score("the mark").to_pandas()
    assert answers
    assert found["note"].str.contains("probability zero").any()


def _with_number(answer, number):
    import re

    return re.sub(rb'"logprob": -[0-9.e-]+', b'"logprob": ' + number, answer)


@pytest.mark.parametrize("token", [2**70, -(2**70), 2**63, 31])
def test_ids_that_no_vocabulary_has(token):
    from completions_server import as_vllm

    broken = []

    def answer(toy, body):
        found = as_vllm(toy, body)
        for listed in found["choices"][0]["prompt_logprobs"][1:] if broken else ():
            listed[str(token)] = {"logprob": -9.0}
        return found

    with serving(answer) as server:
        scorer = load(server)
        broken.append(True)
        if token == 31:  # a head may have more ids than the tokenizer
            assert len(scorer.score("the mark")) == 2
        else:
            with pytest.raises(NonsenseError, match="where the id of a token belongs"):
                scorer.score("the mark")


def test_an_answer_that_never_ends(monkeypatch):
    monkeypatch.setattr(client_module, "MAX_ANSWER_BYTES", 1 << 20)
    sent = []

    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        for _ in range(1000):
            handler.wfile.write(b" " * (1 << 16))
            sent.append(1 << 16)

    with serving() as server:
        scorer = load(server)
        server.failures = [endless] * 10
        with pytest.raises(NonsenseError, match=r"answered /v1/completions with more than .* bytes"):
            scorer.score("the mark")
    assert sum(sent) < 1 << 25


@pytest.mark.parametrize("what", ["headers", "body"])
def test_an_answer_that_comes_too_slowly(monkeypatch, what):
    """One byte after another: each comes in time, and all of them never."""
    import time

    pause = threading.Event()

    def slow(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: " + (b"\r\n\r\n" if what == "body" else b""))
        for _ in range(100):
            handler.wfile.write(b" ")
            pause.wait(0.05)

    monkeypatch.setenv(client_module.TIMEOUT_VARIABLE, "0.3")
    monkeypatch.setattr(client_module, "MAX_ATTEMPTS", 2)
    with serving() as server:
        scorer = load(server)
        server.failures = [slow] * 10
        start = time.monotonic()
        with pytest.raises(ServerError, match=r"did not answer within 0.3 seconds .2 attempts"):
            scorer.score("the mark")
        assert time.monotonic() - start < 3.0
        pause.set()


def test_an_answer_that_is_compressed_is_not_expanded():
    """It was not asked for, and could expand to any size."""

    def compressed(handler):
        data = gzip.compress(b" " * (1 << 28))
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    with serving() as server:
        scorer = load(server)
        server.failures = [compressed] * 10
        with pytest.raises(NonsenseError, match="something that is not JSON"):
            scorer.score("the mark")


ODD_VALUES = [None, True, -1, 0, 2**70, -(10**400), 1e308, "", "x", "\ud800", [], {}, [[]], {"": None}, "[" * 50_000]


def with_odd_value(value, chance):
    """Return what JSON holds with one of its values replaced by an odd one."""
    if isinstance(value, dict | list) and value and chance.random() < 0.8:
        place = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
        copy = dict(value) if isinstance(value, dict) else list(value)
        copy[place] = with_odd_value(value[place], chance)
        return copy
    return chance.choice(ODD_VALUES)


def hostile_answer(answer, chance):
    """Return an answer with an odd value in it, or damaged bytes."""
    if chance.random() < 0.5:
        return json.dumps(with_odd_value(answer, chance)).encode()
    return audit.mutated(json.dumps(answer).encode(), chance)


@pytest.mark.audit
@pytest.mark.parametrize("dialect", [name for name, answer in DIALECTS.items() if answer is not as_llama_cpp])
def test_hostile_servers(dialect, truth):
    """Whatever a server answers: the numbers are as good as its own, or one line says what is wrong."""
    found = Counter()
    expected = truth.score("the mark").to_pandas()["surprisal"]
    for chance in audit.cases(f"server {dialect}", 25):
        with serving(dialect) as server:
            scorer = load(server, top_logprobs=EVERYTHING)
            answer = server.answer
            server.answer = lambda toy, body, answer=answer, chance=chance: hostile_answer(answer(toy, body), chance)
            try:
                values = scorer.score("the mark").to_pandas()["surprisal"]
            except WordprobError as error:
                assert "\n" not in str(error)  # noqa: PT017
                found["refused"] += 1
            else:
                found["the same numbers" if np.allclose(values, expected) else "the numbers of the server"] += 1
    audit.record(f"answers of a server ({dialect}), damaged", found)


# --- keys ------------------------------------------------------------------------------------------------------------


def test_keys_come_from_the_environment_and_never_show(monkeypatch, tmp_path):
    with serving(key=KEY) as server:
        with pytest.raises(RefusedError, match="asks for a key .401.. Set the environment variable WORDPROB_API_KEY"):
            load(server)
        monkeypatch.setenv("WORDPROB_API_KEY", "sk-wrong-but-secret")
        with pytest.raises(RefusedError, match="does not accept the key") as error:
            load(server)
        assert "sk-wrong" not in str(error.value)
        monkeypatch.setenv("WORDPROB_API_KEY", KEY)
        scorer = load(server)
        table = scorer.score("the mark")
        table.write(tmp_path / "table.csv")
        server.failures = [KEY.encode()] * 10
        with pytest.raises(NonsenseError) as error:
            scorer.score("the ark")
    shown = [str(error.value), json.dumps(table.metadata), repr(scorer), scorer._repr_html_()]
    shown += [path.read_text() for path in tmp_path.iterdir()]
    assert not any(KEY in text for text in shown)


@pytest.mark.parametrize("key", ["sk-\n-injected: yes", "sk-ключ"])
def test_a_key_that_cannot_be_sent(monkeypatch, key):
    monkeypatch.setenv("WORDPROB_API_KEY", key)
    with pytest.raises(OptionError, match="WORDPROB_API_KEY has characters in it that no key has") as error:
        Client("http://127.0.0.1:1").get("/v1/models")
    assert key not in str(error.value)


def test_the_key_of_openai_is_not_sent_without_encryption(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert client_module.key_for("https://example.org") == KEY
    assert client_module.key_for("http://127.0.0.1:8000") == KEY
    assert client_module.key_for("http://example.org") is None


def test_redirects_are_not_followed():
    def redirect(_toy, _body):
        return 307, {}

    with serving(redirect) as server, pytest.raises(ModelError, match="redirects /v1/completions elsewhere"):
        load(server)


# --- runs ------------------------------------------------------------------------------------------------------------


def test_a_run_goes_on_after_the_server_was_down(tmp_path, monkeypatch, truth):
    from wordprob.runs import merge, run, status

    monkeypatch.setenv("WORDPROB_API_KEY", KEY)
    texts = ["the mark", "the marker", "the ark", "the marked"]
    source = tmp_path / "texts.txt"
    source.write_text("\n".join(texts), encoding="utf-8")
    folder = tmp_path / "run"
    with serving(key=KEY) as server:
        options = {"model": server.url, "tokenizer": "exact:leaky", "top_logprobs": EVERYTHING, "shard_texts": 1}
        server.fails_from = 3  # the first shards are done, and then the server is down
        with pytest.raises(ServerError, match="answered 500"):
            run(source, folder, **options)
        assert 0 < status(folder).texts < len(texts)
        server.fails_from = None
        run(source, folder, **options)
    assert (status(folder).texts, status(folder).failed) == (len(texts), {})
    assert not status(folder).errors, "no text was blamed for the server"
    found = pd.read_csv(merge(folder, tmp_path / "words.csv"))
    expected = truth.score(texts).to_pandas()
    assert np.allclose(found["surprisal"], expected["surprisal"])
    assert {"surprisal_low", "surprisal_high"} <= set(found.columns)
    assert not any(KEY.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())
