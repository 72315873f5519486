"""GGUF files run by llama.cpp: as close to the expanded model as their quantised arithmetic allows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import tiny_gguf
import wordprob
from wordprob.core import words
from wordprob.core.atoms import Atoms, atoms_of
from wordprob.errors import ModelError, OptionError, UnknownModelError
from wordprob.models import default_model, registry
from wordprob.models.logit_rows import LogitReducer, NotFiniteRowError, ScoresBuilder
from wordprob.models.protocol import PrefixStates, Request, scores_from_logits
from wordprob.models.registry import local_path, model_label, open_model, open_tokenizer
from wordprob.models.threads import limited_threads
from wordprob.options import ModelOptions

TEXTS = [
    "She saw the mark on the wall, and asked what it was.",
    "It's 5'2\" (or so), naïve café 中文 otorhinolaryngologist bulwarks.",
    "The old man looked at the sea and thought about the fish that he had caught the day before.",
    "Once upon a time there was a little girl who lived in a village near the forest.",
]
MEAN_ERROR_NATS = 0.15
"""How far log p of a token is from the expanded model's, on average: 0.08 was measured."""
MEAN_BOUNDARY_ERROR_NATS = 0.06
"""The same for boundary masses: 0.03 was measured."""


# --- reducing logits, which needs no library -------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [1.0, 20.0, 300.0])
def test_rows_are_reduced_as_the_readable_path_does(spread):
    random = np.random.default_rng(0)
    atoms = Atoms(("a", "b", "c", "empty"), random.integers(0, 3, 500))
    ids = random.integers(0, 500, 40)
    statistics = {"statistics": ("entropy", "rank", "log_probs"), "statistics_rows": np.array([9, 20, 38])}
    lists = {"gather": np.array([30, 7, 39]), "gather_lists": np.array([0, 1, 1])}
    request = Request(ids, 7, id_lists=[np.array([3]), np.arange(50, 60)], **lists, **statistics)
    logits = random.normal(0, spread, (33, 500)).astype(np.float32)
    builder = ScoresBuilder(request, LogitReducer(atoms))
    for begin, end in ((0, 1), (1, 20), (20, 33)):
        builder.add(7 + begin, logits[begin:end])
    found, expected = builder.scores(), scores_from_logits(logits.astype(np.float64), request, atoms)
    for name in ("target", "mass", "gathered"):
        assert np.allclose(getattr(found, name), getattr(expected, name), atol=1e-5), name
    for name, values in expected.statistics.items():
        assert np.allclose(found.statistics[name], values, atol=1e-4), name


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_logits_that_are_no_numbers_are_named(value):
    atoms = Atoms(("a",), np.zeros(5, dtype=int))
    logits = np.zeros((4, 5), dtype=np.float32)
    logits[2, 1] = value
    with np.errstate(invalid="ignore"), pytest.raises(NotFiniteRowError) as error:
        ScoresBuilder(Request(np.arange(5), 1), LogitReducer(atoms)).add(1, logits)
    assert error.value.row == 3


# --- without the library ----------------------------------------------------------------------------------------------


@pytest.fixture
def not_installed(monkeypatch):
    """Make llama.cpp look as if it was not installed."""
    find = registry.find_spec
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == "llama_cpp" else find(name))
    load = pytest.importorskip("wordprob.models.llama_cpp.load")
    monkeypatch.setattr(load, "find_spec", lambda name: None if name == "llama_cpp" else find(name))


def test_without_llama_cpp_a_file_is_expanded_and_that_is_announced(tmp_path, capsys, not_installed):
    path = tiny_gguf.write(tmp_path / "tiny.gguf", tiny_gguf.tensors())
    scorer = wordprob.load(path)
    assert "torch" in scorer.model.metadata
    announced = capsys.readouterr().err
    assert "tiny.gguf is expanded to full precision" in announced
    assert "pip install 'wordprob[llama-cpp]'" in announced
    wordprob.load(f"gguf:{path}")
    assert capsys.readouterr().err == "", "it was asked for"
    with pytest.raises(ModelError, match="llama.cpp is not installed: pip install"):
        wordprob.load(f"llama-cpp:{path}")


def test_a_name_may_say_how_a_file_is_run(tmp_path):
    path = tmp_path / "tiny.gguf"
    path.touch()
    for backend in ("gguf", "llama-cpp"):
        assert registry.resolve(f"{backend}:{path}") == (backend, str(path))
        assert local_path(f"{backend}:{path}") == path
        assert model_label(f"{backend}:{path}") == "tiny"
    from wordprob.runs.settings import RunSettings

    settings = RunSettings(ModelOptions(model=f"gguf:{path}"))
    assert settings.with_absolute_model_path().model.model == f"gguf:{path}"


