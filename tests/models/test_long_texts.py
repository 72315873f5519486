"""Long texts are tokenized in chunks, with the same tokens."""

from __future__ import annotations

import pickle
import random
import sys
import unicodedata
from functools import cache

import numpy as np
import pytest
import regex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import MODELS, SMALL_TOKENIZERS, TOKENIZERS
from made_up_text import book
from wordprob.models.huggingface import chunked_tokenization as chunking
from wordprob.models.huggingface import tokenizer as huggingface_tokenizer

DROPPED = {
    # name: how many characters a cut leaves out
    "gemma": 0,
    "gpt-neox": 0,
    "gpt2": 0,
    "llama2": 1,
    "llama3_2": 0,
    "mistral-7b-v0.1": 0,
    "qwen2_5": 0,
    "smollm2": 0,
    "stories15M": 1,
    "small-gpt2": 0,
    "small-gpt-neox": 0,
    "small-llama3": 0,
    "small-qwen2": 0,
    "small-llama2": 1,
    "small-gemma": 0,
    "small-unigram": 0,
}
EVERY = [*SMALL_TOKENIZERS, *TOKENIZERS, *MODELS]
FEW = [*SMALL_TOKENIZERS, *TOKENIZERS[::3]]
"""Enough of the real ones where a test tries many texts."""
FRAGMENTS = (
    *("a", "I", "the", "word", "Words", "it's", "I'LL", "don't", "New York", "naïve", "café", "e\u0301te\u0301", "ÉTÉ"),
    *(" ", " ", " ", " ", "  ", "   ", " " * 9, "\n", "\n\n", "\t", "\r\n", "\u00a0", "\u2003", "\u0301", "\u200d"),
    *("1", "2024", "12,345.67", "x²", ".", ",", "?!", "…", "—", "'", "’s", '"', "(", ")", "/", "://", "_", "#", "@@"),
    *(
        "слово",
        "λέξη",
        "漢字",
        "かな",
        "단어",
        "\u1112\u1161\u11ab",
        "\u0958",
        "كلمة",
        "שָׁלוֹם",
        "हिन्दी",
        "ไทย",
        "ﹰ",
        "Å",
    ),
    *("😀", "👩‍🔬", "🇫🇷", "▁", "▁▁", "Ġ", "</w>", "<s>", "</s>", "<unk>", "<0x41>", "<|endoftext|>", "<tool_call>"),
    *("<|fim_prefix|>", "<|im_start|>", "<start_of_turn>", "[INST]", "<b>", "\x00", "\ufffd", "\ufeff"),
)
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join)


