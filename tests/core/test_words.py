"""Where words are, and what would end one."""

from __future__ import annotations

import pickle
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wordprob.core.characters import (
    CHARACTER_CLASSES,
    CONTINUES,
    END,
    SPACE,
    character_class,
    is_white_space,
    usually_spaced,
)
from wordprob.core.pattern_words import Regex
from wordprob.core.text import Document, TextBatch
from wordprob.core.user_words import locate, rule_for
from wordprob.core.words import (
    CACHED_DEFINITIONS,
    CharacterClassDefinition,
    Characters,
    Punctuation,
    Segmenter,
    Whitespace,
    define,
    register_definition,
)
from wordprob.errors import AlignmentError, OptionError


def texts_of(rule, text):
    return [w.text for w in rule.segment(text)]


def test_figure_2_of_the_paper():
    text = "How do you compute a word's probability?"
    assert texts_of(Whitespace(), text) == ["How", "do", "you", "compute", "a", "word's", "probability?"]
    assert texts_of(Punctuation(), text) == "How do you compute a word 's probability ?".split()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Well... no--really?!", ["Well", "...", "no", "--", "really", "?", "!"]),
        ("“It’s,” he said.", ["“", "It", "’s", ",", "”", "he", "said", "."]),
        ("¿Qué? ¡No!", ["¿", "Qué", "?", "¡", "No", "!"]),
        ("'quoted' rock 'n' roll", ["'", "quoted", "'", "rock", "'", "n", "'", "roll"]),
        ("y'all've l'amour", ["y", "'all", "'ve", "l", "'amour"]),
        ("café e\u0301te\u0301", ["café", "e\u0301te\u0301"]),
        ("I ❤️ 3.14€", ["I", "❤️", "3", ".", "14", "€"]),
        ("中文。日本", ["中文", "。", "日本"]),
        ("שלום, עולם!", ["שלום", ",", "עולם", "!"]),
        ("", []),
        (" \t\n", []),
    ],
)
def test_punctuation_splits(text, expected):
    assert texts_of(Punctuation(), text) == expected


@pytest.mark.parametrize("gap", [" ", "  ", "\n", "\t", "\u00a0", "\u2003", "\u3000", "\r\n", "\u2028", "\x85"])
def test_all_white_space_separates(gap):
    """A tab or a no-break space is a boundary as much as a space is."""
    for rule in (Whitespace(), Punctuation()):
        assert texts_of(rule, f"Hello{gap}world") == ["Hello", "world"]


def test_white_space_is_what_unicode_says():
    """Python counts four control characters more."""
    for point in range(sys.maxunicode + 1):
        char = chr(point)
        assert bool(Whitespace().segment(char)) != is_white_space(char), hex(point)
        assert is_white_space(char) == (char.isspace() and not 0x1C <= point <= 0x1F), hex(point)


@given(st.text())
@pytest.mark.parametrize("rule", [Whitespace(), Punctuation(), Regex(r"\w+")], ids=lambda r: r.name)
def test_offsets_slice_the_word_out_and_nothing_overlaps(rule, text):
    found = rule.segment(text)
    assert all(text[w.start : w.end] == w.text and w.text for w in found)
    assert all(a.end <= b.start for a, b in pairwise(found))
    if not isinstance(rule, Regex):
        assert "".join(w.text for w in found) == "".join(c for c in text if not is_white_space(c))


@given(st.text(alphabet="ab1 .,-'!?¿“”’\n\u0301é中", max_size=12))
@pytest.mark.parametrize("rule", [Whitespace(), Punctuation()], ids=lambda r: r.name)
def test_segments_end_where_the_rule_says(rule, text):
    """The two jobs of a definition agree: a word ends exactly where what follows is a boundary for it."""
    for word in rule.segment(text):
        following = character_class(text[word.end]) if word.end < len(text) else END
        assert rule.boundaries(text[: word.start], word.text, [following])
        for i in range(1, len(word.text)):
            assert not rule.boundaries(text[: word.start], word.text[:i], [character_class(word.text[i])])


def test_after_an_opening_mark_any_letter_starts_a_word():
    labels = [*CHARACTER_CLASSES, END]
    assert "letter" in Punctuation().boundaries("", "¿", labels)
    assert "letter" not in Punctuation().boundaries("", "word", labels)
    assert "letter" in Punctuation().boundaries(" ", "'", labels)
    assert "letter" not in Punctuation().boundaries("word", "'", labels)
    assert Whitespace().boundaries("", "¿", labels) == {SPACE, END}


