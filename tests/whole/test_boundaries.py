"""Every boundary of every word against brute force: each tokeniser at hand, two definitions, spans, many scripts."""

from __future__ import annotations

import copy
import json
import random
import unicodedata
from collections import OrderedDict
from functools import cache

import numpy as np
import pytest
import torch

from brute_force import BruteForce, brute_force_on, ends_word, examples, kind
from conftest import SMALL_TOKENIZERS, TOKENIZERS
from distributions import next_log_probs
from flat_lm import FlatLM
from small_tokenizers import REWRITING
from wordprob import Scorer, load
from wordprob.core import words
from wordprob.models.exact import ExactLM, ToyTokenizer
from wordprob.models.protocol import Capabilities
from wordprob.models.registry import open_tokenizer

TOLERANCE_NATS = 1e-4
DEFINITIONS = ("whitespace", "punctuation")
SMALL = [name for name in SMALL_TOKENIZERS if name not in REWRITING]
"""Tokenisers whose tokens tell where white space is; those that rewrite texts do not (see :mod:`brute_force`)."""
COMPARED = [*SMALL, *(name for name in TOKENIZERS if name != "openai-gpt")]

LARGE = ("ctrl", "gemma", "llama3_2", "qwen2_5")
"""Vocabularies of 128,000 tokens and more, with which brute force takes long."""

SHORT = ["Charles' dog is half-way.", "(5' long?)", "a—'no'—\"b.\"", "x]!=1"]
SCRIPTS = {
    "French NFD": unicodedata.normalize("NFD", "L’été, déjà?"),
    "Hindi": "यह किताब है।",
    "Tamil": "இது நல்லது.",
    "Thai": "แมว ที่นี่",
    "Hebrew": "זה ”ספר“ טוב.",
    "Chinese": "我喜欢（书）。",
    "Japanese": "「本」を読む。",
    "Russian": "«Да», — сказал он.",
    "German": "„Süß“, so Ümit.",
    "Arabic": "هذا كتاب؟",
}
LONG = [
    "She said, \"Mr. Smith can't (or won't) go.\"",
    "The boss' car wasn't 'new'—it's from the '90s!",
    "“Don’t,” he said… ‘why?’",
    "e.g. U.S.-based, i.e. the F.B.I.'s man.",
    "if (a[i] != b[j]) { return x->y; }",
    "Rock'n'roll: 3.14%, $5.00/kg & more...",
    'Well-known half-truths (see [3], p. 5).\n\n"Yes?!" -- No.',
    "A\ttab, a\nline and a no-break\u00a0space.",
]


# --- the comparison -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def flat(tokenizer_of):
    """Open a tokeniser with a flat model on it: the scorer, and the brute force."""

    @cache
    def opener(name):
        model = FlatLM(tokenizer_of(name))
        model.capabilities = Capabilities(precision_nats=2e-5)  # the brute force is certain to 1e-4
        return Scorer(model), BruteForce(model.tokenizer, model.distribution)

    return opener


@pytest.fixture(scope="session")
def real():
    """The default model in double precision, and the brute force on it.

    In single precision the first tokens of a text are off by up to 2e-4 nats, in one pass and in another.
    """
    scorer = load()
    scorer.model.network.double()
    distribution = Distributions(scorer.model.network)
    return scorer, BruteForce(scorer.model.tokenizer, distribution, prune=1e-6, kept=500)


class Distributions:
    """The distribution of a transformers model after any ids; what it computed for all but the last id is kept."""

    def __init__(self, network, kept=50):
        self._network = network
        self._states = OrderedDict()
        self._kept = kept
        self._computed = {}

    def __call__(self, ids):
        if ids not in self._computed:
            state = copy.deepcopy(self._states.get(ids[:-1]))
            logits, state = self._run([ids[-1:] if state is not None else ids], state)
            self._states[ids] = state
            if len(self._states) > self._kept:
                self._states.popitem(last=False)
            return logits[0]
        return self._computed.pop(ids)

    def ahead(self, many):
        """Compute what will be asked for: ids that differ in the last one only."""
        state = self._states.get(many[0][:-1]) if many else None
        for start in range(0, len(many), 64):
            part = many[start : start + 64]
            copied = copy.deepcopy(state)
            if copied is not None:
                copied.batch_repeat_interleave(len(part))
            rows, _ = self._run([ids[-1:] if state else ids for ids in part], copied)
            self._computed.update(zip(part, rows, strict=True))

    def _run(self, ids, state):
        with torch.inference_mode():
            output = self._network(input_ids=torch.tensor(ids), past_key_values=state, use_cache=True)
        return torch.softmax(output.logits[:, -1].double(), dim=-1).numpy(), output.past_key_values


