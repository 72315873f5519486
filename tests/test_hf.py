"""Real architectures with small random weights, each with its real tokeniser."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import transformers

from conftest import shared
from wordprob import Scorer, load
from wordprob.core import words
from wordprob.core.atoms import atoms_of
from wordprob.errors import ModelError, OptionError, UnsupportedError
from wordprob.models.huggingface.model import HFModel
from wordprob.models.huggingface.varlen_attention import EndToEnd
from wordprob.models.protocol import Request

SIZE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
FAMILIES = {
    # name: configuration, its sizes, tokeniser, rows of logits beyond the vocabulary
    "gpt2": ("GPT2Config", GPT2, "gpt2", 0),
    "mgpt": ("GPT2Config", GPT2, "gpt2", 7),
    "pythia": ("GPTNeoXConfig", SIZE, "gpt-neox", 27),
    "llama2": ("LlamaConfig", SIZE, "llama2", 0),
    "llama3": ("LlamaConfig", SIZE, "llama3_2", 0),
    "mistral": ("MistralConfig", {**SIZE, "num_key_value_heads": 2}, "mistral-7b-v0.1", 0),
    "sliding": ("MistralConfig", {**SIZE, "num_key_value_heads": 2, "sliding_window": 8}, "mistral-7b-v0.1", 0),
    "gemma": ("GemmaConfig", {**SIZE, "head_dim": 8, "num_key_value_heads": 1}, "gemma", 0),
    "gemma2": ("Gemma2Config", {**SIZE, "head_dim": 8, "num_key_value_heads": 1}, "gemma", 0),
    "qwen2": ("Qwen2Config", {**SIZE, "num_key_value_heads": 2}, "qwen2_5", 271),
    "openai-gpt": ("OpenAIGPTConfig", GPT2, "openai-gpt", 0),
    "ctrl": ("CTRLConfig", {**GPT2, "dff": 64}, "ctrl", 0),
}
TEXTS = [
    "She saw the mark. It's the marker's?\n\n“Yes,” he said.",
    "Short.",
    "",
    "Café 中文 😀\u00a0x  y\tz 2024! ¿Qué? שלום עולם",
    "A longer text, so that the batch is padded: the quick brown fox jumps over the lazy dog again and again.",
]


@pytest.fixture(scope="module", params=FAMILIES)
def model(request, tokenizer_of):
    kind, sizes, tokenizer, extra = FAMILIES[request.param]
    found = tokenizer_of(tokenizer)
    torch.manual_seed(0)
    config = getattr(transformers, kind)(vocab_size=found.vocabulary.size + extra, **sizes)
    network = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():  # far from uniform, so that a wrong number shows
        for parameter in network.parameters():
            parameter.mul_(3.0)
    return HFModel(network, found, {"model": request.param, "revision": "", "dtype": "float32"})


@pytest.mark.parametrize("definition", ["whitespace", "punctuation", r"regex:[\p{L}\p{M}\p{N}]+"])
def test_every_family_runs_and_conserves(model, definition):
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
    assert (kept.abs() < 1e-3).all()
    if model.tokenizer.vocabulary.start is not None and definition == "whitespace":
        assert frame["surprisal"].notna().all()
        assert len(kept) == len(TEXTS)


def test_values_do_not_depend_on_the_batch(model):
    scorer = Scorer(model)
    together = scorer.score(TEXTS, unit="nats").to_pandas()
    for n, text in enumerate(TEXTS):
        alone = scorer.score(text, unit="nats").to_pandas()
        kept = together[together["text_id"] == n].reset_index(drop=True)
        assert np.allclose(kept["surprisal"], alone["surprisal"], atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("name", ["stories15M", "fiction-bow"])
def test_values_do_not_depend_on_the_batch_with_real_weights(load_shared, name):
    """Sums in float32 come in another order in another batch, which may show in the last digits only."""
    scorer = load_shared(name)
    lines = shared("data/text/austen_pride.txt").read_text(encoding="utf-8").split("\n")
    texts = [" ".join(line.split()) for line in lines if 80 < len(line) < 400][:24]
    together = scorer.score(texts, unit="nats").to_pandas()["surprisal"].to_numpy()
    alone = np.concatenate([scorer.score(text, unit="nats").to_pandas()["surprisal"].to_numpy() for text in texts])
    assert len(together) > 300
    assert np.nanmax(np.abs(together - alone)) < 1e-4


@pytest.mark.parametrize("in_rows", [False, True])
def test_short_memory_makes_batches_smaller_and_loses_nothing(model, monkeypatch, in_rows):
    monkeypatch.setattr(model, "_end_to_end", model._unpadded() if in_rows else None)
    scorer, texts = Scorer(model), [text for text in TEXTS for _ in range(4)]
    expected = scorer.score(texts, unit="nats").to_pandas()
    run, sizes = model._batch, []

    def limited(requests, most=2):
        sizes.append(len(requests))
        if len(requests) > most:
            raise torch.OutOfMemoryError("out of memory")
        return run(requests)

    monkeypatch.setattr(model, "_batch", limited)
    monkeypatch.setattr(model, "_budget", 4096)
    found = scorer.score(texts, unit="nats").to_pandas()
    assert max(sizes) > 2
    assert model._budget < 4096, "smaller from then on"
    assert np.allclose(found["surprisal"], expected["surprisal"], atol=1e-4, equal_nan=True)
    monkeypatch.setattr(model, "_batch", lambda requests: limited(requests, most=0))
    with pytest.raises(ModelError, match="too little memory for one text"):
        scorer.score(TEXTS)


def test_padding_is_masked_where_it_would_be_seen(model, monkeypatch):
    assert not model._masked, "causal models do not look ahead"
    run = model._run

    def looks_ahead(input_ids, attention_mask=None):
        states = run(input_ids=input_ids)[0]
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        return [states + (states * mask[..., None]).sum(1, keepdim=True)]

    monkeypatch.setattr(model, "_run", looks_ahead)
    monkeypatch.setattr(model, "_masked", not model._padding_is_unseen())
    assert model._masked
    assert model._padded([[3, 4, 5], [6]])[1].tolist() == [[1, 1, 1], [1, 0, 0]]


PADDED = {"gemma2", "openai-gpt"}
"""A cap on attention; an older way to write attention, which cannot be exchanged."""


def test_texts_may_stand_end_to_end(model, monkeypatch):
    runner = model._unpadded()
    assert (runner is None) == (model.metadata["model"] in PADDED)
    expected = Scorer(model).score(TEXTS, unit="nats").to_pandas()
    before = model._model.config._attn_implementation
    monkeypatch.setattr(model, "_end_to_end", runner)
    if runner is not None:
        assert model._batches([5, 1, 9]) == ([[2], [0, 1]] if runner.reach == 8 else [[0, 1, 2]])
    found = Scorer(model).score(TEXTS, unit="nats").to_pandas()
    assert np.allclose(found["surprisal"], expected["surprisal"], atol=1e-4, equal_nan=True)
    assert model._model.config._attn_implementation == before


def test_texts_that_would_see_each_other_stay_apart(model, monkeypatch):
    monkeypatch.setattr(EndToEnd, "run", lambda _, trunk, ids, *__: trunk(input_ids=ids[None])[0][0])
    assert model._unpadded() is None


def test_threads_may_ask_at_the_same_time(model):
    scorers = [Scorer(model) for _ in range(3)]
    expected = scorers[0].score(TEXTS, unit="nats").to_pandas()["surprisal"]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda scorer: scorer.score(TEXTS, unit="nats").to_pandas()["surprisal"], scorers))
    for values in found:
        assert np.allclose(values, expected, atol=1e-4, equal_nan=True)


def test_gradients_are_back_on_between_answers(model):
    reader = Scorer(model)._reader(words.define("whitespace"))
    answers = model.score([Request(np.array([3, 4, 5])), Request(np.array([6, 7]))], reader.atoms)
    assert not torch.is_inference_mode_enabled()
    next(answers)
    assert not torch.is_inference_mode_enabled()


def test_the_terms_are_the_models_own_probabilities(model):
    """Naive, before and after, from the model's logits in float64 by the textbook route."""
    vocabulary, tokenizer = model.tokenizer.vocabulary, model.tokenizer
    if vocabulary.family != "bow":
        pytest.skip(f"{model.metadata['model']} does not begin words with white space")
    text = "She saw the mark of the marker"
    ids = tokenizer.encode([text])[0].ids.tolist()
    with torch.inference_mode():
        logits = model._model(input_ids=torch.tensor([[vocabulary.start, *ids]])).logits[0].double()
    logp = torch.log_softmax(logits, dim=-1).numpy()
    space = [i for i, p in enumerate(vocabulary.pieces) if p and p[:4].decode("utf-8", "ignore")[:1].isspace()]
    mass = np.log(np.exp(logp[:, [*space, *vocabulary.ends]]).sum(axis=1))
    frame = Scorer(model).score(text, unit="nats").to_pandas()
    stops = frame["n_tokens"].cumsum().tolist()
    for n in range(1, len(frame)):
        naive = -sum(logp[j, ids[j]] for j in range(stops[n - 1], stops[n]))
        assert frame["surprisal_naive"][n] == pytest.approx(naive, abs=1e-4)
        assert frame["before"][n] == pytest.approx(-mass[stops[n - 1]], abs=1e-4)
        assert frame["after"][n] == pytest.approx(-mass[stops[n]], abs=1e-4)