def in_chunks(tokenizer, texts, size):
    """Tokenize as if every text were a long one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunking, "MAX_WHOLE_CHARACTERS", 0)
        patch.setattr(chunking, "CHUNK_CHARACTERS", size)
        return tokenizer.encode(texts)


def whole(tokenizer, texts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunking, "MAX_WHOLE_CHARACTERS", sys.maxsize)
        return tokenizer.encode(texts)


def assert_same(tokenizer, texts, size):
    for text, found, expected in zip(texts, in_chunks(tokenizer, texts, size), whole(tokenizer, texts), strict=True):
        assert found.ids.tolist() == expected.ids.tolist(), text[:200]
        assert np.array_equal(found.starts, expected.starts)
        assert np.array_equal(found.ends, expected.ends)
        assert found.exact == expected.exact
        assert found.ids.dtype == expected.ids.dtype


# --- real tokenisers ------------------------------------------------------------------------------------------------


@cache
def long_text():
    rng = random.Random(0)
    odd = ["".join(rng.choices(FRAGMENTS, k=30)) for _ in range(200)]
    return book(60_000) + " ".join(odd) + book(10_000, seed=1)


@pytest.mark.parametrize("name", EVERY)
def test_which_tokenizers_are_cut(tokenizer_of, name):
    tokenizer = tokenizer_of(name)
    assert (None if tokenizer.backend is None else tokenizer.dropped_at_cut) == DROPPED.get(name)


@pytest.mark.parametrize("name", [n for n in FEW if n not in ("ctrl", "small-ctrl")])
def test_chunks_give_the_tokens_of_a_long_text(tokenizer_of, name):
    assert_same(tokenizer_of(name), [long_text(), "Short.", long_text()[500:]], 200)


@pytest.mark.parametrize("name", FEW)
def test_chunks_give_the_tokens_of_any_text(tokenizer_of, name):
    tokenizer = tokenizer_of(name)

    @settings(max_examples=40, deadline=None)
    @given(st.lists(TEXTS, min_size=1, max_size=3), st.integers(1, 12))
    def check(texts, size):
        assert_same(tokenizer, texts, size)

    check()


@pytest.mark.parametrize("name", FEW)
def test_joined_texts_have_the_tokens_that_they_have_apart(tokenizer_of, name):
    tokenizer = tokenizer_of(name)
    spaced = st.tuples(st.sampled_from(["", " "]), TEXTS).map("".join)

    @settings(max_examples=40, deadline=None)
    @given(st.lists(spaced, min_size=1, max_size=12))
    def check(texts):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(huggingface_tokenizer, "MIN_JOINED_TEXTS", 1)
            found = tokenizer.encode(texts)
        for tokens, expected in zip(found, whole(tokenizer, texts), strict=True):
            assert tokens.ids.tolist() == expected.ids.tolist()
            assert np.array_equal(tokens.starts, expected.starts)
            assert np.array_equal(tokens.ends, expected.ends)
            assert tokens.exact == expected.exact

    check()


def test_many_words_are_tokenized_as_one_text(tokenizer_of, monkeypatch):
    tokenizer = pickle.loads(pickle.dumps(tokenizer_of("small-gpt2")))
    words = [f" {word}" for word in long_text().split()[:300] if word.isalpha()]
    expected, batch, seen = tokenizer.encode_whole(words), tokenizer.encode_whole, []
    tokenizer.dropped_at_cut  # noqa: B018  (this tries a text)
    monkeypatch.setattr(tokenizer, "encode_whole", lambda texts: seen.append(list(texts)) or batch(seen[-1]))
    assert [tokens.ids.tolist() for tokens in tokenizer.encode(words)] == expected
    assert seen == [["".join(words)]]


def test_the_default_model_is_cut(smollm2):
    assert smollm2.model.tokenizer.dropped_at_cut == 0
    assert_same(smollm2.model.tokenizer, [chunking.PROBE_TEXT * 3], 5)


@pytest.mark.parametrize("name", ["small-llama2", "small-gpt-neox"])
def test_few_chunks_are_tokenized_at_a_time(tokenizer_of, name, monkeypatch):
    tokenizer = pickle.loads(pickle.dumps(tokenizer_of(name)))
    text, seen, batch = book(140_000), [], tokenizer.encode_whole

    def watched(texts):
        seen.append([len(t) for t in texts])
        return batch(texts)

    assert tokenizer.dropped_at_cut == DROPPED[name]
    monkeypatch.setattr(tokenizer, "encode_whole", lambda texts: watched(list(texts)))
    texts = ["Short.", text, "Shorter"]
    tokens = tokenizer.encode(texts)
    assert seen[0] == [6, 7]
    assert sum(map(sum, seen[1:])) >= len(text) - 2 * sum(map(len, seen))
    assert max(map(len, seen)) <= chunking.CHUNKS_AT_A_TIME
    assert max(map(max, seen)) < chunking.CHUNK_CHARACTERS + 500
    assert [t.ids.tolist() for t in tokens] == batch(texts)


def test_ordinary_texts_are_not_checked_for_cuts(tokenizer_of):
    tokenizer = pickle.loads(pickle.dumps(tokenizer_of("small-gpt2")))
    tokenizer.__dict__.pop("dropped_at_cut", None)
    tokenizer.encode(["a b" * (chunking.MAX_WHOLE_CHARACTERS // 3), ""])
    tokenizer.encode([])
    assert "dropped_at_cut" not in tokenizer.__dict__
    tokenizer.encode(["a b" * chunking.MAX_WHOLE_CHARACTERS])
    assert tokenizer.__dict__["dropped_at_cut"] == 0


# --- made-up tokenisers ---------------------------------------------------------------------------------------------

GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SAMPLE = ("It was the best of times and the worst of New York times, a word and the word " * 3, chunking.PROBE_TEXT)


def wrapped(backend):
    """Wrap a tokenizer as transformers does, and then as we do."""
    from transformers import PreTrainedTokenizerFast

    from wordprob.models.huggingface.tokenizer import HFTokenizer

    return HFTokenizer(PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|endoftext|>"))


def trained(pre_tokenizer, normalizer=None, model="BPE"):
    """Train a small tokeniser on a few sentences."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    kinds = {
        "BPE": (models.BPE(), trainers.BpeTrainer),
        "Unigram": (models.Unigram(), trainers.UnigramTrainer),
    }
    empty, trainer = kinds[model]
    backend = Tokenizer(empty)
    backend.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        backend.normalizer = normalizer
    characters = sorted({*"".join(SAMPLE), *"".join(FRAGMENTS), *pre_tokenizers.ByteLevel.alphabet(), "▁"})
    special = ["<|endoftext|>", "<unk>"]
    options = {"unk_token": "<unk>"} if model == "Unigram" else {}
    learn = trainer(
        vocab_size=len(characters) + 150,
        special_tokens=special,
        initial_alphabet=characters,
        show_progress=False,
        **options,
    )
    backend.train_from_iterator(SAMPLE, learn)
    return backend


