"""Every other way in which the tokenizer would have written a word, and where these leave the observed tokens.

The tokenizer's own spelling of a word can depend on what follows it: ``?`` before a space, ``?⏎⏎`` before a blank line;
``wall`` before a comma, ``wall▁`` before a word. All of them count towards the probability of the word. The steps here:

1. :class:`SpellingFinder` asks the tokenizer how it writes a word before each kind of continuation.
2. A :class:`Divergence` says where such a spelling leaves the observed tokens, and by which ids.
3. :class:`Branches` collects these for a batch of texts: at which row of the model's answers they leave, and to which
   boundary they lead. Those that go on for more than one token have a :class:`BranchTail`, for which the model must be
   asked again.

Most words have one spelling, and words come again and again; so words are looked up by what they end in
(:mod:`wordprob.core.joined_tokens`), and answers are kept by :func:`word_signatures`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Flag
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wordprob.core.alignment import Alignment, Cut
from wordprob.core.arrays import Bools, Ints, common_prefix_length, concat_ranges, cumulative_offsets
from wordprob.core.atoms import Atoms
from wordprob.core.joined_tokens import bytes_before, joined_tokens_of
from wordprob.core.text import TextBatch
from wordprob.core.vocabulary import Tokens, Vocabulary
from wordprob.core.words import Label, WordDefinition

EncodeAll = Callable[[Sequence[str]], list[Tokens]]

LEFT_TEXT_CHARACTERS = 200
"""Characters of real text that are put before a word when only they will do as left context."""

MAX_CACHED_ANSWERS = 1 << 18
"""Answers of the tokenizer, and words known by their signature, that are kept."""

STAND_IN = "a"
"""What is put before a word when any letter will do as left context."""


class Spelling(NamedTuple):
    """One way the tokenizer writes a word (with the separators before it).

    ``boundary`` holds the labels whose mass is B after it; ``None`` means B = 1: its last token already holds what ends
    the word.
    """

    ids: tuple[int, ...]
    boundary: frozenset[Label] | None


class Divergence(NamedTuple):
    """Where other spellings leave the observed tokens of a word.

    Attributes
    ----------
    tokens_back
        How many tokens before the word's end they leave.
    first_ids
        The ids by which they leave. Spellings that end with that one token, which holds the boundary, are kept
        together; their probabilities are added up.
    rest_ids
        The ids that follow, if there is one spelling that goes on.
    boundary
        As for a :class:`Spelling`.
    """

    tokens_back: int
    first_ids: tuple[int, ...]
    rest_ids: tuple[int, ...]
    boundary: frozenset[Label] | None


class KnownBy(Flag):
    """What decides the other spellings of a word, so that the same answer holds for other words that share it."""

    NOTHING = 0
    WHOLE_WORD = 1
    """All of the word's bytes and tokens."""
    ENDING = 2
    """Those after the last place in the word that no token reaches over."""


class AlternativeSpellings(NamedTuple):
    """The spellings of a word besides the observed one.

    Attributes
    ----------
    divergences
        Where they leave the observed tokens of the word.
    longer
        Those that begin with all of the observed tokens from number ``skipped_tokens`` on. Where these leave the text
        depends on what follows the word.
    skipped_tokens
        Tokens at the word's beginning that are the same in every spelling.
    known_by
        What decided this.
    """

    divergences: tuple[Divergence, ...] = ()
    longer: tuple[Spelling, ...] = ()
    skipped_tokens: int = 0
    known_by: KnownBy = KnownBy.NOTHING


NO_ALTERNATIVES = AlternativeSpellings()


class WordContext(NamedTuple):
    """A word as it stands in a text.

    Attributes
    ----------
    left
        What is written before it (the last characters).
    chunk
        Its separators and the word itself.
    word
        The word itself.
    ids
        Its observed tokens.
    needs_left
        Whether only the real text before it will do as left context when the tokenizer is asked.
    """

    left: str
    chunk: str
    word: str
    ids: tuple[int, ...]
    needs_left: bool


class Question(NamedTuple):
    """What the tokenizer is asked about: how it writes ``chunk``, which ends in ``word``, after ``left``."""

    left: str
    chunk: str
    word: str