def test_branches_from_a_shared_prefix_equal_full_runs(model):
    prefixes = [[5, 6, 7, 8, 9, 10], [5, 6, 7, 11], [5, 6, 7, 8, 9, 10, 12, 13], [20, 21], [5, 6]]
    assert model._cached == (model.metadata["model"] not in ("openai-gpt", "sliding")), "they keep no whole cache"
    shared_run = dict(model.next_logprobs(prefixes))
    with torch.inference_mode():
        full = dict(model._each(range(len(prefixes)), prefixes))
    assert sorted(shared_run) == list(range(len(prefixes)))
    for n in full:
        assert np.allclose(shared_run[n], full[n], atol=1e-4)


def test_late_rows_share_what_comes_before_and_equal_full_runs(model):
    """Requests for their last rows only run what they share once."""
    from wordprob.core import words

    atoms = atoms_of(model.tokenizer.vocabulary, words.Whitespace(), model.vocab_size)
    rows = [[5, 6, 7, 8, 9, 10, 11], [5, 6, 7, 8, 9, 12], [5, 6, 7, 8, 13, 14, 15, 16]]
    asked = {"gather": np.array([4]), "chosen": np.array([0]), "lists": [np.array([7])], "inspect": np.array([3, 4])}
    late = [Request(np.array(r), first=3, **asked) for r in rows]
    found = dict(model.score(late, atoms))
    whole = dict(model.score([Request(np.array(r), **asked) for r in rows], atoms))
    for n, r in enumerate(rows):
        assert np.allclose(found[n].target, whole[n].target[3:], atol=1e-4)
        assert np.allclose(found[n].mass, whole[n].mass[3:], atol=1e-4)
        assert len(found[n].target) == len(r) - 4
        assert np.allclose(found[n].gathered, whole[n].gathered, atol=1e-4)
        assert np.allclose(found[n].entropy, whole[n].entropy, atol=1e-4)