def test_kept_states_change_nothing(real):
    scorer, reference = real
    ids = (0, *scorer.model.tokenizer.encode(["She saw the mark."])[0].ids.tolist())
    for size in range(1, len(ids) + 1):
        expected = next_log_probs(scorer.model, [ids[:size]])[0]
        assert np.abs(np.log(reference.distribution(ids[:size])) - expected).max() < 1e-5


def can_compare(reference, text):
    """Return True if a text's tokens are its bytes, or it is only white space that they leave out."""
    tokens = reference.tokenizer.encode([text])[0]
    drops_space = bool(reference.vocabulary.marked.any())
    return (tokens.exact or drops_space) and reference.vocabulary.unknown not in tokens.ids


def differences(values, found, certain=TOLERANCE_NATS):
    """Return the words that are missing or too far from the brute force, as lines to read.

    The brute force must be ``certain`` of its values to this many nats.
    """
    lines = []
    for value, ours in zip(values, found, strict=True):
        low, high = value.surprisal
        assert high - low < certain, f"the brute force is not certain of {value.text!r}: {low} to {high}"
        if not low - TOLERANCE_NATS <= ours <= high + TOLERANCE_NATS:  # also where ours is missing
            lines.append(f"{value.text!r}: {ours:.5f}, brute force {low:.5f}")
    return lines


def wrong_words(scorer, reference, text, definition, certain=TOLERANCE_NATS):
    """Return what differs from the brute force in a text: its words, and its end."""
    rule = words.define(definition)
    table = scorer.score(text, definition, unit="nats")
    frame = table.to_pandas()
    assert frame["word"].tolist() == [word.text for word in rule.segment(text)]
    lines = differences(reference.words(text, rule), frame["surprisal"], certain)
    end = reference.end(text, rule)
    if not end.low - TOLERANCE_NATS <= table.texts()["end"][0] <= end.high + TOLERANCE_NATS:
        lines.append(f"end: {table.texts()['end'][0]:.5f}, brute force {end.low:.5f}")
    return [f"{text!r} {line}" for line in lines]


def all_wrong_words(scorer, reference, texts, definition):
    compared = [text for text in texts if can_compare(reference, text)]
    assert compared, "no text could be compared"
    return [line for text in compared for line in wrong_words(scorer, reference, text, definition)]


def scripts_for(name):
    """Return two of the scripts for each tokeniser, in turn, so that every script has its turn."""
    texts, number = list(SCRIPTS.values()), COMPARED.index(name)
    return [texts[number % len(texts)], texts[(number + 5) % len(texts)]]


@pytest.mark.parametrize("name", COMPARED)
def test_each_tokeniser(flat, name):
    texts = SHORT[::2] if name in LARGE else SHORT
    assert not all_wrong_words(*flat(name), texts, "punctuation")


@pytest.mark.parametrize("name", SMALL)
def test_words_by_white_space(flat, name):
    assert not all_wrong_words(*flat(name), SHORT[:1], "whitespace")


@pytest.mark.parametrize(
    "name",
    [name for name in COMPARED if name not in ("ctrl", "small-ctrl", "small-unigram", *LARGE)],
)
def test_a_few_scripts_with_each_tokeniser(flat, name):
    texts = scripts_for(name)
    assert not all_wrong_words(*flat(name), texts, "punctuation")


@pytest.mark.slow
@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("name", COMPARED)
def test_each_tokeniser_at_length(flat, name, definition):
    assert not all_wrong_words(*flat(name), [*LONG, *SCRIPTS.values()], definition)


def test_the_default_model(real):
    assert not wrong_words(*real, "Charles' letter", "punctuation", certain=3 * TOLERANCE_NATS)


@pytest.mark.slow
@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize("text", [*SHORT, '(Is it?) "No."', *LONG, *SCRIPTS.values()])
def test_the_default_model_at_length(real, text, definition):
    assert not wrong_words(*real, text, definition, certain=10 * TOLERANCE_NATS)


# --- spans ----------------------------------------------------------------------------------------------------------

SPANS = {
    "two halves of a word": ("the marker", [(0, 3), (3, 6), (6, 10)]),
    "inside a token": ("saw the", [(0, 2), (2, 3), (3, 5), (5, 7)]),
    "Chinese words": ("我喜欢中文。", [(0, 1), (1, 3), (3, 5), (5, 6)]),
    "Thai words": ("แมวกินปลา", [(0, 3), (3, 6), (6, 9)]),
}


@pytest.mark.parametrize("name", ["small-gpt2", "small-llama2", "small-eow"])
@pytest.mark.parametrize("case", SPANS)
def test_spans(flat, name, case):
    scorer, reference = flat(name)
    text, spans = SPANS[case]
    if not can_compare(reference, text):
        pytest.skip("this tokeniser has no tokens for this text")
    frame = scorer.score(text, words=spans, boundary="none", unit="nats").to_pandas()
    assert list(zip(frame["start"], frame["end"], strict=True)) == spans
    assert not differences(reference.spans(text, spans), frame["surprisal"])