def spaced(backend, normalizer, pre_tokenizer):
    """Give a trained tokeniser other steps."""
    backend.normalizer, backend.pre_tokenizer = normalizer, pre_tokenizer
    return backend


def makers():
    from tokenizers import Regex, normalizers, pre_tokenizers

    metaspace, byte_level, split = pre_tokenizers.Metaspace, pre_tokenizers.ByteLevel, pre_tokenizers.Split
    replace, prepend = normalizers.Replace(" ", "▁"), normalizers.Prepend("▁")
    both, nothing = normalizers.Sequence, split(" ", "merged_with_previous")
    found = {
        "GPT-4o": lambda: trained(
            pre_tokenizers.Sequence([split(Regex(GPT4O), "isolated"), byte_level(False, use_regex=False)])
        ),
        "prefix space": lambda: trained(byte_level(add_prefix_space=True)),
        "NFC": lambda: trained(byte_level(False), normalizers.NFC()),
        "Falcon": lambda: trained(
            pre_tokenizers.Sequence(
                [
                    pre_tokenizers.Punctuation("contiguous"),
                    byte_level(False),
                    pre_tokenizers.Digits(),
                    split(Regex("[0-9][0-9][0-9]"), "isolated"),
                ]
            )
        ),
        "Unigram": lambda: trained(metaspace(), model="Unigram"),
        "marks first": lambda: spaced(trained(metaspace()), both([replace, prepend]), None),
        "marks last": lambda: spaced(trained(metaspace()), both([prepend, replace, normalizers.NFC()]), nothing),
    }
    for scheme in ("always", "first", "never"):
        for parts in (True, False):
            found[f"{scheme} {parts}"] = lambda scheme=scheme, parts=parts: spaced(
                trained(metaspace()), None, metaspace(prepend_scheme=scheme, split=parts)
            )
    return found


MADE = (
    *("GPT-4o", "prefix space", "NFC", "Falcon", "Unigram", "marks first", "marks last"),
    *("always True", "always False", "first True", "first False", "never True", "never False"),
)


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("added", [(), ("<b>", "  ", "\n\n", "▁▁", "</s>", "[INST]")])
def test_steps_of_every_kind(name, added):
    from tokenizers import AddedToken

    backend = makers()[name]()
    for n, content in enumerate(added):
        backend.add_tokens([AddedToken(content, normalized=n % 2 == 0, rstrip=n % 3 == 0, single_word=n == 5)])
    tokenizer = wrapped(backend)
    assert tokenizer.dropped_at_cut == int("marks" in name)

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(TEXTS, st.integers(1, 8))
    def check(text, size):
        assert_same(tokenizer, [text], size)

    check()
    assert_same(tokenizer, [*SAMPLE], 1)


def crossing(left, right):
    """Make a tokeniser with a token over a space."""
    from tokenizers import Tokenizer, models, normalizers

    tokens = ["<|endoftext|>", "<unk>", "▁", *"abcdefghijklmnopqrstuvwxyz", f"{left}▁", f"{left}▁{right}"]
    merges = [(left, "▁"), (f"{left}▁", right)]
    backend = Tokenizer(models.BPE(vocab={t: n for n, t in enumerate(tokens)}, merges=merges, unk_token="<unk>"))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return backend


def test_a_token_across_a_space_keeps_texts_whole():
    backend = crossing("q", "z")
    assert chunking.characters_dropped_at_cut(backend) is None
    tokenizer = wrapped(backend)
    tokens = in_chunks(tokenizer, ["q z q z"], 1)[0]
    assert [tokenizer.vocabulary.tokens[i] for i in tokens.ids] == ["▁", "q▁z", "▁", "q▁z"]


def test_chunks_are_tried_out_first(monkeypatch):
    monkeypatch.setattr(chunking, "characters_dropped_at_cut", lambda backend: 1)
    assert wrapped(crossing("a", "t")).dropped_at_cut is None