@pytest.fixture
def network(tokenizer_of):
    torch.manual_seed(0)
    config = transformers.GPTNeoXConfig(vocab_size=tokenizer_of("gpt-neox").vocabulary.size, **SIZE)
    return transformers.AutoModelForCausalLM.from_config(config)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++, which is not here")
def test_a_compiled_model_says_the_same(network, tokenizer_of):
    found = tokenizer_of("gpt-neox")
    plain, fast = (HFModel(network, found, {"model": "x"}, compile=compile) for compile in (False, True))
    expected, compiled = (Scorer(model).score(TEXTS, unit="nats").to_pandas() for model in (plain, fast))
    assert np.allclose(compiled["surprisal"], expected["surprisal"], atol=1e-4, equal_nan=True)
    assert fast._whole != fast._run


@pytest.mark.parametrize(
    ("forward", "said"),
    [
        (lambda **_: 1 / 0, "could not be compiled: division by zero. Leave --compile out"),
        (lambda input_ids, **_: [torch.ones(*input_ids.shape, 32)], "does not agree with the model itself"),
    ],
)
def test_a_model_that_does_not_compile(network, tokenizer_of, monkeypatch, forward, said):
    monkeypatch.setattr(torch, "compile", lambda *_, **__: forward)
    with pytest.raises(ModelError, match=said):
        HFModel(network, tokenizer_of("gpt-neox"), {"model": "x"}, compile=True)