@pytest.mark.parametrize("name", ["small-gpt2", "small-qwen2"])
def test_single_characters(flat, name):
    scorer, reference = flat(name)
    text = "我喜欢中文。"
    frame = scorer.score(text, words="characters", boundary="none", unit="nats").to_pandas()
    assert frame["word"].tolist() == list(text)
    assert not differences(reference.spans(text, [(k, k + 1) for k in range(len(text))]), frame["surprisal"])


def test_spans_of_many_texts(flat):
    scorer, reference = flat("small-gpt2")
    texts = ["the marker", "saw the"]
    spans = [SPANS["two halves of a word"][1], SPANS["inside a token"][1]]
    frame = scorer.score(texts, words=spans, boundary="none", unit="nats").to_pandas()
    expected = [value for text, row in zip(texts, spans, strict=True) for value in reference.spans(text, row)]
    assert not differences(expected, frame["surprisal"])


@pytest.mark.parametrize("name", SMALL)
def test_given_words_of_an_unspaced_script_have_values(flat, name):
    scorer, reference = flat(name)
    text = "我喜欢中文。"
    if not can_compare(reference, text):
        pytest.skip("this tokeniser has no tokens for this text")
    frame = scorer.score(text, words=["我", "喜欢", "中文", "。"], unit="nats").to_pandas()
    assert frame["surprisal"].notna().all()
    assert frame["surprisal_naive"].notna().all()


# --- what was wrong once --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["Charles' letter", "5' long", "the boss' car", "dogs’ tails"])
@pytest.mark.parametrize("name", ["small-gpt2", "small-bow"])
def test_a_lone_apostrophe_after_a_letter_is_not_ended_by_letters(flat, name, text):
    assert not wrong_words(*flat(name), text, "punctuation")


@pytest.mark.parametrize("text", ["यह किताब है", "நல்லது இது", "ที่นี่ แมว", "un cafe\u0301 noir"])
@pytest.mark.parametrize("name", ["small-gpt2", "small-llama3", "small-gemma"])
def test_a_combining_mark_at_the_end_of_a_word(flat, name, text):
    assert not wrong_words(*flat(name), text, "punctuation")


@pytest.mark.parametrize("text", ['"Go." He', "(Is it?) No", "a). b"])
@pytest.mark.parametrize("name", ["small-gpt2", "small-bow"])
def test_a_token_shared_by_two_words(flat, name, text):
    assert not wrong_words(*flat(name), text, "punctuation")


@pytest.mark.parametrize("text", ["half-way", "half-way there", "(±n)"])
def test_the_real_text_to_the_left_of_a_word_that_ends_marked(flat, text):
    """With "a" in front of it, *way* is written as the end of *away*."""
    assert not wrong_words(*flat("small-eow"), text, "punctuation")


@pytest.mark.parametrize("name", ["small-gpt2", "small-gpt-neox"])
def test_marks_after_marks(flat, name):
    assert not wrong_words(*flat(name), "so—'no'—(±n)", "punctuation")


@pytest.mark.parametrize("name", ["small-gpt2", "small-llama3"])
def test_a_token_over_two_boundaries(flat, name):
    assert not wrong_words(*flat(name), "a[i]!=b", "punctuation")


def test_a_word_does_not_depend_on_unrelated_texts(flat):
    scorer, _ = flat("small-gpt2")
    alone = scorer.score("the wall", words=["the", "wall"], unit="nats").to_pandas()
    together = scorer.score(["the wall", "it's"], words=[["the", "wall"], ["it", "'s"]], unit="nats").to_pandas()
    assert together["surprisal"][:2].tolist() == pytest.approx(alone["surprisal"].tolist(), abs=1e-12)


@pytest.mark.parametrize("text", [" She saw", "\nShe saw", "  (saw) it", "\u00a0a b"])
@pytest.mark.parametrize("name", ["small-gpt2", "small-llama2", "small-gemma", "small-bow"])
def test_a_text_that_begins_with_white_space(flat, name, text):
    scorer, reference = flat(name)
    if not can_compare(reference, text):
        pytest.skip("this tokeniser does not keep this white space")
    assert not wrong_words(scorer, reference, text, "punctuation")


@pytest.mark.parametrize("text", ["(yes)", "'no' she", "«да»", "“Go”"])
def test_a_first_word_that_is_a_mark_after_a_dummy_space(flat, text):
    assert not wrong_words(*flat("small-llama2"), text, "punctuation")