def test_runs_go_on_with_their_like_only():
    after = Punctuation().boundaries("", "..", [*CHARACTER_CLASSES, END])
    assert "full stop" not in after
    assert {"hyphen", "letter", SPACE, END} <= after
    assert CONTINUES not in after


def test_a_pattern_decides_by_itself():
    rule = Regex(r"\w+(?:'\w+)?")
    labels = [rule.label(s) for s in ("s", "'s", "'", " a", ".", "' ")]
    ends = rule.boundaries("", "dog", [*labels, END])
    assert {rule.label(" a"), rule.label("."), rule.label("' "), END} <= ends
    assert rule.label("s") not in ends
    assert rule.label("'s") not in ends
    assert rule.undecided("", "dog", labels) == {rule.label("'")}
    assert rule.label("'s") in rule.boundaries("", "dog's", labels)


def test_patterns_know_unicode_classes():
    assert texts_of(Regex(r"\p{L}+"), "naïve 中文 x2") == ["naïve", "中文", "x"]


@pytest.mark.parametrize("pattern", ["(", "[a-", "*"])
def test_a_broken_pattern_is_explained(pattern):
    with pytest.raises(OptionError, match="not a regular expression"):
        define(f"regex:{pattern}")


def test_a_pattern_that_matches_the_empty_string_is_refused():
    with pytest.raises(OptionError, match="empty string"):
        define(r"regex:\w*")


def test_unknown_definition_lists_the_known():
    with pytest.raises(OptionError, match="whitespace, punctuation, characters, regex"):
        define("whitspace")


def test_given_words_are_found_in_order():
    found = locate("He can't.", ["He", "ca", "n't", "."])
    assert [(w.start, w.end) for w in found] == [(0, 2), (3, 5), (5, 8), (8, 9)]
    assert rule_for(["He can't."], [found]).name == "punctuation"
    assert rule_for(["New York is"], [locate("New York is", ["New York", "is"])]).name == "whitespace"


@pytest.mark.parametrize(
    ("given_words", "message"),
    [
        (["He", "cannot"], "word 2 of the list is 'cannot', but the text continues with 'can't.'"),
        (["He", "can't"], "left over: '.'"),
        (["He", ""], "word 2 of the list is empty"),
    ],
)
def test_a_list_that_does_not_fit_says_where(given_words, message):
    with pytest.raises(AlignmentError, match=message):
        locate("He can't.", given_words)


def test_usual_spacing():
    assert usually_spaced("letter", "letter")
    assert usually_spaced("full stop", "letter")
    assert usually_spaced("letter", "open")
    assert not usually_spaced("letter", "full stop")
    assert not usually_spaced("open", "letter")


HARD = st.text(st.sampled_from(list("ab'’.-!? \n\t1¿(»\u0301\u200d\u00a0中,\x00é😀")), max_size=14)


@pytest.mark.parametrize("rule", [Whitespace(), Punctuation(), Regex(r"\w+|\S")], ids=lambda rule: rule.name)
@given(texts=st.lists(HARD, max_size=4))
def test_a_batch_is_segmented_like_its_texts(rule, texts):
    """The fast path over a batch, against the readable twin text by text."""
    batch = TextBatch([Document(n, text) for n, text in enumerate(texts)])
    starts, ends = rule.spans(batch)
    begins = batch.text_starts.tolist()
    wanted = [(b + w.start, b + w.end) for text, b in zip(texts, begins, strict=False) for w in rule.segment(text)]
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == wanted
    labels = [*dict.fromkeys(rule.label(char) for char in "a'.-!? ¿(,"), END]
    seen = {}
    for (a, b), group in zip(wanted, rule.boundary_groups(batch, starts, ends).tolist(), strict=True):
        found = rule.boundaries(batch.text[max(0, a - 64) : a], batch.text[a:b], labels)
        assert seen.setdefault(group, found) == found, "the same continuations end all words of a group"


class Hyphens(CharacterClassDefinition):
    """A definition with nothing but its rule: hyphens are words of their own."""

    name = "hyphens"

    def ends_word(self, left, word, following):
        return following in (SPACE, END, "hyphen") or word.endswith("-")


@given(texts=st.lists(HARD, max_size=4))
def test_a_definition_needs_only_its_rule(texts):
    rule = Hyphens()
    assert texts_of(rule, "a well-known word") == ["a", "well", "-", "known", "word"]
    batch = TextBatch([Document(n, text) for n, text in enumerate(texts)])
    starts, ends = rule.spans(batch)
    for start, end, group in zip(starts, ends, rule.boundary_groups(batch, starts, ends), strict=True):
        assert batch.text[start:end].strip()
        assert group >= 0