def test_long_texts_go_through_windows(tokenizer_of):
    found = tokenizer_of("gpt2")
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
    assert np.allclose(frame["surprisal_naive"][:5], both["surprisal_naive"], atol=1e-4)


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
    found = tokenizer_of("llama2")
    torch.manual_seed(0)
    config = getattr(transformers, kind)(vocab_size=32000, **SIZE, **options)
    model = HFModel(transformers.AutoModelForCausalLM.from_config(config), found, {"model": kind})
    assert (model._head is not None) == plain
    with torch.inference_mode():
        whole = torch.log_softmax(model._model(input_ids=torch.tensor([[5, 6, 7]])).logits[0, -1].double(), -1)
    assert np.allclose(dict(model.next_logprobs([[5, 6, 7]]))[0], whole, atol=1e-5)


def test_gathered_ids_are_the_models_own(model):
    ids = np.arange(5, 12)
    lists = [np.array([4]), np.array([7, 9])]
    request = Request(ids, first=2, gather=np.array([3, 6]), chosen=np.array([1, 0]), lists=lists)
    from wordprob.core import words

    atoms = atoms_of(model.tokenizer.vocabulary, words.Whitespace(), model.vocab_size)
    ((_, scores),) = model.score([request], atoms)
    after = dict(model.next_logprobs([ids[:4].tolist(), ids.tolist()]))
    assert np.allclose(scores.gathered, [np.logaddexp(*after[0][[7, 9]]), after[1][4]], atol=1e-4)
    assert len(scores.target) == 4
    assert scores.mass.shape == (5, len(atoms.labels))


# --- what cannot be loaded ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (lambda: transformers.BertConfig(architectures=["BertForMaskedLM"]), "masked model"),
        (lambda: transformers.RobertaConfig(), "masked model"),
        (lambda: transformers.T5Config(architectures=["T5ForConditionalGeneration"]), "encoder–decoder"),
    ],
)
def test_models_that_are_not_causal_are_refused(tmp_path, config, message):
    config().save_pretrained(tmp_path)
    with pytest.raises(UnsupportedError, match=message):
        load(tmp_path)


def test_an_empty_directory_says_what_is_needed(tmp_path):
    with pytest.raises(ModelError, match=r"config\.json"):
        load(tmp_path)


def test_remote_code_is_off_unless_asked(tmp_path):
    (tmp_path / "config.json").write_text(
        '{"model_type": "mine", "auto_map": {"AutoConfig": "mine.MineConfig", "AutoModelForCausalLM": "mine.Mine"}}'
    )
    (tmp_path / "mine.py").write_text("raise SystemExit('ran')\n")
    with pytest.raises(ModelError, match="trust-remote-code"):
        load(tmp_path)


@pytest.mark.parametrize("options", [{"device": "tpu"}, {"dtype": "int8"}, {"device": "cuda"}])
def test_bad_devices_and_dtypes(options):
    if options == {"device": "cuda"} and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(OptionError, match="use|no cuda"):
        load(shared("models/stories15M"), **options)


def test_bos_is_chosen_and_recorded():
    directory = shared("models/stories15M")
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