# --- with it ---------------------------------------------------------------------------------------------------------

needs_llama_cpp = pytest.mark.skipif(
    registry.gguf_backend() != "llama-cpp",
    reason="needs llama-cpp-python: pip install 'wordprob[llama-cpp]'",
)


@pytest.fixture(scope="module")
def quantised():
    return wordprob.load(default_model.gguf_file())


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_gguf.write(tmp_path_factory.mktemp("tiny") / "tiny.gguf", tiny_gguf.tensors())


@needs_llama_cpp
def test_the_vocabulary_is_that_of_the_expanded_model_and_the_librarys_own_bytes(quantised, smollm2):
    found, expected = quantised.model.tokenizer.vocabulary, smollm2.model.tokenizer.vocabulary
    assert found.tokens == expected.tokens
    assert (found.start, found.ends, found.convention) == (expected.start, expected.ends, expected.convention)
    file = quantised.model.file
    for token, piece in enumerate(found.pieces):
        assert file.piece(token) == (found.tokens[token].encode() if piece is None else piece), token
    for text in (*TEXTS, "a  b\n\n\tc </s> <|endoftext|> 1234", "🙂 \u00a0x"):
        ours, theirs = (scorer.model.tokenizer.encode([text])[0] for scorer in (quantised, smollm2))
        assert ours.ids.tolist() == theirs.ids.tolist(), text
        assert ours.starts.tolist() == theirs.starts.tolist()


@needs_llama_cpp
def test_values_are_within_the_error_of_quantised_arithmetic(quantised, smollm2):
    found, expected = (scorer.score(TEXTS, unit="nats").to_pandas() for scorer in (quantised, smollm2))
    assert found["word"].tolist() == expected["word"].tolist()
    tokens = found["n_tokens"].sum()
    assert np.abs(found["surprisal_naive"] - expected["surprisal_naive"]).sum() / tokens < MEAN_ERROR_NATS
    for column in ("before", "after"):
        assert np.abs(found[column] - expected[column]).mean() < MEAN_BOUNDARY_ERROR_NATS
    assert np.abs(found["surprisal"] - expected["surprisal"]).sum() / tokens < 1.5 * MEAN_ERROR_NATS
    assert np.abs(found["surprisal"] - expected["surprisal"]).max() > 1e-3, "it is not the expanded model"


@needs_llama_cpp
def test_values_do_not_depend_on_the_batch(quantised):
    together = quantised.score(TEXTS * 2, unit="nats").to_pandas()
    alone = [quantised.score([text], unit="nats").to_pandas() for text in TEXTS]
    for number, table in enumerate(alone * 2):
        part = together[together["text_id"] == number]
        assert np.allclose(part["surprisal"], table["surprisal"], atol=1e-4)


@needs_llama_cpp
def test_a_token_alone_and_after_others_is_the_same(quantised):
    """The library has a faster way for single tokens, and another for large batches, which give other numbers."""
    model = quantised.model
    ids = np.array([*model.tokenizer.vocabulary.start_ids, *model.tokenizer.encode([TEXTS[2]])[0].ids.tolist()])
    atoms = atoms_of(model.tokenizer.vocabulary, words.Whitespace(), model.vocab_size)
    whole = dict(model.score([Request(ids), *[Request(ids[::-1].copy()) for _ in range(6)]], atoms))[0]
    states = PrefixStates()
    for n in range(1, len(ids)):
        step = dict(model.open([Request(ids[: n + 1], n)], atoms, states))[0]
        assert np.allclose(step.mass[0], whole.mass[n], atol=1e-4)


@needs_llama_cpp
def test_contexts_are_run_once_and_kept_within_limits(tiny, monkeypatch):
    from wordprob.models.llama_cpp import kept_states

    model = open_model(tiny)
    atoms = atoms_of(model.tokenizer.vocabulary, words.Whitespace(), model.vocab_size)
    context = np.arange(1, 21)
    states = PrefixStates()
    requests = [Request(np.append(context, token), 20) for token in range(100, 103)]
    list(model.open(requests, atoms, states))
    list(model.open(requests, atoms, states))
    list(model.open([Request(context[:10], 9)], atoms, states))
    assert model.contexts_run == 1
    kept = states.entries[model]
    assert len(kept) == 1
    monkeypatch.setattr(kept_states, "MAX_KEPT_BYTES", kept.size_bytes + 1)
    list(model.open([Request(np.arange(30, 50), 19)], atoms, states))
    assert len(kept) == 1
    assert kept.size_bytes <= kept_states.MAX_KEPT_BYTES
    list(model.open(requests, atoms, states))
    assert model.contexts_run == 3


