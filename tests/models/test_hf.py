"""Hugging Face models: real architectures with small random weights, each with its real tokenizer."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import transformers

import small_models
from conftest import MODELS
from distributions import all_logits, next_log_probs
from made_up_text import book
from tiny_models import FAMILIES, FEW, GPT2, SIZE, build
from tolerances import float32_log_prob_tolerance
from wordprob import Scorer, load
from wordprob.core import words
from wordprob.core.atoms import atoms_of
from wordprob.errors import ModelError, OptionError
from wordprob.models.huggingface import self_checks
from wordprob.models.huggingface.model import HFModel
from wordprob.models.huggingface.varlen_attention import VarlenAttention
from wordprob.models.protocol import STATISTICS, Request, scores_from_logits

TEXTS = [
    "She saw the mark. It's the marker's?\n\n“Yes,” he said.",
    "Short.",
    "",
    "Café 中文 😀\u00a0x  y\tz 2024! ¿Qué? שלום עולם",
    "A longer text, so that the batch is padded: the quick brown fox jumps over the lazy dog again and again.",
]


@pytest.fixture(scope="module", params=FAMILIES)
def model(request, tokenizer_of):
    return build(request.param, tokenizer_of)


few_families = pytest.mark.parametrize("model", FEW, indirect=True)


def whitespace_atoms(model):
    return atoms_of(model.tokenizer.vocabulary, words.Whitespace(), model.vocab_size)


def word_tolerance(model):
    """Return how far the surprisal of a word, of a few tokens and two boundary terms, may be from itself."""
    return float32_log_prob_tolerance(model, log_probs=10)


@pytest.mark.parametrize(
    ("model", "definition"),
    [
        *((name, "whitespace") for name in FAMILIES),
        *((name, "punctuation") for name in FEW),
        (FEW[0], r"regex:[\p{L}\p{M}\p{N}]+"),
    ],
    indirect=["model"],
)
def test_every_family_scores_and_conserves_probability(model, definition):
    table = Scorer(model).score(TEXTS, definition, unit="nats")
    frame, texts = table.to_pandas(), table.texts()
    assert texts["n_words"].tolist()[2] == 0
    for row in frame.itertuples():
        assert TEXTS[row.text_id][row.start : row.end] == row.word
    itemised = frame["surprisal_naive"] + frame["after"] - frame["before"]
    assert np.allclose(frame["surprisal"], itemised, atol=1e-9, equal_nan=True)
    assert (frame["surprisal"].notna() | frame["note"].ne("")).all(), "never a silent number"
    assert (frame["surprisal"].dropna() > -1e-6).all(), "no probability above one"
    kept = texts["conservation"].dropna()
    longest = max(len(tokens.ids) for tokens in model.tokenizer.encode(TEXTS))
    assert (kept.abs() < float32_log_prob_tolerance(model, log_probs=longest)).all()
    if model.tokenizer.vocabulary.start is not None and definition == "whitespace":
        assert frame["surprisal"].notna().all()
        assert len(kept) == len(TEXTS)


@few_families
def test_values_do_not_depend_on_the_batch(model):
    scorer = Scorer(model)
    together = scorer.score(TEXTS, unit="nats").to_pandas()
    for n, text in enumerate(TEXTS):
        alone = scorer.score(text, unit="nats").to_pandas()
        kept = together[together["text_id"] == n].reset_index(drop=True)
        assert np.allclose(kept["surprisal"], alone["surprisal"], atol=word_tolerance(model), equal_nan=True)


@pytest.mark.parametrize("name", ["small-llama2", *MODELS])
def test_values_do_not_depend_on_the_batch_with_trained_weights(load_model, name):
    """Sums in float32 are added in another order in another batch, which may show in the last digits only."""
    scorer = load_model(name)
    texts = book(4000).split("\n")[:24]
    together = scorer.score(texts, unit="nats").to_pandas()["surprisal"].to_numpy()
    alone = np.concatenate([scorer.score(text, unit="nats").to_pandas()["surprisal"].to_numpy() for text in texts])
    assert len(together) > 200
    assert np.nanmax(np.abs(together - alone)) < word_tolerance(scorer.model)


@few_families
@pytest.mark.parametrize("unpadded", [False, True])
def test_too_little_memory_makes_batches_smaller_and_loses_nothing(model, monkeypatch, unpadded):
    forward = model.forward
    monkeypatch.setattr(forward, "varlen", self_checks.checked_varlen_attention(forward) if unpadded else None)
    monkeypatch.setattr(model.prefix_cache, "usable", False)  # texts are run as on a GPU, where no states are kept
    scorer, texts = Scorer(model), [text for text in TEXTS for _ in range(4)]
    expected = scorer.score(texts, unit="nats").to_pandas()
    run, sizes = forward.run_requests, []

    def limited(requests, most=2):
        sizes.append(len(requests))
        if len(requests) > most:
            raise torch.OutOfMemoryError("out of memory")
        return run(requests)

    monkeypatch.setattr(forward, "run_requests", limited)
    monkeypatch.setattr(forward.budget, "tokens", 4096)
    smaller = scorer.score(texts, unit="nats").to_pandas()
    assert max(sizes) > 2
    assert model.batch_tokens < 4096, "smaller from then on"
    assert np.allclose(smaller["surprisal"], expected["surprisal"], atol=word_tolerance(model), equal_nan=True)
    monkeypatch.setattr(forward, "run_requests", lambda requests: limited(requests, most=0))
    with pytest.raises(ModelError, match="too little memory for one text"):
        scorer.score(TEXTS)


def test_padding_is_masked_where_it_would_be_seen(model, monkeypatch):
    forward = model.forward
    assert not forward.masks_padding, "causal models do not look ahead"
    run = forward.run_trunk

    def looks_ahead(input_ids, attention_mask=None):
        states = run(input_ids=input_ids)[0]
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        return [states + (states * mask[..., None]).sum(1, keepdim=True)]

    monkeypatch.setattr(forward, "run_trunk", looks_ahead)
    assert not self_checks.padding_is_unseen(forward)
    monkeypatch.setattr(forward, "masks_padding", True)
    assert forward.pad([[3, 4, 5], [6]])[1].tolist() == [[1, 1, 1], [1, 0, 0]]


PADDED = {"gemma2", "openai-gpt"}
"""A cap on attention; an older way to write attention, which cannot be replaced."""


def test_texts_may_follow_one_another_without_padding(model, monkeypatch):
    varlen = self_checks.checked_varlen_attention(model.forward)
    assert (varlen is None) == (model.metadata["model"] in PADDED)
    expected = Scorer(model).score(TEXTS, unit="nats").to_pandas()
    monkeypatch.setattr(model.forward, "varlen", varlen)
    if varlen is not None:
        batches = [[2], [0, 1]] if varlen.max_text_tokens == 8 else [[0, 1, 2]]
        assert model.forward.plan_batches([5, 1, 9]) == batches
    unpadded = Scorer(model).score(TEXTS, unit="nats").to_pandas()
    assert np.allclose(unpadded["surprisal"], expected["surprisal"], atol=word_tolerance(model), equal_nan=True)
    monkeypatch.setattr(model.forward, "varlen", None)
    again = Scorer(model).score(TEXTS, unit="nats").to_pandas()
    assert again["surprisal"].equals(expected["surprisal"]), "attention is the network's own again"


@few_families
def test_texts_that_would_see_each_other_are_padded(model, monkeypatch):
    monkeypatch.setattr(VarlenAttention, "run", lambda _, trunk, ids, *__: trunk(input_ids=ids[None])[0][0])
    assert self_checks.checked_varlen_attention(model.forward) is None


@few_families
def test_threads_may_score_at_the_same_time(model):
    scorers = [Scorer(model) for _ in range(3)]
    expected = scorers[0].score(TEXTS, unit="nats").to_pandas()["surprisal"]
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda scorer: scorer.score(TEXTS, unit="nats").to_pandas()["surprisal"], scorers))
    for values in results:
        assert np.allclose(values, expected, atol=word_tolerance(model), equal_nan=True)


@few_families
def test_gradients_are_back_on_between_scores(model):
    requests = [Request(np.array([3, 4, 5])), Request(np.array([6, 7]))]
    scores = model.score(requests, whitespace_atoms(model))
    assert not torch.is_inference_mode_enabled()
    next(scores)
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("name", FAMILIES)
def test_the_terms_are_the_models_own_probabilities(name):
    """Naive, before and after, from the model's logits in float64 by the textbook route; no token cuts a character."""
    model = build(name, lambda _: small_models.small_tokenizer("never"))
    vocabulary, tokenizer = model.tokenizer.vocabulary, model.tokenizer
    text = "ab a ba. aba b"
    ids = tokenizer.encode([text])[0].ids.tolist()
    logits = torch.from_numpy(all_logits(model, [vocabulary.start, *ids]))
    logp = torch.log_softmax(logits, dim=-1).numpy()
    space = [i for i, p in enumerate(vocabulary.pieces) if p and p[:4].decode("utf-8", "ignore")[:1].isspace()]
    mass = np.log(np.exp(logp[:, [*space, *vocabulary.ends]]).sum(axis=1))
    frame = Scorer(model).score(text, unit="nats").to_pandas()
    stops = frame["n_tokens"].cumsum().tolist()
    tolerance = word_tolerance(model)
    for n in range(1, len(frame)):
        naive = -sum(logp[j, ids[j]] for j in range(stops[n - 1], stops[n]))
        assert frame["surprisal_naive"][n] == pytest.approx(naive, abs=tolerance)
        assert frame["before"][n] == pytest.approx(-mass[stops[n - 1]], abs=tolerance)
        assert frame["after"][n] == pytest.approx(-mass[stops[n]], abs=tolerance)