def find_divergences(spellings: Iterable[Spelling], observed: Sequence[int], length: int) -> Iterator[Divergence]:
    """Yield where spellings leave the observed tokens, counted back from token number ``length``."""
    one_token: dict[int, list[int]] = {}
    for spelling in spellings:
        shared = common_prefix_length(spelling.ids, observed)
        off_path = spelling.ids[shared:]
        if len(off_path) == 1 and spelling.boundary is None:
            one_token.setdefault(length - shared, []).append(off_path[0])
        elif off_path:
            yield Divergence(length - shared, off_path[:1], off_path[1:], spelling.boundary)
    for tokens_back, ids in one_token.items():
        yield Divergence(tokens_back, tuple(ids), (), None)


# --- branches off the observed texts ----------------------------------------------------------------------------------

ON_PATH = -1
"""The list number of a branch that stays on the observed tokens."""


class BranchTail(NamedTuple):
    """The rest of a spelling that goes on after it has left the observed tokens.

    ``ids`` are all of the ids off the path, the first one included; B at their end is the mass of ``boundary``, 1 if
    that is ``None``.
    """

    ids: tuple[int, ...]
    boundary: frozenset[Label] | None


@dataclass
class Branches:
    """Other spellings of the words of a batch, one entry each in ``boundaries``, ``rows`` and ``lists``.

    Attributes
    ----------
    boundaries
        The boundary that each leads to.
    rows
        The row of the batch at which it leaves the observed tokens.
    lists
        The number, in ``id_lists``, of the list of ids by which it leaves; their probabilities are added up.
        :data:`ON_PATH` if it stays on the path, and the boundary is certain at that row.
    id_lists
        The lists.
    tails
        Those that go on, by their number.
    """

    boundaries: array[int] = field(default_factory=partial(array, "q"))
    rows: array[int] = field(default_factory=partial(array, "q"))
    lists: array[int] = field(default_factory=partial(array, "q"))
    id_lists: list[tuple[int, ...]] = field(default_factory=list)
    tails: dict[int, BranchTail] = field(default_factory=dict)
    _list_numbers: dict[int, int] = field(default_factory=dict, repr=False)
    """Numbers of lists by identity: lists are long, and the same few come again and again."""

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, boundary: int, row: int, first_ids: tuple[int, ...], tail: BranchTail | None = None) -> None:
        """Add a branch."""
        if tail is not None:
            self.tails[len(self)] = tail
        self.boundaries.append(boundary)
        self.rows.append(row)
        self.lists.append(self._list_number(first_ids) if first_ids else ON_PATH)

    def add_many(self, boundaries: Ints, rows: Ints, lists: Ints, id_lists: Sequence[tuple[int, ...]]) -> None:
        """Add branches without tails; ``lists`` says by which of ``id_lists`` each leaves."""
        numbers = np.zeros(len(id_lists), dtype=np.int64)
        for k in np.flatnonzero(np.bincount(lists)).tolist():
            numbers[k] = self._list_number(id_lists[k])
        self.boundaries.frombytes(boundaries.tobytes())
        self.rows.frombytes(rows.tobytes())
        self.lists.frombytes(numbers[lists].tobytes())

    def _list_number(self, ids: tuple[int, ...]) -> int:
        number = self._list_numbers.get(id(ids))
        if number is None:
            number = self._list_numbers[id(ids)] = len(self.id_lists)
            self.id_lists.append(ids)
        return number

    def remove_last(self, boundary: int) -> None:
        """Remove the branches to a boundary, if it is the last one that any were added for."""
        while self.boundaries and self.boundaries[-1] == boundary:
            self.tails.pop(len(self) - 1, None)
            del self.boundaries[-1], self.rows[-1], self.lists[-1]


# --- asking the tokenizer ---------------------------------------------------------------------------------------------