@needs_llama_cpp
def test_no_torch_is_imported(tiny):
    import subprocess
    import sys

    code = f"import sys, wordprob; wordprob.load({str(tiny)!r}).score('the mark'); print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
    assert result.stderr == "", "the library says nothing by itself"


@needs_llama_cpp
def test_workers_open_the_tokenizer_again(tiny):
    tokenizer = open_tokenizer(tiny)
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.encode(["the mark"])[0].ids.tolist() == tokenizer.encode(["the mark"])[0].ids.tolist()
    scorer = wordprob.load(tiny)
    texts = ["the mark", "a mark"]
    assert np.allclose(
        scorer.score(texts, readers=1).to_pandas()["surprisal"], scorer.score(texts).to_pandas()["surprisal"]
    )


@needs_llama_cpp
def test_threads_are_those_asked_for():
    from wordprob.models.llama_cpp.library import default_threads

    with limited_threads(3):
        assert default_threads() == 3


@needs_llama_cpp
def test_chat_templates_are_those_of_the_expanded_model(smollm2):
    options = {"chat_template": "assistant", "chat_prompt": "Hello!"}
    found = open_tokenizer(str(default_model.gguf_file()), **options)
    expected = open_tokenizer("smollm2-135m", **options)
    assert found.chat == expected.chat
    assert found.vocabulary.start_ids == expected.vocabulary.start_ids


# --- what is wrong ----------------------------------------------------------------------------------------------------


@needs_llama_cpp
def test_a_library_that_cannot_be_loaded(tiny, tmp_path, monkeypatch):
    import sys

    from wordprob.models.llama_cpp import library

    (tmp_path / "llama_cpp.py").write_text("raise RuntimeError('no shared library')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "llama_cpp", raising=False)
    library.library.cache_clear()
    try:
        with pytest.raises(ModelError, match="is installed, but cannot be loaded: no shared library. .* gguf: before"):
            wordprob.load(tiny)
    finally:
        library.library.cache_clear()


@needs_llama_cpp
@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9, 0.999])
def test_a_truncated_file(tmp_path, tiny, share):
    data = tiny.read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(
        ModelError, match=r"cut.gguf could not be read as a GGUF model by llama.cpp: .*complete"
    ) as error:
        wordprob.load(path)
    assert "no reason" not in str(error.value)


@needs_llama_cpp
def test_files_that_are_no_models(tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"GGUF nonsense" * 100)
    with pytest.raises(ModelError, match="could not be read as a GGUF model"):
        wordprob.load(tmp_path / "x.gguf")
    with pytest.raises(UnknownModelError, match="no such file"):
        wordprob.load(tmp_path / "y.gguf")
    with pytest.raises(ModelError, match="no such file"):
        wordprob.load(f"llama-cpp:{tmp_path / 'y.gguf'}")


@needs_llama_cpp
def test_a_tensor_that_is_missing_or_of_another_shape(tmp_path):
    tensors = tiny_gguf.tensors()
    del tensors["blk.0.ffn_up.weight"]
    with pytest.raises(ModelError, match="llama.cpp: tensor 'blk.0.ffn_up.weight' not found"):
        wordprob.load(tiny_gguf.write(tmp_path / "missing.gguf", tensors))
    tensors = tiny_gguf.tensors()
    tensors["output_norm.weight"] = tensors["output_norm.weight"][:4]
    with pytest.raises(ModelError, match=r"output_norm.weight.* wrong shape"):
        wordprob.load(tiny_gguf.write(tmp_path / "shape.gguf", tensors))


@needs_llama_cpp
def test_weights_that_are_no_numbers(tmp_path):
    tensors = tiny_gguf.tensors()
    tensors["blk.1.ffn_up.weight"][:] = np.nan
    with pytest.raises(ModelError, match="not finite numbers .* Its weights may be damaged"):
        wordprob.load(tiny_gguf.write(tmp_path / "nan.gguf", tensors))


@needs_llama_cpp
@pytest.mark.parametrize("options", [{"dtype": "float32"}, {"compile": True}, {"device": "mps"}])
def test_options_of_expanded_models(tiny, options):
    with pytest.raises(OptionError, match="write gguf:"):
        wordprob.load(tiny, **options)