def farthest_and_ids(log_probs, next_ids):
    """A statistic that nothing knows: the least log-probability, and the id that came."""
    return log_probs.min(axis=-1) + next_ids


@few_families
def test_scores_are_those_of_plain_logits(model, monkeypatch):
    """Everything that a request can ask for, against the readable path in float64; one statistic is made up here."""
    monkeypatch.setitem(STATISTICS, "farthest", farthest_and_ids)
    atoms = whitespace_atoms(model)
    lists = [np.array([4]), np.array([7, 9])]
    wanted = {"id_lists": lists, "statistics_rows": np.array([2, 4])}
    requests = [
        Request(np.arange(5, 12), 2, np.array([3, 6]), np.array([1, 0]), statistics=("rank", "farthest"), **wanted),
        Request(np.array([8, 3, 5, 6]), id_lists=lists, statistics=("rank", "farthest", "entropy")),
        Request(np.arange(20, 26), statistics=("entropy",), **wanted),
    ]
    tolerance = float32_log_prob_tolerance(model)
    for n, scores in model.score(requests, atoms):
        request = requests[n]
        expected = scores_from_logits(all_logits(model, request.ids)[request.first :], request, atoms)
        assert scores.mass.shape == expected.mass.shape
        assert np.allclose(scores.target, expected.target, atol=tolerance)
        assert np.allclose(scores.mass, expected.mass, atol=tolerance)
        assert np.allclose(scores.gathered, expected.gathered, atol=tolerance)
        assert list(scores.statistics) == list(request.statistics)
        for name in request.statistics:
            # an entropy is a sum of p·log p, no term of which is more than log V times as far off
            allowed = tolerance * (np.log(model.vocab_size) if name == "entropy" else 1)
            assert np.allclose(scores.statistics[name], expected.statistics[name], atol=allowed)


