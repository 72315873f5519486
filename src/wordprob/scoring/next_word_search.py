"""The words that can follow a context, found by going through the model's tokens, the most probable first.

Nothing here asks what the probability of a word is: beginnings of words are looked into one after another, and each
word that turns up is scored as usual. What was not looked into is known, and bounds everything that was not found.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from wordprob.core.arrays import Floats, Ints
from wordprob.core.atoms import Atoms
from wordprob.core.vocabulary import Vocabulary
from wordprob.core.words import WordDefinition
from wordprob.errors import InputError, OptionError
from wordprob.models.protocol import PrefixStates, Request
from wordprob.scoring.scorer import Scorer

OPENED_TOGETHER = 16
"""Beginnings that the model is asked about at a time."""
SMALLEST_SHARE = 1e-7
"""Beginnings with a smaller share of the probability are not kept; they count as not looked into."""
LONGEST_WORD_TOKENS = 32
"""Tokens of a next word for which there must be room in the model's context."""
RIGHT_CONTEXTS = ("", " ", " a", "a", ".", ",", "\n", "\n\n", '"', "'", ")", "-")
"""What is put after a word to see whether the tokenizer ever writes it in some way."""


def check_possible(scorer: Scorer, definition: WordDefinition, max_open: int) -> None:
    """Raise where words cannot be enumerated."""
    vocabulary = scorer.model.tokenizer.vocabulary
    if max_open < 1:
        raise OptionError(f"`max_open` must be at least 1, not {max_open}.")
    if not definition.local:
        raise OptionError(
            f"the words of '{definition.name}' cannot be enumerated: one character does not show where they end. "
            "Use whitespace or punctuation."
        )
    if vocabulary.start is None:
        raise InputError("this model has no start-of-text token, and the sum needs one. Specify one as `bos`.")
    if vocabulary.marked.any() or vocabulary.spaced.any():
        raise InputError("the tokens of this model leave out white space, so its words cannot be enumerated.")


def score_words(
    scorer: Scorer, context: str, example_of_word: Mapping[str, str], definition: WordDefinition
) -> dict[str, float]:
    """Return the probability of each word after the context, the largest first; NaN for a missing one.

    Each is scored with the text behind it with which it was found, on which its value does not depend.
    """
    if not example_of_word:
        return {}
    continuations = list(example_of_word.values())
    table = scorer.score_continuations(context, continuations, definition, unit="nats", separator="").to_pandas()
    first = table[~table["text_id"].duplicated()].set_index("text_id")["surprisal"]
    probabilities = {word: float(np.exp(-first[n])) for n, word in enumerate(example_of_word)}
    return dict(sorted(probabilities.items(), key=lambda item: -item[1]))


@dataclass(order=True)
class _Beginning:
    """Token ids after which the next word is not known yet; the heaviest is the smallest."""

    negative_log_p: float
    ids: tuple[int, ...] = field(compare=False)
    data: bytes = field(compare=False)
    """The text that they write, the context included."""


class _FirstCharacters(NamedTuple):
    """The first character of each token: ``characters[number[token]]``."""

    characters: list[str]
    number: Ints


_CONTRADICTS, _READ_ON, _CLOSED = range(3)
"""What the next character does: it does not keep the context, leaves the next word open, or shows that it has ended."""


