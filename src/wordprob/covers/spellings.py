"""Every other way in which the tokenizer would have written a word, and where these leave the observed tokens.

The tokenizer's own spelling of a word can depend on what follows it: ``?`` before a space, ``?⏎⏎`` before a blank line;
``wall`` before a comma, ``wall▁`` before a word. All of them count towards the probability of the word. The steps here:

1. :class:`SpellingFinder` asks the tokenizer how it writes what stands before the end of a word, with the real text to
   the left, before everything that could follow. A spelling counts only if the word ends there in that text.
2. A :class:`Divergence` says where such a spelling leaves the observed tokens, and by which ids. That may be before the
   word begins, if the observed token there holds more than one word.
3. :class:`wordprob.covers.branches.Branches` collects these for a batch of texts.

What is asked about begins at a place before the end of the word that no token reaches over, so most questions are short
and come again and again (:mod:`wordprob.covers.joined_tokens`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from wordprob.core.alignment import Alignment, Cut
from wordprob.core.arrays import Bools, Ints, common_prefix_length, concat_ranges, cumulative_offsets
from wordprob.core.atoms import Atoms
from wordprob.core.bounded_cache import SizedCache
from wordprob.core.characters import END, Label, character_bytes, completions, is_cut_off, is_white_space
from wordprob.core.vocabulary import Tokens, Vocabulary
from wordprob.core.word_definition import LEFT_CONTEXT_CHARACTERS, WordDefinition
from wordprob.covers.branches import Branches, BranchTail
from wordprob.covers.joined_tokens import alike_before, joined_tokens_of, no_signatures, word_signatures
from wordprob.covers.own_spellings import OwnPairs

EncodeAll = Callable[[Sequence[str]], Sequence[Tokens]]

MAX_ENDING_BYTES = 96
"""Bytes before the end of a word among which a place is looked for that no token reaches over."""

LEFT_TEXT_BYTES = 256
"""Bytes of real text that are put to the left of what is asked about where no such place was found."""

MAX_WHOLE_TEXT_BYTES = 4096
"""Texts up to this length are asked about from their beginning, where asking about less did not do."""

MAX_CACHED_BOUNDARIES = 1 << 18
"""Words whose boundaries are kept."""

MAX_CACHED_SPELLINGS = 1 << 18
"""Spellings that are kept, in the answers of the tokenizer and as divergences: some 100 MB each."""

MAX_CACHED_SIGNATURES = 1 << 18
"""Signatures of words that are kept, with the number of their divergences, which many of them share."""

PLACES_AT_ONCE = 256
"""Ends of words that are asked about together. One answer may hold thousands of spellings."""

STAND_IN = "a"
"""What is put to the left of white space, where any letter will do."""

AFTER_WORDS = ("", " a", "a", "1", "\na", "\n\na", ".", ",", "-a", "'s", "(a", "!", "“a")
"""What a word is put before, besides what tokens hold that reach over its end: something of every kind."""

GLUED_ON = "zqxjZQXJ7~|^#"
"""Characters of which one seldom shares a token with what comes before it."""


class OwnSpelling(NamedTuple):
    """One way the tokenizer writes what stands before the end of a word.

    Attributes
    ----------
    ids
        The tokens, up to the first that reaches the end of the word.
    boundary
        The labels whose mass is B after them; ``None`` for B = 1: the last token holds what ends the word.
    pending
        The first bytes of a character that the last token holds beyond the end of the word, if it holds no more.
    """

    ids: tuple[int, ...]
    boundary: frozenset[Label] | None
    pending: bytes = b""


class Divergence(NamedTuple):
    """Where other spellings leave the observed tokens.

    Attributes
    ----------
    tokens_back
        How many tokens before those of the word stop.
    first_ids
        The ids by which they leave. Spellings that end with that one token, which holds the boundary, are kept
        together; their probabilities are added up.
    tail
        What there is to ask about a spelling that does not end so.
    """

    tokens_back: int
    first_ids: tuple[int, ...]
    tail: BranchTail | None = None

    def spellings(self) -> list[tuple[int, ...]]:
        """Return the tokens of each spelling from where it leaves the observed ones."""
        if self.tail is None:
            return [(token,) for token in self.first_ids]
        if self.tail.last_ids:
            return [(*self.tail.ids, token) for token in self.tail.last_ids]
        return [self.tail.ids]


class AlternativeSpellings(NamedTuple):
    """The spellings of a word besides the observed one.

    ``sure`` says whether the observed one was among the tokenizer's answers, so that they hold for every word with the
    same signature.
    """

    divergences: tuple[Divergence, ...]
    sure: bool = True


class Question(NamedTuple):
    """What the tokenizer is asked about: how it writes ``ending`` after ``left``.

    ``group`` tells apart what ends the word: a number of the definition's, or the text itself. ``exact`` says that the
    tokenizer did not rewrite the text, so that answers that rewrite it are about other texts.
    """

    left: str
    ending: str
    group: int | tuple[str, str]
    exact: bool


class Place(NamedTuple):
    """The end of a word, as it stands in a text.

    Attributes
    ----------
    question
        What to ask about it.
    left, word
        The text before the word, as far as a definition may look, and the word.
    observed
        The observed tokens from where the question's ending begins, up to where those of the word stop.
    over_end
        The token that reaches over the end into another word, if one does.
    """

    question: Question
    left: str
    word: str
    observed: tuple[int, ...]
    over_end: tuple[int, ...]


def find_divergences(spellings: Iterable[OwnSpelling], observed: Sequence[int]) -> Iterator[Divergence]:
    """Yield where spellings leave the observed tokens; those that differ in their last token only are kept together."""
    last_ids: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for spelling in spellings:
        shared = common_prefix_length(spelling.ids, observed)
        off_path = spelling.ids[shared:]
        tokens_back = len(observed) - shared
        if not off_path:
            continue
        if spelling.boundary is None:
            last_ids.setdefault((tokens_back, off_path[:-1]), []).append(off_path[-1])
        else:
            yield Divergence(tokens_back, off_path[:1], BranchTail(off_path, spelling.boundary, spelling.pending))
    for (tokens_back, before), ids in last_ids.items():
        if before:
            yield Divergence(tokens_back, before[:1], BranchTail(before, last_ids=tuple(ids)))
        else:
            yield Divergence(tokens_back, tuple(ids))


def _adds_space(encode: EncodeAll, vocabulary: Vocabulary) -> bool:
    """Return True if the tokenizer puts a space behind every text."""
    ids = encode([STAND_IN])[0].ids.tolist()
    return b"".join(vocabulary.token_bytes[i] for i in ids).endswith(b"a ")


def _answers_cache() -> SizedCache[Question, dict[tuple[int, ...], OwnSpelling]]:
    return SizedCache(MAX_CACHED_SPELLINGS, len)


def _divergences_cache() -> SizedCache[tuple[Question, tuple[int, ...], tuple[int, ...]], tuple[Divergence, ...]]:
    return SizedCache(MAX_CACHED_SPELLINGS, _count_first_ids)


def _signatures_cache() -> SizedCache[bytes, AlternativeSpellings]:
    return SizedCache(MAX_CACHED_SIGNATURES, _count_divergences)


def _count_divergences(alternatives: AlternativeSpellings) -> int:
    return 1 + len(alternatives.divergences)


def _count_first_ids(divergences: Sequence[Divergence]) -> int:
    return 1 + sum(len(divergence.first_ids) for divergence in divergences)


class SpellingFinder:
    """Finds the other spellings of words by asking the tokenizer what it writes before everything that may follow.

    A word can be written in another way only if some token holds both an end of the word and what comes after it
    (``?⏎⏎``, ``wall▁``), or if the tokenizer marks ends by other means. Other words are not asked about.

    Parameters
    ----------
    encode
        Texts to tokens.
    vocabulary, definition, atoms
        The tokenizer's vocabulary, what a word is, and the partition of the one by the other.
    whole_texts
        Always ask with all of the text to the left: the slow and readable way.
    """

    def __init__(
        self,
        encode: EncodeAll,
        vocabulary: Vocabulary,
        definition: WordDefinition,
        atoms: Atoms,
        whole_texts: bool = False,
    ) -> None:
        self._encode = encode
        self._vocabulary = vocabulary
        self._definition = definition
        self._atoms = atoms
        self._whole_texts = whole_texts
        self.joined = joined_tokens_of(vocabulary, definition)
        self._alike = alike_before(self.joined.unjoinable_pairs)
        self._has_marks = bool(vocabulary.marked.any())
        self._anything_but_end = atoms.with_cut_off(frozenset(atoms.all_labels) - {END})
        self._adds_space = _adds_space(encode, vocabulary)
        """Whether a space is put behind every text, so that after a space the end is that of the text before it."""
        self._own_pairs = OwnPairs(encode, vocabulary) if self._has_marks else None
        self._openings_by_label: dict[Label, list[str]] = {}
        for opening in self._own_pairs.openings if self._own_pairs else ():
            self._openings_by_label.setdefault(definition.label(opening), []).append(opening)
        self._boundaries: dict[tuple[str, str, bool], frozenset[Label]] = {}
        self._answers = _answers_cache()
        self._known_divergences = _divergences_cache()
        self._by_signature = _signatures_cache()

    def __getstate__(self) -> dict[str, Any]:
        """Leave the caches behind when this is sent to another process."""
        empty = {
            "_answers": _answers_cache(),
            "_known_divergences": _divergences_cache(),
            "_by_signature": _signatures_cache(),
            "_boundaries": {},
        }
        return {**self.__dict__, **empty}

    def boundary(self, left: str, word: str, last_token: int) -> frozenset[Label] | None:
        """Return the labels whose mass is B after ``word`` when this is its last token; ``None`` for B = 1."""
        return self.boundary_after(left, word, closed=bool(self._vocabulary.marked[last_token]))

    def boundary_after(self, left: str, word: str, closed: bool) -> frozenset[Label] | None:
        """Return the same for a last token that closes a pre-token by a mark, or does not."""
        if not self._definition.ends_by_rule:
            return self._anything_but_end if self._adds_space and is_white_space(word[-1:]) else None
        if closed and self._vocabulary.mark_is_space:
            return None
        key = (left, word, closed)
        if key not in self._boundaries:
            ending = self._definition.boundaries(left, word, self._atoms.all_labels, closed)
            self._boundaries[key] = self._atoms.with_cut_off(ending)
        return self._boundaries[key]

    def may_have_alternatives(self, alignment: Alignment, words: Ints) -> Bools:
        """Return True for words that may have other spellings, by their last bytes and how their tokens end."""
        if self._has_marks:
            return np.ones(len(words), dtype=bool)
        data = np.frombuffer(alignment.batch.utf8, dtype=np.uint8)
        ends = alignment.byte_ends[words]
        may_differ: Bools = self.joined.may_end(data, ends) | (alignment.cuts[words] != Cut.CLEAN)
        # Where the tokenizer rewrites a text, its last bytes are not those that tokens hold.
        may_differ |= ~alignment.exact[alignment.text_of_word[words]]
        if self._vocabulary.first_word_marked:
            # The space that the tokenizer puts before a text is not in it.
            text_starts = alignment.batch.byte_offsets[alignment.batch.text_starts[alignment.text_of_word[words]]]
            may_differ |= ends - text_starts < self.joined.longest_stem
        return may_differ

    # --- of the words of a batch ---

    def add_branches(self, alignment: Alignment, words: Ints, branches: Branches) -> list[int]:
        """Find the other spellings of some words of a batch and add them to its branches.

        Words with the same signature are asked about once. Returns the words whose other spellings leave at the very
        beginning of a text although there is no start token to leave from.
        """
        words = words[self.may_have_alternatives(alignment, words)]
        groups = self._definition.boundary_groups(alignment.batch, alignment.starts[words], alignment.ends[words])
        signatures = no_signatures(len(words))
        if self._definition.local and not self._has_marks and not self._whole_texts:
            pairs = self.joined.unjoinable_pairs
            kinds = 2 * groups + alignment.exact[alignment.text_of_word[words]]
            signatures = word_signatures(alignment, words, kinds, pairs, self._alike)
        alternatives = [self._by_signature.get(signature) for signature in signatures.distinct]
        unknown = [k for k, known in enumerate(alternatives) if known is None]
        examples = signatures.examples[unknown]
        answers = self.find(alignment, words[examples], groups[examples])
        for k, answer in zip(unknown, answers, strict=True):
            if answer.sure:
                alternatives[k] = self._by_signature[signatures.distinct[k]] = answer
        # What no signature decides is asked word by word.
        undecided = np.array([*(known is None for known in alternatives), True])
        alone = np.flatnonzero(undecided[signatures.number])
        number = signatures.number
        number[alone] = len(alternatives) + np.arange(len(alone))
        alternatives += self.find(alignment, words[alone], groups[alone])
        self._by_signature.forget_if_full()
        found = [known or AlternativeSpellings(()) for known in alternatives]
        return self._add(alignment, words, number, found, branches)

    def _add(
        self,
        alignment: Alignment,
        words: Ints,
        number: Ints,
        alternatives: Sequence[AlternativeSpellings],
        branches: Branches,
    ) -> list[int]:
        """Add the spellings ``alternatives[number[n]]`` of each word, all at once.

        Returns the words left out, since a spelling leaves at the beginning of a text that has no start token.
        """
        ways = [divergence for spellings in alternatives for divergence in spellings.divergences]
        tokens_back = np.array([divergence.tokens_back for divergence in ways], dtype=np.int64)
        counts = np.array([len(spellings.divergences) for spellings in alternatives], dtype=np.int64)
        leaving_words = np.repeat(words, counts[number])
        way = concat_ranges(cumulative_offsets(counts)[:-1][number], counts[number])
        leaving_tokens = alignment.stop_tokens[leaving_words] - tokens_back[way]
        without_start: list[int] = []
        if self._vocabulary.start is None:
            text_begins = alignment.token_offsets[alignment.text_of_word[leaving_words]]
            without_start = np.unique(leaving_words[leaving_tokens == text_begins]).tolist()
            kept = ~np.isin(leaving_words, without_start)
            leaving_words, leaving_tokens, way = leaving_words[kept], leaving_tokens[kept], way[kept]
        text = alignment.text_of_word[leaving_words]
        branches.add_many(
            boundaries=leaving_words + text + 1,
            rows=leaving_tokens + text,
            ways=way,
            id_lists=[divergence.first_ids for divergence in ways],
            tails=[divergence.tail for divergence in ways],
        )
        return without_start

    # --- of single words ---

    def covers(self, alignment: Alignment, words: Ints) -> list[set[tuple[int, ...]]]:
        """Return every own way to write a text up to the end of a word, for each of some words.

        Each is a sequence of tokens from the beginning of the text; the last one may reach over the end of the word.
        """
        groups = self._definition.boundary_groups(alignment.batch, alignment.starts[words], alignment.ends[words])
        found = []
        for word, alternatives in zip(words.tolist(), self.find(alignment, words, groups), strict=True):
            first = alignment.token_offset_list[int(alignment.text_of_word[word])]
            observed = tuple(alignment.ids[first : alignment.stop_tokens[word]].tolist())
            covers = set() if alignment.cuts[word] == Cut.MID_TOKEN else {observed}
            for divergence in alternatives.divergences:
                kept = observed[: len(observed) - divergence.tokens_back]
                covers.update(kept + ids for ids in divergence.spellings())
            found.append(covers)
        return found

    def find(self, alignment: Alignment, words: Ints, groups: Ints) -> list[AlternativeSpellings]:
        """Return the ways in which each word could have been written besides the observed one."""
        found: list[AlternativeSpellings] = []
        for first in range(0, len(words), PLACES_AT_ONCE):
            part = slice(first, first + PLACES_AT_ONCE)
            found += self._find_some(alignment, words[part], groups[part])
        return found

    def _find_some(self, alignment: Alignment, words: Ints, groups: Ints) -> list[AlternativeSpellings]:
        """Return the same for a few words, whose answers are held together."""
        self._answers.forget_if_full()
        if self._known_divergences.forget_if_full():
            self._by_signature.clear()  # which holds the same divergences
        if len(self._boundaries) > MAX_CACHED_BOUNDARIES:
            self._boundaries.clear()
        numbers = list(zip(words.tolist(), groups.tolist(), strict=True))
        places = [self._place(alignment, word, group, self._whole_texts) for word, group in numbers]
        self._ask(places)
        unsure = [n for n, place in enumerate(places) if not self._has_observed(place)]
        for n in unsure:
            places[n] = self._place(alignment, *numbers[n], whole_text=True)
        self._ask([places[n] for n in unsure])
        not_sure = set(unsure)
        return [
            AlternativeSpellings(self._divergences(place), n not in not_sure or self._whole_texts)
            for n, place in enumerate(places)
        ]

    def _has_observed(self, place: Place) -> bool:
        """Return True if the tokenizer's answers have the observed spelling, so that they can be compared with it."""
        return (*place.observed, *place.over_end) in self._answers[place.question]

    def _divergences(self, place: Place) -> tuple[Divergence, ...]:
        """Return where the tokenizer's answers leave the observed tokens.

        A token that reaches over the end of the word leads away from the tokens before it, too, though the text goes
        on with it.
        """
        spellings = self._answers[place.question]
        missing: tuple[int, ...] = ()
        if place.over_end:
            on_path = OwnSpelling((*place.observed, *place.over_end), None)
            if on_path.ids not in spellings:
                missing = on_path.ids
                spellings = {**spellings, on_path.ids: on_path}
        key = (place.question, place.observed, missing)
        if key not in self._known_divergences:
            self._known_divergences[key] = tuple(find_divergences(spellings.values(), place.observed))
        return self._known_divergences[key]

    # --- what to ask about ---

    def _place(self, alignment: Alignment, word: int, group: int, whole_text: bool) -> Place:
        """Return a word's end with what to ask about it; with ``whole_text``, all of the text before it."""
        batch = alignment.batch
        text = int(alignment.text_of_word[word])
        text_start = int(batch.text_starts[text])
        start, end = int(alignment.starts[word]), int(alignment.ends[word])
        begin, finish = int(batch.byte_offsets[text_start]), int(batch.byte_offsets[end])
        if whole_text and finish - begin <= MAX_WHOLE_TEXT_BYTES:
            origin, left = begin, ""
        elif whole_text:
            origin, left = self._far_back(alignment, text, begin, finish, MAX_WHOLE_TEXT_BYTES // 2)
        elif self._has_marks:
            origin, left = self._before_run(alignment, text, text_start, start)
        else:
            origin, left = self._after_unjoinable_place(alignment, text, begin, finish)
        first = max(int(np.searchsorted(alignment.token_starts, origin)), alignment.token_offset_list[text])
        stop = int(alignment.stop_tokens[word])
        ending = batch.utf8[origin:finish].decode("utf-8", "replace")
        seen = batch.text[max(text_start, start - LEFT_CONTEXT_CHARACTERS) : start]
        over_end = alignment.cuts[word] == Cut.MID_TOKEN
        named_group = group if self._definition.local else (seen, alignment.word(word))
        return Place(
            question=Question(left, ending, named_group, bool(alignment.exact[text])),
            left=seen,
            word=alignment.word(word),
            observed=tuple(alignment.ids[first:stop].tolist()),
            over_end=(int(alignment.ids[stop]),) if over_end else (),
        )

    def _after_unjoinable_place(self, alignment: Alignment, text: int, begin: int, finish: int) -> tuple[int, str]:
        """Return the last place before the end of a word that no token reaches over, and the character before it."""
        data = alignment.batch.utf8
        low = max(begin, finish - MAX_ENDING_BYTES)
        for place in range(finish - 1, low, -1):
            pair = 256 * data[place - 1] + data[place]
            if self.joined.unjoinable_pairs[pair] and self._begins_token(alignment, place):
                before = bytes([self._alike[pair]]) if data[place - 1] < 0x80 else data[max(begin, place - 4) : place]
                left = before.decode("utf-8", "ignore")[-1:]
                return place, STAND_IN + left if is_white_space(left) else left
        if low == begin:
            return begin, ""
        return self._far_back(alignment, text, begin, finish, MAX_ENDING_BYTES)

    def _begins_token(self, alignment: Alignment, place: int) -> bool:
        token = int(np.searchsorted(alignment.token_starts, place))
        return token < len(alignment.token_starts) and int(alignment.token_starts[token]) == place

    def _far_back(self, alignment: Alignment, text: int, begin: int, finish: int, size: int) -> tuple[int, str]:
        """Return where a token begins, with a character, some bytes before the end of a word, and the text before."""
        data = alignment.batch.utf8
        first = alignment.token_offset_list[text]
        token = int(np.searchsorted(alignment.token_starts, max(begin, finish - size), side="right")) - 1
        while token > first and not character_bytes(data[int(alignment.token_starts[token])]):
            token -= 1
        origin = int(alignment.token_starts[token]) if token > first else begin
        low = max(begin, origin - LEFT_TEXT_BYTES)
        return origin, data[low:origin].decode("utf-8", "ignore")

    def _before_run(self, alignment: Alignment, text: int, text_start: int, start: int) -> tuple[int, str]:
        """Return where the first token begins of the characters without white space that a word stands in."""
        batch = alignment.batch
        run = start
        while run > text_start and not is_white_space(batch.text[run - 1]):
            run -= 1
        space = run
        while space > text_start and is_white_space(batch.text[space - 1]):
            space -= 1
        if space == text_start:
            return int(batch.byte_offsets[text_start]), ""
        after = int(batch.byte_offsets[space])
        first = int(np.searchsorted(alignment.token_starts, after))
        origin = min(int(np.append(alignment.token_starts, after)[first]), int(batch.byte_offsets[start]))
        return origin, STAND_IN + batch.utf8[after:origin].decode("utf-8", "ignore")

    # --- asking ---

    def _ask(self, places: Collection[Place]) -> None:
        """Ask the tokenizer, all questions in one call, and keep its answers."""
        new = {place.question: place for place in places if place.question not in self._answers}
        endings = self._endings_as_read(list(new))
        continuations = {question: self._continuations(place, endings[question]) for question, place in new.items()}
        texts = []
        for question, rests in continuations.items():
            texts += [question.left + question.ending + rest for rest in rests]
        answers = iter(self._encode(texts) if texts else ())
        for question, rests in continuations.items():
            place = new[question]
            spellings: dict[tuple[int, ...], OwnSpelling] = {}
            for rest in rests:
                tokens = next(answers)
                if question.exact and not tokens.exact:
                    continue  # the tokenizer would rewrite this text
                spelling = self._spelling(place, rest, tokens)
                if spelling is not None:
                    spellings[spelling.ids] = spelling
            self._answers[question] = spellings

    def _endings_as_read(self, questions: Sequence[Question]) -> dict[Question, list[bytes]]:
        """Return the bytes of what is asked about; and those of its tokens, where the tokenizer rewrites the text."""
        endings: dict[Question, list[bytes]] = {}
        for question in questions:
            ending = question.ending.encode("utf-8", "surrogatepass")
            if self._vocabulary.first_word_marked and not question.left:
                ending = b" " + ending
            endings[question] = [ending]
        rewritten = [question for question in questions if not question.exact]
        answers = self._encode([question.left + question.ending for question in rewritten]) if rewritten else ()
        for question, tokens in zip(rewritten, answers, strict=True):
            first = int(np.searchsorted(tokens.starts, len(question.left.encode("utf-8", "surrogatepass"))))
            read = b"".join(self._vocabulary.token_bytes[token] for token in tokens.ids[first:].tolist())
            if read not in endings[question]:
                endings[question].append(read)
        return endings

    def _continuations(self, place: Place, endings: Sequence[bytes]) -> list[str]:
        """Return what may follow a word and ends it: something of every kind, and what tokens over its end hold.

        ``endings`` are the bytes of what is asked about, in one way or more.
        """
        rests: dict[str, None] = dict.fromkeys(AFTER_WORDS)
        for held in chain.from_iterable(map(self.joined.continuations_of, endings)):
            for rest in self._completed(held):
                rests[rest] = None
                if self._adds_space:  # written otherwise at the end of a text
                    rests[rest + self._glued_on(rest)] = None
                if self._adds_space or is_white_space(rest[-1]):
                    rests[rest + "a"] = None
        if self._own_pairs is not None:
            for ending in endings:
                rests.update(dict.fromkeys(self._before_open_tokens(self._own_pairs, place, ending)))
        return [rest for rest in rests if self._definition.ends(place.left, place.word, rest)]

    def _before_open_tokens(self, own_pairs: OwnPairs, place: Place, ending: bytes) -> Iterator[str]:
        """Yield what must follow a word so that it is written with a token that is not the last of a word.

        Such a token may end with the word, before what ends it, or hold more.
        """
        at_end, over_end = set[int](), set[tuple[int, bytes]]()
        for size in range(1, min(len(ending), own_pairs.longest) + 1):
            stem = ending[-size:]
            for held in (b"", *self.joined.continuations_after(stem)):
                token = own_pairs.open_token(stem + held)
                if token is not None and held:
                    over_end.add((token, held))
                elif token is not None:
                    at_end.add(token)
        yield from own_pairs.first_followers(at_end, self._ending_openings(place)).values()
        followers = own_pairs.first_followers({token for token, _ in over_end}, own_pairs.openings)
        for token, held in over_end:
            if token in followers:
                yield from (rest + followers[token] for rest in self._completed(held))

    def _ending_openings(self, place: Place) -> list[str]:
        """Return characters that end a word and could go on with its last token."""
        ending = [
            openings
            for openings in self._openings_by_label.values()
            if self._definition.ends(place.left, place.word, openings[0])
        ]
        return list(chain.from_iterable(ending))

    def _glued_on(self, rest: str) -> str:
        """Return a character that can be written right after ``rest``, in a token of its own."""
        last = rest.encode("utf-8", "surrogatepass")[-1]
        pairs = self.joined.unjoinable_pairs
        return next((c for c in GLUED_ON if pairs[256 * last + ord(c)]), GLUED_ON[0])

    def _completed(self, held: bytes) -> list[str]:
        """Return bytes as texts; a cut-off character at their end becomes characters of every kind that it can be."""
        try:
            return [held.decode()]
        except UnicodeDecodeError:
            pass
        cut = next((back for back in (1, 2, 3) if is_cut_off(held[-back:])), 0)
        try:
            whole = held[: len(held) - cut].decode()
        except UnicodeDecodeError:
            return []  # bytes that no text has
        if not cut:
            return []
        # Which tokens the bytes become depends on the byte that comes next, and whether they end the word on the label.
        examples: dict[tuple[int, Label], str] = {}
        for character in completions(held[-cut:]):
            next_byte = character.encode()[cut]
            examples.setdefault((next_byte, self._definition.label(character)), character)
        return [whole + character for character in examples.values()]

    def _spelling(self, place: Place, rest: str, tokens: Tokens) -> OwnSpelling | None:
        """Read off how the tokenizer wrote what is asked about before ``rest``; ``None`` if that does not count."""
        question = place.question
        data = (question.left + question.ending + rest).encode("utf-8", "surrogatepass")
        begin = len(question.left.encode("utf-8", "surrogatepass"))
        finish = len(data) - len(rest.encode("utf-8", "surrogatepass"))
        first, stop = (int(n) for n in np.searchsorted(tokens.starts, [begin, finish], side="left"))
        if stop == first or (first and tokens.ends[first - 1] > begin):
            return None  # nothing was written for it, or a token from the left reaches into it
        ids = tuple(tokens.ids[first:stop].tolist())
        if self._vocabulary.unknown in ids and self._vocabulary.unknown not in place.observed:
            return None
        reaches = int(tokens.ends[stop - 1])
        if reaches <= finish:
            return OwnSpelling(ids, self.boundary(place.left, place.word, ids[-1]))
        held = data[finish:reaches] or b" "  # an end-of-word mark stands for a space that nobody typed
        if not self._definition.ends_by_rule:
            return OwnSpelling(ids, None)
        if is_cut_off(held):
            return OwnSpelling(ids, self.boundary(place.left, place.word, ids[-1]), held)
        if self._definition.ends(place.left, place.word, held.decode("utf-8", "ignore")):
            return OwnSpelling(ids, None)
        return None