@pytest.fixture
def network(tokenizer_of):
    torch.manual_seed(0)
    config = transformers.GPTNeoXConfig(vocab_size=tokenizer_of("small-gpt-neox").vocabulary.size, **SIZE)
    return transformers.AutoModelForCausalLM.from_config(config)


def assert_compiled_agrees(network, tokenizer):
    plain, fast = (HFModel(network, tokenizer, {"model": "x"}, compile=compile) for compile in (False, True))
    expected, compiled = (Scorer(model).score(TEXTS, unit="nats").to_pandas() for model in (plain, fast))
    assert np.allclose(compiled["surprisal"], expected["surprisal"], atol=word_tolerance(plain), equal_nan=True)
    assert fast.compiled
    assert not plain.compiled


def test_a_compiled_model_gives_the_same(network, tokenizer_of, monkeypatch):
    """The graph is traced as always, and run without a C++ compiler, which takes a minute."""
    original, calls = torch.compile, []

    def traced(function, **options):
        calls.append(options)
        return original(function, backend="eager", **options)

    monkeypatch.setattr(torch, "compile", traced)
    assert_compiled_agrees(network, tokenizer_of("small-gpt-neox"))
    assert calls == [{"dynamic": True}]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++, which is not here")
def test_a_model_compiled_to_machine_code_gives_the_same(network, tokenizer_of):
    assert_compiled_agrees(network, tokenizer_of("small-gpt-neox"))


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (lambda **_: 1 / 0, "could not be compiled: division by zero. Leave out the option compile"),
        (lambda input_ids, **_: [torch.ones(*input_ids.shape, 32)], "does not agree with the model itself"),
    ],
)
def test_a_model_that_does_not_compile(network, tokenizer_of, monkeypatch, forward, message):
    monkeypatch.setattr(torch, "compile", lambda *_, **__: forward)
    with pytest.raises(ModelError, match=message):
        HFModel(network, tokenizer_of("small-gpt-neox"), {"model": "x"}, compile=True)