@pytest.mark.parametrize("words", ["punctuation", [(0, 3)]])
def test_a_value_does_not_depend_on_a_character_that_a_token_cuts_off(flat, words):
    """The tokeniser writes the last byte of a word and the first ones of the next character as one token."""
    scorer, _ = flat("small-gpt2")
    texts, options = (["है", "है।"], {}) if words == "punctuation" else (["แมว", "แมวกิน"], {"boundary": "none"})
    values = [scorer.score(text, words, **options, unit="nats").to_pandas()["surprisal"].iloc[0] for text in texts]
    assert values[0] == pytest.approx(values[1], abs=TOLERANCE_NATS)


# --- marks on byte-level pieces -------------------------------------------------------------------------------------

CLIP_MERGES = ["c a", "f Ã", "Ã ©</w>", "Ã ©", "ca fÃ", "u n</w>", "n o", "no i", "noi r</w>"]


@pytest.fixture
def clip_like(tmp_path):
    """A tokeniser as CLIP's: bytes as characters, and ``</w>`` at the ends of words."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [tuple(merge.split()) for merge in CLIP_MERGES]
    pieces = [*alphabet, *(f"{c}</w>" for c in alphabet), *("".join(pair) for pair in merges), "<|end|>"]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, end_of_word_suffix="</w>"))
    words_or_marks = pre_tokenizers.Split(Regex(r"[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [words_or_marks, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|end|>", "eos_token": "<|end|>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return open_tokenizer(tmp_path)


def test_marked_byte_level_pieces_stand_for_bytes(clip_like):
    vocabulary = clip_like.vocabulary
    by_piece = dict(zip(vocabulary.tokens, vocabulary.token_bytes, strict=True))
    assert by_piece["Ã©</w>"] == "é".encode()
    assert by_piece["cafÃ"] == b"caf\xc3"
    assert by_piece["Ġ"] == b" "
    assert by_piece["a</w>"] == b"a"
    assert bool(vocabulary.marked[vocabulary.tokens.index("Ã©</w>")])


def test_words_of_marked_byte_level_pieces(clip_like):
    tokens = clip_like.encode(["un café noir"])[0]
    pieces = [clip_like.vocabulary.token_bytes[i] for i in tokens.ids]
    assert b"".join(pieces).decode() == "uncafénoir"
    frame = Scorer(FlatLM(clip_like)).score("un café noir", unit="nats").to_pandas()
    assert frame["surprisal"].notna().all()


# --- the brute force itself -----------------------------------------------------------------------------------------


def test_one_character_decides():
    """The brute force asks a definition about one character on the right, and one of each kind: that is enough."""
    rng = random.Random(1)
    characters = examples()
    lefts = ["a", "a'", "'", "b's", "x.", "x-", "é", "e\u0301", "कि", "(", "5'", "a.'", "喜", "!?", "x\u0301'"]
    for definition in map(words.define, DEFINITIONS):
        for left in lefts:
            for character in characters:
                decided = ends_word(definition, left + character, len(left))
                more = "".join(rng.choices(characters, k=3))
                before = "".join(rng.choices(characters, k=2)) + " "
                assert ends_word(definition, left + character + more, len(left)) == decided
                assert ends_word(definition, before + left + character, len(before + left)) == decided
                assert ends_word(definition, left + kind(character), len(left)) == decided


def test_brute_force_by_hand():
    """Five texts, and every number worked out from them."""
    texts = {"a.": 0.3, 'a."': 0.2, "a b": 0.1, "ab": 0.25, "": 0.15}
    model = ExactLM(texts, ToyTokenizer(r"(?s).+", ['."', " b", "ab"]))
    pieces = model.tokenizer.vocabulary.tokens
    reference = brute_force_on(model)
    rule = words.define("punctuation")
    covers = [([pieces[i] for i in cover[1:]], beyond) for cover, beyond in reference.covers("a.", rule)]
    assert sorted(covers) == [(["a", "."], b""), (["a", '."'], b'"')]
    values = {value.text: float(np.exp(-value.surprisal.low)) for value in reference.words('a."', rule)}
    assert values == pytest.approx({"a": 0.6, ".": 0.5 / 0.6, '"': 0.2 / 0.5}, abs=1e-12)
    assert np.exp(-reference.end("a.", rule).low) == pytest.approx(0.3 / 0.5, abs=1e-12)
    spans = [float(np.exp(-value.surprisal.low)) for value in reference.spans("ab", [(0, 1), (1, 2)])]
    assert spans == pytest.approx([0.85, 0.25 / 0.85], abs=1e-12)


@pytest.mark.parametrize("family", ["bow", "bow-marked", "bow-joined", "eow", "eow-unmarked"])
@pytest.mark.parametrize("definition", DEFINITIONS)
def test_brute_force_is_the_truth(family, definition):
    model = ExactLM.bigram(family, longest=4)
    reference, rule = brute_force_on(model), words.define(definition)
    for text in list(model.texts)[:8]:
        found = [np.exp(-value.surprisal.low) for value in reference.words(text, rule)]
        assert found == pytest.approx([p for _, p in model.truth(text, definition)], abs=1e-12)
