"""Words by a regular expression: ``regex:PATTERN``."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import regex

from wordprob.core.arrays import Ints
from wordprob.core.characters import (
    CONTINUES,
    END,
    LETTER,
    OPENING,
    SPACE,
    Label,
    character_class,
    is_white_space,
    last_class,
    usually_spaced,
)
from wordprob.core.text import TextBatch, Word
from wordprob.core.word_definition import number_distinct, segment_all
from wordprob.errors import OptionError

OPENING_CHARACTERS = 2
"""The number of a token's first characters that its label depends on."""

METACHARACTERS = r"\[](){}|*+?^$."
SLOT = "□"
"""Where the character in question goes in a frame."""

TRIAL_TEXTS = 200
TRIAL_CHARACTERS = 10
MAX_EXTENSIONS = 48

NOT_SYNTAX = regex.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", regex.DOTALL)
CALL = regex.compile(r"\(\?(?:R|\d+|&|P>)")
"""Escaped characters and sets, in which brackets are ordinary; where a pattern calls itself or one of its groups."""


class Regex:
    """Words are the matches of a pattern; what lies between them separates.

    Whether a token ends a word is decided by matching the pattern against the word, the token's first two characters,
    and several continuations. If the answer depends on the continuation, the label is undecided.
    Characters that the pattern treats alike (found by trying each in a set of frames) share a label.

    A pattern for which this cannot be trusted is refused: it is tried on made-up texts when it is compiled.
    """

    local = False
    ends_by_rule = True

    def __init__(self, pattern: str) -> None:
        self.name = f"regex:{pattern}"
        self._source = pattern
        self._pattern = _compile(pattern)
        self._literals = frozenset(c for c in pattern if c not in METACHARACTERS and not c.isspace())
        self._frames = _frames(self._literals)
        self._extensions = _extensions(pattern)
        self._classes: dict[tuple[int | None, ...], str] = {}
        """Names of the classes of characters, by what the pattern does with them."""
        self._examples: dict[Label, str] = {}
        """The first opening that was given each label."""
        self._make_caches()
        _check_decisions(self)

    def bind(self) -> Regex:
        """Return a copy: classes of characters are named, and get their examples, as a vocabulary is read."""
        return Regex(self._source)

    def _make_caches(self) -> None:
        self._class_of = lru_cache(maxsize=None)(self._classify)
        self._decide: Callable[[str, str, str], bool | None] = lru_cache(maxsize=1 << 16)(self._ends)

    def __getstate__(self) -> dict[str, object]:
        """Pickle the labels given so far, but not the caches."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_class_of", "_decide")}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._make_caches()

    def segment(self, text: str) -> list[Word]:
        """Return the pattern's matches."""
        matches = self._pattern.finditer(text)
        return [Word(match.group(), match.start(), match.end()) for match in matches if match.group()]

    def spans(self, batch: TextBatch) -> tuple[Ints, Ints]:
        """Return the pattern's matches in every text of a batch."""
        return segment_all(self, batch)

    def boundary_groups(self, batch: TextBatch, starts: Ints, ends: Ints) -> Ints:
        """Return the same number for equal words after equal characters: a pattern may look at the one before."""
        lows = np.maximum(starts - 1, 0)
        return number_distinct(batch.text[a:b] for a, b in zip(lows.tolist(), ends.tolist(), strict=True))

    def label(self, opening: str) -> Label:
        """Classify a token by what the pattern makes of its first two characters."""
        if not opening:
            return CONTINUES
        spacing = character_class(opening[0])
        if spacing not in (SPACE, LETTER, OPENING):  # what usually_spaced distinguishes
            spacing = ""
        classes = [self._class_of(character) for character in opening[:OPENING_CHARACTERS]]
        label = f"{spacing}:" + ".".join(classes)
        self._examples.setdefault(label, opening[:OPENING_CHARACTERS])
        return label

    @staticmethod
    def _spacing(label: Label) -> Label:
        """Return the part of a label that decides whether white space usually comes before it."""
        return label.partition(":")[0]

    def is_space(self, label: Label) -> bool:
        """Return True if tokens with this label begin with white space."""
        return self._spacing(label) == SPACE

    def boundaries(self, left: str, word: str, labels: Sequence[Label], closed: bool = False) -> frozenset[Label]:
        """Return the labels that end ``word`` for certain."""
        known = [label for label in labels if label in self._examples]
        ending = {label for label in known if self.ends(left, word, self._examples[label])}
        if closed:
            last = last_class(word)
            ending |= {label for label in known if usually_spaced(last, self._spacing(label))}
        if END in labels:
            ending.add(END)
        return frozenset(ending)

    def undecided(self, left: str, word: str, labels: Sequence[Label]) -> frozenset[Label]:
        """Return the labels after which the pattern might still extend the word."""
        known = [label for label in labels if label in self._examples]
        return frozenset(label for label in known if self.ends(left, word, self._examples[label]) is None)

    def ends(self, left: str, word: str, rest: str) -> bool | None:
        """Return True if the pattern matches ``word`` there whatever follows ``rest``."""
        return self._decide(left[-1:], word, rest)

    def possible_boundaries(self, text: str) -> Iterable[int]:
        """Return every position inside ``text``: where a match ends depends on what comes before it."""
        return range(1, len(text))

    def _ends(self, left: str, word: str, rest: str) -> bool | None:
        """Match ``word`` and ``rest`` before several continuations; ``None`` if they give different answers."""
        if not rest:
            return True  # the end of the text: the word is what was matched there
        outcomes = set()
        for extension in self._extensions:
            match = self._pattern.match(left + word + rest + extension, len(left))
            outcomes.add(match is not None and match.end() == len(left) + len(word))
            if len(outcomes) > 1:
                return None
        return outcomes.pop()

    def _classify(self, character: str) -> str:
        """Name the class of a character: itself if the pattern names it, else what the pattern matches in frames."""
        if character in self._literals:
            return f"={character}"
        matches = (self._pattern.match(frame.replace(SLOT, character)) for frame in self._frames)
        signature = (*(match.end() if match else None for match in matches), is_white_space(character))
        return self._classes.setdefault(signature, f"c{len(self._classes)}")

    @property
    def literals(self) -> frozenset[str]:
        """The characters that the pattern names."""
        return self._literals