class SpellingFinder:
    """Finds the other spellings of words by asking the tokenizer what it writes before each kind of continuation.

    A word can be written in another way only if some token holds both an end of the word and what comes after it
    (``?⏎⏎``, ``wall▁``), or if the tokenizer marks ends by other means. Other words are not asked about.

    Parameters
    ----------
    encode
        Texts to tokens.
    vocabulary, definition, atoms
        The tokenizer's vocabulary, what a word is, and the partition of the one by the other.
    whole_words
        Ask about whole words only, never about their endings: the slow and readable way.
    """

    def __init__(
        self,
        encode: EncodeAll,
        vocabulary: Vocabulary,
        definition: WordDefinition,
        atoms: Atoms,
        whole_words: bool = False,
    ) -> None:
        self._encode = encode
        self._vocabulary = vocabulary
        self._definition = definition
        self._labels = atoms.labels
        self._joined = joined_tokens_of(vocabulary, definition)
        self._has_marks = bool(vocabulary.marked.any())
        self._endings_stand_alone = not self._has_marks and definition.local and not whole_words
        """Whether what follows an unjoinable place in a word is written in the same way whatever comes before it."""
        self._answers: dict[Question, tuple[Spelling, ...]] = {}
        self._by_signature: dict[bytes, AlternativeSpellings] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave the caches behind when this is sent to another process."""
        return {**self.__dict__, "_answers": {}, "_by_signature": {}}

    def boundary(self, left: str, word: str, last_token: int) -> frozenset[Label] | None:
        """Return the labels whose mass is B after ``word`` when this is its last token; ``None`` for B = 1."""
        closed = bool(self._vocabulary.marked[last_token])
        if closed and self._vocabulary.mark_is_space:
            return None
        return self._definition.boundaries(left, word, self._labels, closed)

    def may_have_alternatives(self, batch: TextBatch, ends: Ints) -> Bools:
        """Return True for words that may have other spellings, by their last bytes."""
        if self._has_marks:
            return np.ones(len(ends), dtype=bool)
        data = np.frombuffer(batch.utf8, dtype=np.uint8)
        return self._joined.suffix_filter.may_end(data, batch.byte_offsets[ends])

    # --- of the words of a batch ---

    def add_branches(self, alignment: Alignment, words: Ints, branches: Branches) -> list[int]:
        """Find the other spellings of some words of a batch and add them to its branches.

        Words with the same signature are asked about once. Returns the words whose other spellings leave at the very
        beginning of a text although there is no start token to leave from.
        """
        words = words[self.may_have_alternatives(alignment.batch, alignment.ends[words])]
        unjoinable = self._joined.unjoinable_pairs if self._endings_stand_alone else None
        signatures = word_signatures(alignment, words, unjoinable)
        alternatives = [self._by_signature.get(signature) for signature in signatures.distinct]
        unknown = [k for k, known in enumerate(alternatives) if known is None]
        answers = self.find(word_contexts(alignment, words[signatures.examples[unknown]]))
        for k, answer in zip(unknown, answers, strict=True):
            needed = KnownBy.ENDING if signatures.is_ending[k] else KnownBy.WHOLE_WORD
            if answer.known_by & needed:
                alternatives[k] = self._by_signature[signatures.distinct[k]] = answer
        # What no signature decides is asked word by word.
        undecided = np.array([*(known is None for known in alternatives), True])
        alone = np.flatnonzero(undecided[signatures.number])
        number = signatures.number
        number[alone] = len(alternatives) + np.arange(len(alone))
        alternatives += self.find(word_contexts(alignment, words[alone]))
        if len(self._by_signature) > MAX_CACHED_ANSWERS:
            self._by_signature.clear()
        return self._add(alignment, words, number, [known or NO_ALTERNATIVES for known in alternatives], branches)

    def _add(
        self,
        alignment: Alignment,
        words: Ints,
        number: Ints,
        alternatives: Sequence[AlternativeSpellings],
        branches: Branches,
    ) -> list[int]:
        """Add the spellings ``alternatives[number[n]]`` of each word; those that end where they leave, all at once."""
        end_at_once = np.array([self._end_where_they_leave(spellings) for spellings in alternatives], dtype=bool)
        without_start = []
        for n in np.flatnonzero(~end_at_once[number]).tolist():
            word = int(words[n])
            if not self._add_one(alignment, word, alternatives[number[n]], branches):
                without_start.append(word)
        ways = [
            spellings.divergences if simple else ()
            for spellings, simple in zip(alternatives, end_at_once.tolist(), strict=True)
        ]
        flat = [divergence for each in ways for divergence in each]
        tokens_back = np.array([divergence.tokens_back for divergence in flat], dtype=np.int64)
        counts = np.array([len(each) for each in ways], dtype=np.int64)
        leaving_words = np.repeat(words, counts[number])
        way = concat_ranges(cumulative_offsets(counts)[:-1][number], counts[number])
        text = alignment.text_of_word[leaving_words]
        rows = alignment.stop_tokens[leaving_words] + text - tokens_back[way]
        branches.add_many(leaving_words + text + 1, rows, way, [divergence.first_ids for divergence in flat])
        return without_start

    def _end_where_they_leave(self, spellings: AlternativeSpellings) -> bool:
        """Return True if spellings end with the token by which they leave the text, wherever the word stands."""
        if spellings.longer or (self._vocabulary.start is None and spellings.divergences):
            return False
        return all(d.first_ids and not d.rest_ids and d.boundary is None for d in spellings.divergences)

    def _add_one(self, alignment: Alignment, word: int, spellings: AlternativeSpellings, branches: Branches) -> bool:
        """Add the other spellings of one word; return False if one leaves where there is no start token."""
        text = int(alignment.text_of_word[word])
        stop = int(alignment.stop_tokens[word])
        boundary = word + text + 1
        divergences = list(spellings.divergences)
        if spellings.longer:
            first = int(alignment.first_tokens[word]) + spellings.skipped_tokens
            following = alignment.ids[first : alignment.token_offsets[text + 1]].tolist()
            divergences += find_divergences(spellings.longer, following, stop - first)
        text_begin = int(alignment.token_offsets[text])
        if self._vocabulary.start is None and any(stop - d.tokens_back == text_begin for d in divergences):
            branches.remove_last(boundary)
            return False
        for divergence in divergences:
            ends_at_once = not divergence.rest_ids and divergence.boundary is None
            ids = (*divergence.first_ids, *divergence.rest_ids)
            tail = None if ends_at_once else BranchTail(ids, divergence.boundary)
            branches.add(boundary, stop - divergence.tokens_back + text, divergence.first_ids, tail)
        return True

    # --- of single words ---

    def find(self, contexts: Iterable[WordContext]) -> list[AlternativeSpellings]:
        """Return the ways in which each word could have been written besides the observed one."""
        if len(self._answers) > MAX_CACHED_ANSWERS:
            self._answers.clear()
        asked = [(context, *self._question(context)) for context in contexts]
        self._ask({question for _, _, question in asked if question is not None and question not in self._answers})
        return [self._without_observed(context, skipped, question) for context, skipped, question in asked]

    def _without_observed(self, context: WordContext, skipped: int, question: Question | None) -> AlternativeSpellings:
        """Return what the tokenizer answered, less the spelling that was observed."""
        if question is None:
            return AlternativeSpellings(known_by=KnownBy.WHOLE_WORD | KnownBy.ENDING)
        spellings = self._answers[question]
        known_by = KnownBy.ENDING if skipped else KnownBy.WHOLE_WORD
        if spellings and all(spelling.ids != context.ids[skipped:] for spelling in spellings):
            # The observed spelling is not among them: this tokenizer looks further back than was shown to it.
            skipped, known_by = 0, KnownBy.NOTHING
            spellings = self._ask_with_left_text(context)
        observed = context.ids[skipped:]
        others = [spelling for spelling in spellings if spelling.ids != observed]
        longer = tuple(spelling for spelling in others if spelling.ids[: len(observed)] == observed)
        leaving = (spelling for spelling in others if spelling not in longer)
        divergences = tuple(find_divergences(leaving, observed, len(observed)))
        return AlternativeSpellings(divergences, longer, skipped, KnownBy.NOTHING if longer else known_by)

    def _question(self, context: WordContext) -> tuple[int, Question | None]:
        """Return what to ask about a word: all of it, or its ending where that is written independently of the rest.

        The number says how many of its tokens come before that ending. ``None`` if there is nothing to ask.
        """
        data = context.chunk.encode("utf-8", "surrogatepass")
        if not self._has_marks and not self._joined.reaches_over(data):
            return 0, None
        place = self._last_unjoinable_place(context, data)
        skipped = self._tokens_before(place, data, context.ids) if place else 0
        if skipped:
            head, ending = data[:place].decode(), data[place:].decode()
            return skipped, Question(head[-1], ending, ending)
        left = STAND_IN if context.left else ""
        if context.needs_left:
            left = (context.left.split() or [""])[-1]
        return 0, Question(left, context.chunk, context.word)

    def _last_unjoinable_place(self, context: WordContext, data: bytes) -> int:
        """Return the last place in a word that no token can reach over, 0 if there is none.

        What stands after it is then written in the same way whatever the rest of the word is.
        """
        if not self._endings_stand_alone or not context.left or context.needs_left:
            return 0
        separator_bytes = len(data) - len(context.word.encode("utf-8", "surrogatepass"))
        for place in range(len(data) - 1, separator_bytes, -1):
            if self._joined.unjoinable_pairs[256 * data[place - 1] + data[place]]:
                return place
        return 0

    def _tokens_before(self, place: int, data: bytes, ids: tuple[int, ...]) -> int:
        """Return how many of a word's tokens write what is before a place, 0 if their bytes do not tell."""
        token_bytes = self._vocabulary.token_bytes
        written = 0
        for n, token in enumerate(ids):
            if written == place and data.startswith(b"".join(token_bytes[i] for i in ids[:n])):
                return n
            written += len(token_bytes[token])
        return 0

    def _ask_with_left_text(self, context: WordContext) -> tuple[Spelling, ...]:
        question = Question(context.left[-LEFT_TEXT_CHARACTERS:], context.chunk, context.word)
        if question not in self._answers:
            self._ask([question])
        return self._answers[question]

    def _ask(self, questions: Collection[Question]) -> None:
        """Ask the tokenizer, all questions in one call, and keep its answers."""
        continuations = {question: self._continuations(question) for question in sorted(questions)}
        texts = []
        for question, rests in continuations.items():
            texts += [question.left + question.chunk + rest for rest in rests]
        answers = iter(self._encode(texts) if texts else ())
        for question, rests in continuations.items():
            self._answers[question] = self._spellings(question, [next(answers) for _ in rests])

    def _continuations(self, question: Question) -> list[str]:
        """Return what a word is put before: the end, white space, line breaks, and what joined tokens hold."""
        rests = ["", " a", "\na", "\n\na"]
        for rest in self._joined.continuations_of(question.chunk.encode("utf-8", "surrogatepass")):
            rests.append(rest + "a" if rest.isspace() else rest)
        full_stop = self._definition.label(".")
        if self._definition.boundaries(question.left[-2:], question.word, [full_stop]):
            rests += [".", ","]
        return list(dict.fromkeys(rests))

    def _spellings(self, question: Question, answers: Sequence[Tokens]) -> tuple[Spelling, ...]:
        """Read off how the chunk was written in each of the tokenizer's answers."""
        before = question.left.encode("utf-8", "surrogatepass")
        begin = len(before)
        finish = begin + len(question.chunk.encode("utf-8", "surrogatepass"))
        separator = len(question.chunk) - len(question.word)
        left = question.left + question.chunk[:separator]
        spellings: dict[tuple[int, ...], Spelling] = {}
        for tokens in answers:
            first, stop = (int(n) for n in np.searchsorted(tokens.starts, [begin, finish], side="left"))
            if stop == first or (first and tokens.ends[first - 1] > begin + separator):
                continue  # nothing was written for it, or a token from the left reaches into the word
            ids = tuple(tokens.ids[first:stop].tolist())
            holds_boundary = int(tokens.ends[stop - 1]) > finish
            boundary = None if holds_boundary else self.boundary(left, question.word, ids[-1])
            spellings[ids] = Spelling(ids, boundary)
        return tuple(spellings.values())


