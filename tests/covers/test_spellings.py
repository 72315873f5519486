"""Other ways in which the tokenizer would have written a word."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from made_up_text import book
from wordprob.core import words
from wordprob.core.alignment import align
from wordprob.core.atoms import atoms_of
from wordprob.core.text import Document, TextBatch
from wordprob.covers import joined_tokens
from wordprob.covers import spellings as spellings_module
from wordprob.covers.branches import Branches
from wordprob.covers.joined_tokens import joined_tokens_of
from wordprob.covers.spellings import SpellingFinder
from wordprob.scoring.passages import Chunk, passages_of
from wordprob.scoring.prepare import TextPreparer
from wordprob.scoring.prepared_batch import BatchSettings


def finder_of(tokenizer, rule, **options):
    atoms = atoms_of(tokenizer.vocabulary, rule)
    return SpellingFinder(tokenizer.encode, tokenizer.vocabulary, rule, atoms, **options)


def aligned(tokenizer, rule, texts):
    batch = TextBatch([Document(n, text) for n, text in enumerate(texts)])
    starts, ends = rule.spans(batch)
    return align(batch, starts, ends, tokenizer.encode(texts))


def spellings(tokenizer, rule, text):
    """Return the other spellings of the last word of a text, as tokens from where they leave the observed ones."""
    alignment = aligned(tokenizer, rule, [text])
    branches = Branches()
    finder_of(tokenizer, rule).add_branches(alignment, np.array([alignment.n_words - 1]), branches)
    names, found = tokenizer.vocabulary.tokens, set()
    for n, number in enumerate(branches.lists):
        tail = branches.tails.get(n)
        kept = tuple(names[i] for i in alignment.ids[: branches.rows[n]][-1:])
        ids = [tail.ids] if tail and not tail.last_ids else [(*tail.ids, i) for i in tail.last_ids] if tail else None
        for spelled in ids or [(i,) for i in branches.id_lists[number]]:
            found.add((*kept, *(names[i] for i in spelled)))
    return found


def test_most_words_of_most_tokenizers_have_one_spelling(tokenizer_of):
    for name in ("small-gpt2", "small-gpt-neox", "small-unigram"):
        assert spellings(tokenizer_of(name), words.Whitespace(), "She saw the mark") == set()


def test_white_space_joined_to_a_full_stop_is_found(tokenizer_of):
    """SentencePiece vocabularies have such tokens too."""
    found = spellings(tokenizer_of("small-llama2"), words.Whitespace(), "She saw the mark.")
    assert {("▁mark", ".\u00a0"), ("▁mark", ".\n\n")} <= found


@pytest.mark.parametrize("name", ["small-llama3", "small-qwen2"])
def test_joined_punctuation_and_newlines_are_found(tokenizer_of, name):
    found = spellings(tokenizer_of(name), words.Whitespace(), "How do you compute its probability?")
    assert {("Ġprobability", "?č"), ("Ġprobability", "?ĊĊ")} <= found


def test_end_of_word_twins_are_found(tokenizer_of):
    assert spellings(tokenizer_of("small-eow"), words.Punctuation(), "She saw the mark") == {("the▁", "mark▁")}
    assert spellings(tokenizer_of("small-eow"), words.Whitespace(), "She saw the mark.") >= {("mark", ".▁")}


def test_punctuation_that_the_definition_splits_counts_as_a_right_context(tokenizer_of):
    found = spellings(tokenizer_of("small-gpt2"), words.Punctuation(), "She saw the mark.")
    assert {("Ġmark", '."'), ("Ġmark", '.")')} <= found
    assert ("Ġmark", "..") not in found, "an ellipsis is another word"


def test_letters_after_an_apostrophe_go_on_with_it(tokenizer_of):
    found = spellings(tokenizer_of("small-gpt2"), words.Punctuation(), "It was Charles'")
    assert ("ĠCharles", "'s") not in found
    found = spellings(tokenizer_of("small-gpt2"), words.Punctuation(), "It was '")
    assert ("Ġwas", "Ġ's") in found or not any(token.endswith("'s") for _, token in found)


def test_a_spelling_may_leave_before_the_word(tokenizer_of):
    """The observed token holds the word before it as well."""
    tokenizer, rule = tokenizer_of("small-gpt2"), words.Punctuation()
    alignment = aligned(tokenizer, rule, ['He said "no."'])
    branches = Branches()
    finder_of(tokenizer, rule).add_branches(alignment, np.array([alignment.n_words - 1]), branches)
    names = tokenizer.vocabulary.tokens
    first = {names[i] for number in branches.lists for i in branches.id_lists[number]}
    assert '.")' in first
    assert set(branches.rows) == {alignment.stop_tokens[-1] - 1}


@pytest.mark.parametrize(
    "name", ["small-llama3", "small-qwen2", "small-gpt2", "small-gemma", "small-eow", "small-llama2"]
)
@pytest.mark.parametrize("definition", ["whitespace", "punctuation", "characters"])
def test_asking_about_little_gives_what_asking_about_whole_texts_gives(tokenizer_of, name, definition, monkeypatch):
    """What stands before a place that no token reaches over does not matter; words with one signature are alike."""
    tokenizer, rule = tokenizer_of(name), words.define(definition)
    text = "So the end. (Was it?) He said 'no', and she's gone: 12%! café? Mr. O'Neill... \"Oh!\" x-y."
    if definition == "characters":
        text = "the end. 喜欢"
    alignment = aligned(tokenizer, rule, ["Before it.", text, "He said 'no', and"])
    chosen = np.arange(alignment.n_words)

    def branches(finder):
        found = Branches()
        finder.add_branches(alignment, chosen, found)
        entries = zip(found.boundaries, found.rows, found.lists, strict=True)
        return sorted(
            (boundary, row, sorted(found.id_lists[number]), repr(found.tails.get(n)))
            for n, (boundary, row, number) in enumerate(entries)
        )

    finder = finder_of(tokenizer, rule)
    expected = branches(finder_of(tokenizer, rule, whole_texts=True))
    assert branches(finder) == expected
    assert branches(finder) == expected, "every word is known now"
    factors = np.zeros_like(joined_tokens.HASH_FACTORS)
    monkeypatch.setattr(joined_tokens, "HASH_FACTORS", factors)
    assert branches(finder_of(tokenizer, rule)) == expected, "all signatures have the same hash"


@pytest.mark.parametrize("name", ["small-gemma", "small-qwen2", "small-llama2", "small-gpt2"])
@pytest.mark.parametrize("rule", [words.Whitespace(), words.Punctuation()], ids=lambda rule: rule.name)
def test_the_filter_misses_no_word_that_a_token_reaches_over(tokenizer_of, name, rule):
    """All words of a batch are looked at together; the readable way is to look for every stem at the end of each."""
    tokenizer = tokenizer_of(name)
    joined = joined_tokens_of(tokenizer.vocabulary, rule)
    stems = [stem.decode("utf-8", "ignore") for stem in joined.continuations]
    text = book(20000)
    batch = TextBatch([Document(n, part) for n, part in enumerate(["?", *text.split("\n"), *stems])])
    _, ends = rule.spans(batch)
    byte_ends = batch.byte_offsets[ends]
    may_differ = joined.may_end(np.frombuffer(batch.utf8, dtype=np.uint8), byte_ends)
    reached_over = np.array([joined.reaches_over(batch.utf8[max(0, end - 100) : end]) for end in byte_ends.tolist()])
    assert may_differ[reached_over].all()
    assert np.sum(may_differ & ~reached_over) <= 0.01 * len(ends)


def test_continuations_need_a_place_where_a_word_may_end(tokenizer_of):
    continuations = joined_tokens_of(tokenizer_of("small-qwen2").vocabulary, words.Whitespace()).continuations
    assert b"\n\n" in continuations[b"?"]
    assert b" the" not in continuations


# --- memory -----------------------------------------------------------------------------------------------------------


def test_what_is_kept_is_bounded_by_its_size_and_changes_nothing(tokenizer_of, monkeypatch):
    """One question may have thousands of spellings, so counting questions bounds nothing."""
    tokenizer = tokenizer_of("small-gpt2")
    texts = ["She said: 'Is it (so)?'", "“No!” – it's 5' long...", "a.b/c [d]; e!"] * 2
    settings = BatchSettings(tokenizer.vocabulary.start, None, True)

    def prepare():
        preparer = TextPreparer(tokenizer, tokenizer.vocabulary.size, words.define("punctuation"))
        prepared = [preparer.prepare(Chunk(passages_of(text)), settings) for text in texts]
        (finder,) = preparer._finders.values()
        found = [vars(each.branches) for each in prepared]
        return [{name: values for name, values in each.items() if name[0] != "_"} for each in found], finder

    expected, finder = prepare()
    assert finder._answers.size == sum(map(len, finder._answers.values())) > 20
    monkeypatch.setattr(spellings_module, "MAX_CACHED_SPELLINGS", 5)
    monkeypatch.setattr(spellings_module, "PLACES_AT_ONCE", 1)
    forgetful, finder = prepare()
    assert forgetful == expected
    largest = max(map(len, finder._answers.values()))
    assert finder._answers.size <= 5 + 2 * largest
    sent = pickle.loads(pickle.dumps(finder.__getstate__()["_answers"]))
    assert (len(sent), sent.size) == (0, 0), "another process begins with empty ones"