def _compile(pattern: str) -> regex.Pattern[str]:
    call = CALL.search(NOT_SYNTAX.sub("", pattern))
    if call:
        raise OptionError(
            f"the pattern '{pattern}' calls itself or one of its groups, '{call[0]}', which can take any amount of "
            "memory; write it without recursion, for example 'regex:a+'."
        )
    try:
        compiled = regex.compile(pattern)
    except regex.error as error:
        raise OptionError(
            f"'{pattern}' is not a regular expression: {error}. A valid one: 'regex:[\\w]+' (quoted in a shell)."
        ) from None
    if compiled.match(""):
        raise OptionError(f"the pattern '{pattern}' matches nothing at all (the empty string); use + where it has *.")
    if compiled.flags & regex.REVERSE:
        raise OptionError(f"the pattern '{pattern}' searches from right to left; words are read from left to right.")
    return compiled


def _frames(literals: Iterable[str]) -> list[str]:
    """Return short strings with a slot in them; characters that a pattern treats alike fit the same ones."""
    frames = [frame.replace("x", sign) for sign in "a1" for frame in ("□", "x□", "x□x", "□x", "xx□")]
    frames += [frame.replace("s", sign) for sign in sorted(literals) for frame in ("s□", "□s", "as□", "a□s", "as□a")]
    return frames


def _extensions(pattern: str) -> list[str]:
    """Return what may come after a token: something of every kind, and what the pattern spells out."""
    runs = regex.findall(r"[^\\\[\](){}|*+?^$.\s]+", pattern)
    endings = [run[i:] for run in runs for i in range(len(run))]
    return list(dict.fromkeys(["", "a", " a", "1", ".", ".a", "'a", "A", "-a", "aa ", *endings]))[:MAX_EXTENSIONS]


def _check_decisions(rule: Regex) -> None:
    """Raise, unless decisions after two characters agree with the whole text, on made-up texts."""
    chance = random.Random(0)
    alphabet = [*"ab1 .,'-é\n", *sorted(rule.literals)]
    for _ in range(TRIAL_TEXTS):
        text = "".join(chance.choices(alphabet, k=TRIAL_CHARACTERS))
        words = rule.segment(text)
        if any(second.start < first.end for first, second in pairwise(words)):
            raise OptionError(f"the matches of '{rule.name}' overlap, as in '{text}'; words follow one another.")
        found = {(word.start, word.end) for word in words}
        for end in range(1, TRIAL_CHARACTERS):
            so_far = rule.segment(text[:end])
            if not so_far or so_far[-1].end != end:
                continue
            if any((earlier.start, earlier.end) not in found for earlier in so_far[:-1]):
                continue  # another word before it, so this is about other texts
            word = so_far[-1]
            decision = rule.ends(text[: word.start], word.text, text[end : end + OPENING_CHARACTERS])
            if decision is not None and decision != ((word.start, end) in found):
                raise OptionError(
                    f"the pattern in '{rule.name}' cannot be used: whether '{word.text}' is a word in '{text}' depends "
                    "on more than the two characters after it. Use a pattern that does not look so far ahead or back."
                )