# --- words as they stand ----------------------------------------------------------------------------------------------


def word_contexts(alignment: Alignment, words: Ints) -> Iterator[WordContext]:
    """Yield words of a batch as they stand in their texts."""
    text = alignment.batch.text
    text_starts = alignment.batch.text_starts[alignment.text_of_word[words]]
    has_word_before = alignment.index_in_text[words] > 0
    chunk_starts = np.where(has_word_before, np.append(0, alignment.ends)[words], text_starts)
    needs_left = has_word_before & (np.append(0, alignment.cuts)[words] == Cut.INCLUDES_SPACE)
    columns = [
        text_starts.tolist(),
        chunk_starts.tolist(),
        alignment.starts[words].tolist(),
        alignment.ends[words].tolist(),
        alignment.first_tokens[words].tolist(),
        alignment.stop_tokens[words].tolist(),
        needs_left.tolist(),
    ]
    for text_start, chunk_start, start, end, first, stop, real_left in zip(*columns, strict=True):
        yield WordContext(
            left=text[max(text_start, chunk_start - LEFT_TEXT_CHARACTERS) : chunk_start],
            chunk=text[chunk_start:end],
            word=text[start:end],
            ids=tuple(alignment.ids[first:stop].tolist()),
            needs_left=real_left,
        )