def unsure():
    """Return tokenisers that a cut could change, or of which that is not known."""
    from tokenizers import AddedToken, Regex, normalizers, pre_tokenizers

    class Own:
        def pre_tokenize(self, text):
            return None

    byte_level, split = pre_tokenizers.ByteLevel, pre_tokenizers.Split

    def with_added(token):
        backend = trained(byte_level(False))
        backend.add_tokens([token])
        return backend

    def with_model(**settings):
        backend = trained(pre_tokenizers.Metaspace())
        backend.pre_tokenizer = pre_tokenizers.Metaspace(split=settings.pop("split", False))
        for key, value in settings.items():
            setattr(backend.model, key, value)
        return backend

    return {
        "added over the cut": lambda: with_added("w Y"),
        "added around the cut": lambda: with_added("<w Y>"),
        "added before the cut": lambda: with_added(AddedToken("worst", rstrip=True)),
        "added after the cut": lambda: with_added(AddedToken("worst", lstrip=True)),
        "added space": lambda: with_added(" "),
        "own step": lambda: spaced(trained(byte_level(False)), None, pre_tokenizers.PreTokenizer.custom(Own())),
        "strips": lambda: trained(byte_level(False), normalizers.Strip()),
        "prepends only": lambda: trained(byte_level(False), normalizers.Prepend("▁")),
        "prepends twice": lambda: spaced(
            trained(pre_tokenizers.Metaspace()),
            normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
            None,
        ),
        "no pattern": lambda: trained(byte_level(False, use_regex=False)),
        "no steps": lambda: spaced(trained(byte_level(False)), None, None),
        "pattern over spaces": lambda: trained(split(Regex(r"\p{L}+ \p{L}+|\s+"), "isolated")),
        "pattern that looks back": lambda: trained(split(Regex(r"(?<=\s)\p{L}+|\s+"), "isolated")),
        "pattern with gaps": lambda: trained(split(Regex(r"'s|\p{N}"), "isolated")),
        "parts that go": lambda: trained(split(Regex(r" ?\p{L}+|\s+"), "removed")),
        "marks parted": lambda: trained(split(Regex(r" ?\p{L}+|\s+"), "isolated"), normalizers.Replace(" ", "▁")),
        "Unigram": lambda: spaced(
            trained(pre_tokenizers.Metaspace(), model="Unigram"), None, pre_tokenizers.Metaspace(split=False)
        ),
        "whole words first": lambda: with_model(ignore_merges=True),
        "at random": lambda: with_model(dropout=0.5, split=True),
        "suffix": lambda: with_model(end_of_word_suffix="</w>"),
        "prefix": lambda: with_model(continuing_subword_prefix="##"),
        "unknown as mark": lambda: with_model(unk_token="▁"),
    }


UNSURE = (
    *(
        "added over the cut",
        "added around the cut",
        "added before the cut",
        "added after the cut",
        "added space",
        "own step",
        "strips",
    ),
    *("prepends only", "prepends twice", "no pattern", "no steps", "pattern over spaces", "pattern that looks back"),
    *("pattern with gaps", "parts that go", "marks parted", "Unigram", "whole words first", "at random", "suffix"),
    *("prefix", "unknown as mark"),
)


@pytest.mark.parametrize("name", UNSURE)
def test_nothing_is_cut_where_it_could_change_tokens(name):
    assert chunking.characters_dropped_at_cut(unsure()[name]()) is None


# --- what the proof says --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alternative", chunking.ALTERNATIVES)
def test_no_known_pattern_holds_a_letter_and_a_space(alternative):
    from tokenizers import Regex, pre_tokenizers

    split = pre_tokenizers.Split(Regex(alternative), "removed", invert=True)

    @settings(max_examples=50, deadline=None)
    @given(TEXTS)
    def check(text):
        assert not any(regex.search(r"\p{L} ", part) for part, _ in split.pre_tokenize_str(text))

    check()


def test_letters_stay_letters_when_composed():
    letters = [chr(c) for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c)).startswith("L")]
    around = [unicodedata.normalize("NFC", f"{a} {a}") for a in letters]
    inner = regex.compile(r"[\p{L}\p{M}]+ [\p{L}\p{M}]+")
    assert not [a for a, text in zip(letters, around, strict=True) if not inner.fullmatch(text)]
    assert not any(letter.isspace() or letter == chunking.SPACE_MARK for letter in letters)