def test_long_texts_go_through_windows(tokenizer_of):
    found = tokenizer_of("small-gpt2")
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=50257, **{**GPT2, "n_positions": 32})
    model = HFModel(transformers.AutoModelForCausalLM.from_config(config), found, {"model": "x"})
    text = " ".join(f"word{n} and" for n in range(40))
    frame = Scorer(model).score(text).to_pandas()
    assert frame["surprisal"].notna().all()
    assert frame["context_tokens"].max() <= 31
    assert frame["context_tokens"][40:].min() >= 15
    short = " ".join(text.split()[:5])
    both = Scorer(model).score([short]).to_pandas()
    assert np.allclose(frame["surprisal_naive"][:5], both["surprisal_naive"], atol=word_tolerance(model))


@pytest.mark.parametrize(
    ("kind", "options", "plain"),
    [
        ("Gemma2Config", {"head_dim": 8, "num_key_value_heads": 1, "final_logit_softcapping": 30.0}, False),
        ("Gemma2Config", {"head_dim": 8, "num_key_value_heads": 1, "final_logit_softcapping": None}, True),
        ("CohereConfig", {"num_key_value_heads": 1, "logit_scale": 0.5}, False),
        ("GraniteConfig", {"num_key_value_heads": 1, "logits_scaling": 3.0}, False),
        ("LlamaConfig", {}, True),
    ],
)
def test_only_a_plain_head_is_applied_to_hidden_states(tokenizer_of, kind, options, plain):
    """Capped or scaled logits take the model's own, so that no number is wrong; the answer is the same either way."""
    found = tokenizer_of("small-llama2")
    torch.manual_seed(0)
    config = getattr(transformers, kind)(vocab_size=32000, **SIZE, **options)
    model = HFModel(transformers.AutoModelForCausalLM.from_config(config), found, {"model": kind})
    assert (model.head.linear is not None) == plain
    [expected] = next_log_probs(model, [[5, 6, 7]])
    every_id = [np.array([i]) for i in range(0, 32000, 100)]
    numbers = np.arange(len(every_id))
    request = Request(np.array([5, 6, 7]), 2, np.full(len(every_id), 2), numbers, every_id)
    ((_, scores),) = model.score([request], whitespace_atoms(model))
    assert np.allclose(scores.gathered, expected[::100], atol=float32_log_prob_tolerance(model))


# --- what cannot be loaded ---------------------------------------------------------------------------------------


def test_an_empty_directory_says_what_is_needed(tmp_path):
    with pytest.raises(ModelError, match=r"config\.json"):
        load(tmp_path)


def test_remote_code_is_off_by_default(tmp_path):
    (tmp_path / "config.json").write_text(
        '{"model_type": "mine", "auto_map": {"AutoConfig": "mine.MineConfig", "AutoModelForCausalLM": "mine.Mine"}}'
    )
    (tmp_path / "mine.py").write_text("raise SystemExit('ran')\n")
    with pytest.raises(ModelError, match="set the option trust_remote_code"):
        load(tmp_path)


@pytest.mark.parametrize("options", [{"device": "tpu"}, {"dtype": "int8"}, {"device": "cuda"}])
def test_bad_devices_and_dtypes(options, small_model_directory):
    if options == {"device": "cuda"} and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(OptionError, match="use|no cuda"):
        load(small_model_directory("small-llama2"), **options)


def test_bos_is_chosen_and_recorded(small_model_directory):
    directory = small_model_directory("small-llama2")
    plain = load(directory).score("Once upon a time")
    other = load(directory, bos="</s>").score("Once upon a time")
    none = load(directory, bos="none").score("Once upon a time")
    assert (plain.metadata["start_token"], other.metadata["start_token"]) == ("<s>", "</s>")
    assert plain.to_pandas()["surprisal"][0] != other.to_pandas()["surprisal"][0]
    assert np.isnan(none.to_pandas()["surprisal"][0])
    assert "no start-of-text token" in none.to_pandas()["note"][0]
    assert none.to_pandas()["surprisal"][1:].notna().all()
    with pytest.raises(OptionError, match="no token"):
        load(directory, bos="<nope>")