# --- signatures: by what a word is known again ------------------------------------------------------------------------

SIGNATURE_BYTES = 16
"""Bytes at a word's end that go into its signature."""

NO_SIGNATURE = -1

HASH_FACTORS = np.random.default_rng(0).integers(0, 1 << 63, 6, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
"""An odd random factor for each number in a signature."""


class WordSignatures(NamedTuple):
    """Words by their signatures.

    Attributes
    ----------
    number
        For each word, the number of its signature; :data:`NO_SIGNATURE` if it has none.
    distinct
        The signatures.
    examples
        For each signature, the position of a word that has it.
    is_ending
        For each signature, whether it is about what follows an unjoinable place, not about the whole word.
    """

    number: Ints
    distinct: list[bytes]
    examples: Ints
    is_ending: list[bool]


def word_signatures(alignment: Alignment, words: Ints, unjoinable_pairs: Bools | None) -> WordSignatures:
    """Return by what words are known again, where their last few bytes and tokens decide how else they are written.

    That is so for a short word, and for one with an unjoinable place near its end: no token reaches over it, so
    what stands after it is written in the same way whatever the rest of the word is.
    """
    if unjoinable_pairs is None:
        return WordSignatures(np.full(len(words), NO_SIGNATURE, dtype=np.int64), [], words[:0], [])
    batch = alignment.batch
    starts = batch.byte_offsets[alignment.starts[words]]
    ends = batch.byte_offsets[alignment.ends[words]]
    has_word_before = alignment.index_in_text[words] > 0
    chunk_starts = np.where(has_word_before, batch.byte_offsets[np.append(0, alignment.ends)[words]], starts)

    # How many bytes follow the last unjoinable place among the last bytes of each word.
    last_bytes = bytes_before(np.frombuffer(batch.utf8, dtype=np.uint8), ends, SIGNATURE_BYTES)
    unjoinable = unjoinable_pairs[256 * last_bytes[:, :-1].astype(np.int64) + last_bytes[:, 1:]]
    ending_bytes = np.where(unjoinable.any(axis=1), 1 + np.argmax(unjoinable[:, ::-1], axis=1), SIGNATURE_BYTES)
    is_ending = ending_bytes < ends - starts

    # The tokens that a signature is about, those of the ending or of the whole word. A token must begin there, and the
    # character before the ending, which is part of the signature, must be a single byte.
    at_place = np.searchsorted(alignment.token_starts, ends - ending_bytes)
    first_tokens = np.where(is_ending, at_place, alignment.first_tokens[words])
    token_begins = np.append(alignment.token_starts, 0)[first_tokens] == ends - ending_bytes
    before_ending = SIGNATURE_BYTES - 1 - np.minimum(ending_bytes, SIGNATURE_BYTES - 1)
    single_byte = last_bytes[np.arange(len(words)), before_ending] < 0x80
    n_bytes = np.where(is_ending, ending_bytes + 1, ends - chunk_starts)
    n_tokens = alignment.stop_tokens[words] - first_tokens
    after_joined_space = np.append(0, alignment.cuts)[words] == Cut.INCLUDES_SPACE
    has_signature = (
        has_word_before
        & ~after_joined_space
        & (~is_ending | (token_begins & single_byte))
        & (n_bytes <= SIGNATURE_BYTES)
        & (n_tokens > 0)
        & (n_tokens <= 2)
    )

    # One column a word: its last bytes as integers, what they are about, how many they are, and its last two tokens.
    in_signature = np.arange(SIGNATURE_BYTES) >= SIGNATURE_BYTES - n_bytes[:, None]
    kept_bytes = np.where(in_signature, last_bytes, 0).astype(np.uint8).view("<u8")
    last_token = alignment.ids[alignment.stop_tokens[words] - 1]
    token_before = np.where(n_tokens == 2, alignment.ids[alignment.stop_tokens[words] - 2], NO_SIGNATURE)
    numbers = [column.astype("<u8") for column in (is_ending, n_bytes, last_token, token_before)]
    return _distinct_signatures(np.stack([*kept_bytes.T, *numbers]), has_signature, is_ending)


def _distinct_signatures(signatures: NDArray[np.uint64], has_signature: Bools, is_ending: Bools) -> WordSignatures:
    """Number the different columns of ``signatures`` among those of words that have one.

    Equal ones are found by a hash; should different ones share it, only the first of them keeps its signature.
    """
    chosen = np.flatnonzero(has_signature)
    hashes = HASH_FACTORS @ signatures[:, chosen]
    _, first, number = np.unique(hashes, return_index=True, return_inverse=True)
    examples = chosen[first]
    distinct = signatures[:, examples]
    same = (signatures[:, chosen] == distinct[:, number]).all(axis=0)
    number_of_word = np.full(len(has_signature), NO_SIGNATURE, dtype=np.int64)
    number_of_word[chosen] = np.where(same, number, NO_SIGNATURE)
    # As bytes, since a tuple for every signature would keep Python's garbage collector busy.
    return WordSignatures(number_of_word, [row.tobytes() for row in distinct.T], examples, is_ending[examples].tolist())