class NextWordSearch:
    """Goes through token sequences that write the context and go on, the most probable first.

    It sets out before the last word of the context, so that tokens that reach over the end of the context are found.
    """

    def __init__(self, scorer: Scorer, definition: WordDefinition, context: str) -> None:
        self.scorer = scorer
        self.definition = definition
        self.context = context
        self.vocabulary: Vocabulary = scorer.model.tokenizer.vocabulary
        self.example_of_word: dict[str, str] = {}
        """Each word that was found (from the end of the context on), with some of the text behind it."""
        self.other_spellings = 0.0
        self.opened = 0
        self._dropped = 0.0
        self._reached = 0.0
        """The probability of the token sequences, so far, that write the context."""
        self._states = PrefixStates()
        self._heap: list[_Beginning] = []
        self._check_length()
        self._own: dict[tuple[tuple[int, ...], int], bool] = {}

    def _check_length(self) -> None:
        """Raise, unless the context and a word after it fit into the model's context."""
        max_tokens = self.scorer.model.max_tokens
        if max_tokens is not None and len(self._own_ids) + LONGEST_WORD_TOKENS > max_tokens:
            raise InputError(
                f"the context has {len(self._own_ids)} tokens, and the model takes {max_tokens}; leave some of its "
                f"beginning out, so that there is room for {LONGEST_WORD_TOKENS} more."
            )

    # --- the event that is shared out among the words ---

    @cached_property
    def event_mass(self) -> float:
        """The probability of texts in which the context's last word ends where the context does.

        All masses here are relative to that of the tokens with which the search sets out.
        """
        if not self.context:
            return float(np.exp(self._log_probs([self._root])[0][self._first_tokens]).sum())
        text = self.context + next(iter(self.example_of_word.values()), "")
        frame = self.scorer.score(text, self.definition, unit="nats").to_pandas()
        surprisals = frame["surprisal"][frame["end"] <= len(self.context)]
        mass = float(np.exp(-surprisals.sum(skipna=False) - frame["before"].iloc[0] - self._log_p_root))
        if mass == 0.0:
            raise InputError(f"the context '{self.context[-40:]}' has probability zero: no word can follow it.")
        return mass

    @cached_property
    def end_probability(self) -> float:
        """The probability that the text ends after the context."""
        ends = list(self.vocabulary.ends)
        if not self.context:
            return float(np.exp(self._log_probs([self._root])[0][ends]).sum()) / self.event_mass
        surprisal = float(self.scorer.score(self.context, self.definition, unit="nats").texts()["end"].iloc[0])
        return 0.0 if math.isnan(surprisal) else math.exp(-surprisal)

    @cached_property
    def _first_tokens(self) -> Ints:
        """Tokens with which a text begins that does not begin with white space, and those that end it."""
        skipped = 1 if self.vocabulary.first_word_marked else 0
        spaced = self.vocabulary.first_word_marked
        chosen = list(self.vocabulary.ends)
        for token, piece in enumerate(self.vocabulary.token_bytes):
            text = piece[skipped:].decode("utf-8", "ignore")
            if text and not text[0].isspace() and (not spaced or piece.startswith(b" ")):
                chosen.append(token)
        return np.array(chosen, dtype=np.int64)

    # --- where it sets out ---

    @cached_property
    def _tokens_before_last_word(self) -> int:
        """How many of the context's tokens are left as they are."""
        tokens = self.scorer.model.tokenizer.encode([self.context])[0]
        found = self.definition.segment(self.context)
        place = len(self.context[: found[-2].end].encode()) if len(found) > 1 else 0
        return max(0, int(np.searchsorted(tokens.ends, place, side="right")) - 1)

    @cached_property
    def _root(self) -> tuple[int, ...]:
        return self._own_ids[: len(self.vocabulary.start_ids) + self._tokens_before_last_word]

    @cached_property
    def _log_p_root(self) -> float:
        """Log-probability of the tokens that are left as they are."""
        if len(self._root) == 1:
            return 0.0
        request = Request(np.array(self._root, dtype=np.int64))
        ((_, scores),) = self.scorer.model.open([request], self._one_atom)
        return float(np.sum(scores.target, dtype=np.float64))

    @cached_property
    def _given(self) -> bytes:
        """The bytes that every token sequence must begin with."""
        return (b" " if self.vocabulary.first_word_marked else b"") + self.context.encode()

    # --- going on ---

    def run(self, max_open: int) -> None:
        """Look into beginnings, the heaviest first, until none is left or so many have been looked into in all."""
        if not self.opened:
            data = b"".join(self.vocabulary.token_bytes[i] for i in self._root)
            self._heap = [_Beginning(0.0, self._root, data)]
        while self._heap and self.opened < max_open:
            count = min(OPENED_TOGETHER, len(self._heap), max_open - self.opened)
            chosen = [heapq.heappop(self._heap) for _ in range(count)]
            self.opened += count
            for beginning, log_probs in zip(chosen, self._log_probs([b.ids for b in chosen]), strict=True):
                self._open(beginning, log_probs)

    @property
    def unopened(self) -> float:
        """The probability of what was not looked into."""
        return self._dropped + math.fsum(math.exp(-beginning.negative_log_p) for beginning in self._heap)

    @property
    def is_exhausted(self) -> bool:
        """Whether every beginning was looked into, apart from the lightest."""
        return not self._heap

    @property
    def heaviest_missing(self) -> float:
        """The most that a word can have that was not found yet, as a share of the event.

        Everything that writes such a word begins with something that was not looked into. Two of these can belong to
        one word only if the text of one begins with the text of the other.
        """
        chain: list[tuple[bytes, float]] = []
        heaviest = 0.0
        for beginning in sorted(self._heap, key=lambda each: each.data):
            while chain and not beginning.data.startswith(chain[-1][0]):
                chain.pop()
            below = chain[-1][1] if chain else 0.0
            mass = below + math.exp(-beginning.negative_log_p)
            chain.append((beginning.data, mass))
            heaviest = max(heaviest, mass)
        return (heaviest + self._dropped) / self.event_mass

    @cached_property
    def _one_atom(self) -> Atoms:
        return Atoms(("all",), np.zeros(self.scorer.model.vocab_size, dtype=np.int64))

    def _log_probs(self, prefixes: Sequence[tuple[int, ...]]) -> list[Floats]:
        """Return the distribution of the next token after each prefix."""
        requests = []
        for prefix in prefixes:
            row = len(prefix) - 1
            ids = np.array([*prefix, prefix[-1]], dtype=np.int64)  # a row has a next token, whichever
            rows = np.array([row], dtype=np.int64)
            requests.append(Request(ids, row, statistics=("log_probs",), statistics_rows=rows))
        answers = dict(self.scorer.model.open(requests, self._one_atom, self._states))
        return [answers[n].statistics["log_probs"][0].astype(np.float64) for n in range(len(prefixes))]

    def _open(self, beginning: _Beginning, log_probs: Floats) -> None:
        """Share out the probability of a beginning among its next tokens."""
        mass = np.exp(log_probs - beginning.negative_log_p)
        text = self._text(beginning.data)
        if text is None or len(beginning.data) < len(self._given) or self._is_cut_off(beginning.data, text):
            self._add_all(beginning, self._tokens_that_fit(beginning.data), mass)
            return
        self._add_end(beginning, text, float(mass[list(self.vocabulary.ends)].sum()))
        if len(text) > len(self.context):
            self.other_spellings += float(mass[self._tokens_without_text].sum())
        decided = np.array([self._decide(text, character) for character in self._first_characters.characters])
        of_token = np.append(decided, _READ_ON)[self._first_characters.number]  # cut-off ones have the number -1
        text_tokens = self._text_tokens
        closed = text_tokens[of_token[text_tokens] == _CLOSED]
        if len(closed):
            behind = self.vocabulary.token_bytes[closed[mass[closed].argmax()]].decode("utf-8", "ignore")
            self._record(beginning.ids, text + behind, len(text), float(mass[closed].sum()))
        self._add_all(beginning, text_tokens[of_token[text_tokens] == _READ_ON], mass)

    def _add_all(self, beginning: _Beginning, tokens: Ints, mass: Floats) -> None:
        """Go on with each of these tokens; the lightest are not looked into."""
        heavy = (mass[tokens] > 0) & (mass[tokens] >= SMALLEST_SHARE * self._reached)
        self._dropped += float(mass[tokens[~heavy]].sum())
        for token in tokens[heavy].tolist():
            data = beginning.data + self.vocabulary.token_bytes[token]
            self._add((*beginning.ids, token), data, float(mass[token]))

    def _add_end(self, beginning: _Beginning, text: str, mass: float) -> None:
        """Count the end of the text after a beginning: it ends the next word, if there is one."""
        following = self._next_word(text)
        if following is not None:
            self._record(beginning.ids, text, following[1], mass)
        elif len(text) > len(self.context) and beginning.ids != self._own_ids:
            self.other_spellings += mass

    def _tokens_that_fit(self, data: bytes) -> Ints:
        """Return the tokens that do not contradict the context."""
        ahead = self._given[len(data) :]
        pieces = self.vocabulary.token_bytes
        fitting = [i for i in self._text_tokens if pieces[i].startswith(ahead) or ahead.startswith(pieces[i])]
        return np.array(fitting, dtype=np.int64)

    @cached_property
    def _text_tokens(self) -> Ints:
        ends = set(self.vocabulary.ends)
        pieces = enumerate(self.vocabulary.token_bytes)
        return np.array([i for i, piece in pieces if piece and i not in ends], dtype=np.int64)

    @cached_property
    def _tokens_without_text(self) -> Ints:
        """Control tokens, and ids that the tokenizer does not know."""
        known = {*self._text_tokens.tolist(), *self.vocabulary.ends}
        return np.array([i for i in range(self.scorer.model.vocab_size) if i not in known], dtype=np.int64)

    @cached_property
    def _first_characters(self) -> _FirstCharacters:
        """The first character of each token; the number -1 for one that is cut off."""
        characters: dict[str, int] = {}
        number = np.full(self.scorer.model.vocab_size, -1, dtype=np.int64)
        for token in self._text_tokens.tolist():
            piece = self.vocabulary.token_bytes[token]
            text = piece[:4].decode("utf-8", "ignore")
            if text and piece.startswith(text[0].encode()):
                number[token] = characters.setdefault(text[0], len(characters))
        return _FirstCharacters(list(characters), number)

    def _decide(self, text: str, character: str) -> int:
        """Tell what the next character makes of a text that holds all of the context."""
        place = len(self.context)
        if len(text) == place:
            kept = any(end == place for _, end in self._words(text + character)) if place else not character.isspace()
            return _READ_ON if kept else _CONTRADICTS
        following = self._next_word(text)
        if following is None or following[1] < len(text):
            return _READ_ON
        return _CLOSED if any(end == len(text) for _, end in self._words(text + character)) else _READ_ON

    def _add(self, ids: tuple[int, ...], data: bytes, mass: float) -> None:
        """Take note of a token sequence: it tells the next word, contradicts the context, or must be gone on with."""
        text = self._text(data)
        place = len(self.context)
        if text is None:  # bytes that are no text
            self.other_spellings += mass
            return
        if len(data) >= len(self._given):
            if not self._keeps_context(ids, text):
                return
            if self._cover(ids, len(self._given)) == ids:
                self._reached += mass
        if len(text) > place:
            following = self._next_word(text)
            if following is not None and following[1] < len(text):
                self._record(ids, text, following[1], mass)
                return
        heapq.heappush(self._heap, _Beginning(-math.log(mass), ids, data))

    def _keeps_context(self, ids: tuple[int, ...], text: str) -> bool:
        """Return True if the context's last word ends where it should, and is written as the tokenizer writes it."""
        place = len(self.context)
        if not place and text[:1].isspace():
            return False
        ended = len(text) == place or any(end == place for _, end in self._words(text))
        return not place or (ended and self._is_own(ids, text, place))

    # --- words and their spellings ---

    def _words(self, text: str) -> list[tuple[int, int]]:
        """Return where the words stand, from the last white space in the context on."""
        begin = len(self.context) - _last_chunk_length(self.context)
        return [(begin + word.start, begin + word.end) for word in self.definition.segment(text[begin:])]

    def _next_word(self, text: str) -> tuple[int, int] | None:
        """Return where the word after the context stands, as far as it goes."""
        return next(((start, end) for start, end in self._words(text) if start >= len(self.context)), None)

    def _text(self, data: bytes) -> str | None:
        """Return the text of some bytes, without a cut-off last character; None for what is no text."""
        data = data[1:] if self.vocabulary.first_word_marked else data
        for cut in range(min(4, len(data) + 1)):
            try:
                text = data[: len(data) - cut].decode()
            except UnicodeDecodeError:
                continue
            return text if cut == 0 or _begins_character(data[len(data) - cut :]) else None
        return None

    def _is_cut_off(self, data: bytes, text: str) -> bool:
        """Return True if the last character of some bytes is not complete."""
        return len(data) > len(text.encode()) + (1 if self.vocabulary.first_word_marked else 0)

    def _record(self, ids: tuple[int, ...], text: str, end: int, mass: float) -> None:
        """Count probability for the next word, which ends at a place, or as a spelling that is never written."""
        if not mass:
            return
        if self._is_own(ids, text, end):
            place = len(self.context)
            self.example_of_word.setdefault(text[place:end], text[place:])
        else:
            self.other_spellings += mass

    def _is_own(self, ids: tuple[int, ...], text: str, end: int) -> bool:
        """Return True if the tokenizer writes some text that has a word end at this place with these tokens so far."""
        cover = self._cover(ids, len(text[:end].encode()) + (1 if self.vocabulary.first_word_marked else 0))
        key = (cover, end)
        if key not in self._own:
            texts = dict.fromkeys([text, *(head + right for head in (text, text[:end]) for right in RIGHT_CONTEXTS)])
            ending = [t for t in texts if any(word_end == end for _, word_end in self._words(t))]
            encoded = self.scorer.model.tokenizer.encode(ending)
            self._own[key] = any(tuple(tokens.ids[: len(cover) - 1].tolist()) == cover[1:] for tokens in encoded)
        return self._own[key]

    def _cover(self, ids: tuple[int, ...], size: int) -> tuple[int, ...]:
        """Return the shortest beginning of the ids that writes this many bytes."""
        written = 0
        for count, token in enumerate(ids):
            written += len(self.vocabulary.token_bytes[token])
            if written >= size:
                return ids[: count + 1]
        return ids

    @cached_property
    def _own_ids(self) -> tuple[int, ...]:
        """The tokens of the context itself, with the start."""
        tokens = self.scorer.model.tokenizer.encode([self.context])[0]
        return (*self.vocabulary.start_ids, *tokens.ids.tolist())


def _begins_character(data: bytes) -> bool:
    """Return True if these few bytes are the beginning of a character."""
    size = 2 if 0xC2 <= data[0] < 0xE0 else 3 if 0xE0 <= data[0] < 0xF0 else 4 if 0xF0 <= data[0] < 0xF5 else 0
    return len(data) < size and all(0x80 <= byte < 0xC0 for byte in data[1:])


def _last_chunk_length(text: str) -> int:
    """Return the length of what stands after the last white space."""
    return len(text) - max((k + 1 for k, character in enumerate(text) if character.isspace()), default=0)