def test_definitions_are_registered_by_name():
    register_definition("test-hyphens", lambda argument: Hyphens())
    assert define("test-hyphens").segment("x-y")[1].text == "-"
    assert define(Hyphens()).name == "hyphens", "an object is taken as it is"
    with pytest.raises(OptionError):
        define("whitespace:x")


def test_the_same_name_gives_the_same_definition_and_only_some_are_kept():
    assert define(r"regex:\w+") is define(r"regex:\w+")
    first = define("regex:a0+")
    for n in range(1, 2 * CACHED_DEFINITIONS):
        define(f"regex:a{n}+")
    assert define("regex:a0+") is not first


def test_a_pattern_keeps_its_labels_in_another_process():
    rule = Regex(r"[\w']+")
    labels = [rule.label(opening) for opening in ("s", "'s", " a", ".", "\n")]
    copy = pickle.loads(pickle.dumps(rule))
    assert copy.boundaries("", "dog", labels) == rule.boundaries("", "dog", labels) != frozenset()
    assert [copy.label(opening) for opening in ("s", "'s", " a", ".", "\n")] == labels


# --- words that end by no rule ----------------------------------------------------------------------------------------


def test_characters_keep_their_marks():
    assert texts_of(Characters(), "e\u0301 我喜") == ["e\u0301", "我", "喜"]
    assert define("characters").name == "characters"
    assert not define("characters").ends_by_rule


def test_a_segmenter_gives_places():
    halves = Segmenter("halves", lambda text: [text[:2], text[2:]])
    assert [(w.text, w.start, w.end) for w in halves.segment("我喜 欢")] == [("我喜", 0, 2), ("欢", 3, 4)]
    with pytest.raises(AlignmentError, match="which is not how it begins"):
        Segmenter("upper", lambda text: [text.upper()]).segment("ab")


# --- patterns that look ahead -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern", [r"\w+[.?]?", r"m\w+|\S+", r"\w+$", r"\w+\s\w+", r"\w{1,3}", r"\w+(?:'\w+)?|[^\w\s]"]
)
@given(text=st.text("mark er.?'1\n", max_size=9))
def test_a_pattern_never_decides_wrongly(pattern, text):
    """What two characters decide holds in the whole text; where they do not, the rule says that one must read on."""
    rule = define(f"regex:{pattern}")
    found = {(word.start, word.end) for word in rule.segment(text)}
    for end in range(1, len(text)):
        so_far = rule.segment(text[:end])
        earlier_hold = all((word.start, word.end) in found for word in so_far[:-1])
        if so_far and so_far[-1].end == end and earlier_hold:
            word = so_far[-1]
            decided = rule.ends(text[: word.start], word.text, text[end : end + 2])
            assert decided is None or decided == ((word.start, end) in found)


def test_a_pattern_that_must_read_on():
    rule = define(r"regex:mark(?:er)?|\w+")
    assert rule.ends("", "mark", "e") is None
    assert rule.ends("", "mark", "er") is False
    assert rule.ends("", "mark", "ed") is True


def test_patterns_that_cannot_be_used_are_refused():
    with pytest.raises(OptionError, match="from right to left"):
        define(r"regex:(?r)\w+")
    with pytest.raises(OptionError, match="depends on more than the two characters after it"):
        define(r"regex:\w+(?=.{4}z)|\S")


def test_chinese_words_by_jieba():
    pytest.importorskip("jieba", reason="needs jieba: pip install 'wordprob[chinese]'")
    assert texts_of(define("jieba"), "我喜欢中文。 好") == ["我", "喜欢", "中文", "。", "好"]
    assert not define("jieba").ends_by_rule


def test_japanese_words_by_mecab():
    pytest.importorskip("fugashi", reason="needs fugashi: pip install 'wordprob[japanese]'")
    pytest.importorskip("unidic_lite", reason="needs a dictionary: pip install 'wordprob[japanese]'")
    assert texts_of(define("mecab"), "私は本を 読む。") == ["私", "は", "本", "を", "読む", "。"]


def test_a_segmenter_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    from wordprob.core import segmenters

    with pytest.raises(OptionError, match=r"pip install 'wordprob\[chinese\]'"):
        segmenters.jieba()
