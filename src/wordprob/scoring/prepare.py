"""Texts made ready for the model: words, tokens, what ends each word, and its other spellings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from wordprob.core.alignment import Alignment, Cut, align
from wordprob.core.arrays import Bools, Ints, segment_sums
from wordprob.core.atoms import atoms_of
from wordprob.core.characters import character_classes, is_white_space
from wordprob.core.span_words import WithoutBoundaries
from wordprob.core.text import TextBatch, Word
from wordprob.core.windows import Window, windows
from wordprob.core.word_definition import LEFT_CONTEXT_CHARACTERS, WordDefinition
from wordprob.covers.events import BoundaryEvents, CutOffTokens, Ending, WordEvents
from wordprob.covers.search_plan import REWRITTEN, SearchPlanner
from wordprob.covers.spellings import SpellingFinder
from wordprob.covers.token_trie import trie_as_read
from wordprob.errors import InputError
from wordprob.models.protocol import Tokenizer
from wordprob.scoring.passages import Chunk, Passage
from wordprob.scoring.prepared_batch import BatchSettings, BoundarySets, PreparedBatch
from wordprob.scoring.shared_contexts import encode_sharing
from wordprob.scoring.text_starts import TextStarts

NOTHING_WRITTEN = "the tokeniser wrote nothing for this word"
NO_RULE = "ends by no rule: the probability that the text goes on with these characters"
NO_START = "no start-of-text token: choose one with bos"
UNKNOWN_CHARACTERS = "the tokeniser does not know all of it"


class TextPreparer:
    """Prepares texts under one word definition, for one tokenizer and size of the model's output.

    Parameters
    ----------
    tokenizer
        The model's tokenizer.
    vocab_size
        Number of ids that the model's distributions have.
    definition
        What a word is.
    """

    def __init__(self, tokenizer: Tokenizer, vocab_size: int, definition: WordDefinition) -> None:
        self.tokenizer = tokenizer
        self.definition = definition.bind()
        self.atoms = atoms_of(tokenizer.vocabulary, self.definition, vocab_size)
        self._vocabulary = tokenizer.vocabulary
        self._finders: dict[str, SpellingFinder] = {}
        self._word_events: dict[str, WordEvents] = {}
        self._sets = BoundarySets(self.atoms)
        self._starts = TextStarts(self._vocabulary, self.definition, self.atoms, self._sets)
        self._cut_off_tokens = CutOffTokens(self._vocabulary, self.definition, self.atoms)
        self.events = BoundaryEvents(self.atoms, self._cut_off_tokens)

    @cached_property
    def _no_rule(self) -> WordDefinition:
        """Where no rule ends a word."""
        return WithoutBoundaries(self.definition)

    def finder(self, rule: WordDefinition) -> SpellingFinder:
        """Return what finds other spellings of words that end by a rule."""
        if rule.name not in self._finders:
            vocabulary = self._vocabulary
            self._finders[rule.name] = SpellingFinder(self.tokenizer.encode, vocabulary, rule, self.atoms)
        return self._finders[rule.name]

    def prepare(self, chunk: Chunk, settings: BatchSettings) -> PreparedBatch:
        """Find the words of texts, their tokens, their boundaries, their other spellings and their windows."""
        passages = chunk.passages
        batch = TextBatch(chunk.documents)
        given = [passage.words for passage in passages if passage.words is not None]
        starts, ends = _user_spans(batch, given) if given else self.definition.spans(batch)
        context_lengths = [passage.context_length for passage in passages]
        texts = [passage.text for passage in passages]
        shares = any(context_lengths) and len(texts) > 1
        tokens = encode_sharing(self.tokenizer, texts, context_lengths) if shares else self.tokenizer.encode(texts)
        alignment = align(batch, starts, ends, tokens)
        prepared = PreparedBatch(
            chunk=chunk,
            settings=settings,
            alignment=alignment,
            n_context_words=context_words(batch, starts, ends, context_lengths),
            boundary_sets=np.full(alignment.n_words + alignment.n_texts, BoundarySets.NOTHING, dtype=np.int64),
            missing=np.zeros(alignment.n_words + alignment.n_texts, dtype=bool),
            between=_between(alignment, passages),
            beyond=_beyond(alignment, passages),
            sets=self._sets,
        )
        self._note_rewritten_words(prepared)
        self._starts.set_starts(prepared)
        rules = self._rules(prepared)
        for rule, words in rules:
            self._set_boundaries(prepared, rule, words)
            self._add_spellings(prepared, rule, words)
        self._pass_over_empty_words(prepared)
        if settings.search is not None:
            self._plan_searches(prepared, rules)
        prepared.windows = _windows(prepared)
        prepared.set_members = self._sets.members()
        prepared.open_shares = self._sets.open_shares()
        return prepared

    # --- what ends each word ---

    def _rules(self, prepared: PreparedBatch) -> list[tuple[WordDefinition, Ints]]:
        """Return what ends words, with the words that end so: a rule, or none where the user's words end by none."""
        alignment = prepared.alignment
        rules = [passage.rule for passage in prepared.chunk.passages if passage.rule is not None]
        if not rules:
            return [(self.definition, np.arange(alignment.n_words))]
        words_of: dict[str, list[int]] = {}
        by_name: dict[str, WordDefinition] = {}
        for text, rule in enumerate(rules):
            for word in alignment.words_of_text(text):
                chosen: WordDefinition = rule if self._ends_by(rule, alignment, text, word) else self._no_rule
                if chosen is self._no_rule and rule.ends_by_rule:
                    prepared.add_note(word, NO_RULE)
                by_name[chosen.name] = chosen
                words_of.setdefault(chosen.name, []).append(word)
        return [(by_name[name], np.array(words, dtype=np.int64)) for name, words in words_of.items()]

    def _ends_by(self, rule: WordDefinition, alignment: Alignment, text: int, word: int) -> bool:
        """Return True if a rule has a word end where it does, given what follows it."""
        left, content = _left_and_word(alignment, word)
        end = alignment.ends[word]
        text_end = alignment.batch.text_starts[text + 1] - 1
        rest = alignment.batch.text[end : min(end + LEFT_CONTEXT_CHARACTERS, text_end)]
        return bool(rule.ends(left, content, rest))

    def _set_boundaries(self, prepared: PreparedBatch, rule: WordDefinition, words: Ints) -> None:
        """Settle what ends each of these words; a word that ends inside a token is written by other spellings only."""
        alignment = prepared.alignment
        includes_space = words[alignment.cuts[words] == Cut.INCLUDES_SPACE]
        prepared.boundary_sets[alignment.boundary_after[includes_space]] = BoundarySets.EVERYTHING
        clean = words[alignment.cuts[words] == Cut.CLEAN]
        prepared.boundary_sets[alignment.boundary_after[clean]] = self._ending_sets(prepared, rule, clean)

    def _ending_sets(self, prepared: PreparedBatch, rule: WordDefinition, words: Ints) -> Ints:
        """Return the sets of what ends these words."""
        endings, numbers = self._endings(prepared.alignment, rule, words)
        for number, ending in enumerate(endings):
            if ending.undecided:
                boundaries = prepared.alignment.boundary_after[words[numbers == number]].tolist()
                prepared.undecided_atoms.update(dict.fromkeys(boundaries, self.atoms.columns(ending.undecided)))
        sets = np.array([self._sets.number(ending.labels) for ending in endings], dtype=np.int64)
        return sets[numbers]

    def _endings(
        self, alignment: Alignment, rule: WordDefinition, words: Ints, is_closed: Bools | None = None
    ) -> tuple[list[Ending], Ints]:
        """Return what may end these words, and for each of them the number of what ends it.

        Words of one group and one kind of last token share it. Words that end by no rule may be followed by anything,
        or by anything but the end. ``is_closed`` says which words have a mark at their end; by default those of which
        the last token has one.
        """
        if is_closed is None:
            is_closed = self._vocabulary.marked[alignment.ids[alignment.stop_tokens[words] - 1]]
        if rule.ends_by_rule:
            groups = rule.boundary_groups(alignment.batch, alignment.starts[words], alignment.ends[words])
            groups = self._told_apart_by_marks(alignment, words, groups, is_closed)
        else:
            last_characters = [alignment.batch.text[end - 1] for end in alignment.ends[words].tolist()]
            groups = np.array([is_white_space(character) for character in last_characters], dtype=np.int64)
        number_of_group = np.zeros(groups.max(initial=-1) + 1, dtype=np.int64)
        first_of_group = np.zeros_like(number_of_group)
        first_of_group[groups[::-1]] = np.arange(len(groups))[::-1]  # of equal indices the last one counts
        endings: list[Ending] = []
        for group in np.flatnonzero(np.bincount(groups)).tolist():
            example = first_of_group[group]
            left, word = _left_and_word(alignment, int(words[example]))
            labels = self.finder(rule).boundary_after(left, word, bool(is_closed[example]))
            undecided = frozenset() if labels is None else rule.undecided(left, word, self.atoms.labels)
            number_of_group[group] = len(endings)
            endings.append(Ending(labels, undecided))
        return endings, number_of_group[groups]

    def _told_apart_by_marks(self, alignment: Alignment, words: Ints, groups: Ints, is_marked: Bools) -> Ints:
        """Return groups of words of which those whose last token has an end-of-word mark are apart.

        Whether a mark stands for white space depends on the class of the character before it.
        """
        if not self._vocabulary.marked.any():
            return groups
        last_classes = character_classes(alignment.batch).last[alignment.ends[words] - 1].astype(np.int64)
        kinds = np.where(is_marked, 1 + last_classes, 0)
        n_kinds = int(kinds.max(initial=0)) + 1
        told_apart: Ints = np.unique(n_kinds * groups + kinds, return_inverse=True)[1]
        return told_apart

    def _pass_over_empty_words(self, prepared: PreparedBatch) -> None:
        """Give a word for which the tokenizer wrote nothing the boundary before it."""
        alignment = prepared.alignment
        for word in np.flatnonzero(alignment.cuts == Cut.EMPTY).tolist():
            boundary = int(alignment.boundary_after[word])
            prepared.boundary_sets[boundary] = prepared.boundary_sets[boundary - 1]
            prepared.branches.copy_to(boundary - 1, boundary)
            if word not in prepared.notes:
                prepared.add_note(word, NOTHING_WRITTEN)

    # --- words that the tokenizer rewrote ---

    def _note_rewritten_words(self, prepared: PreparedBatch) -> None:
        """Note what became of the words that the tokenizer did not take as they stand."""
        alignment = prepared.alignment
        for text in np.flatnonzero(~alignment.exact).tolist():
            for words in _words_by_tokens(alignment, text):
                note = self._rewriting(alignment, words)
                if note:
                    for word in words:
                        prepared.add_note(word, note)

    def _rewriting(self, alignment: Alignment, words: range) -> str:
        """Return what the tokenizer made of words that share tokens; nothing if it took them as they stand."""
        first, last = words[0], words[-1]
        ids = alignment.ids[alignment.first_tokens[first] : alignment.stop_tokens[last]].tolist()
        if not ids:
            return ""  # that nothing was written is noted elsewhere
        if self._vocabulary.unknown in ids:
            return UNKNOWN_CHARACTERS
        written = b"".join(self._vocabulary.token_bytes[i] for i in ids).decode("utf-8", "replace").strip()
        given = alignment.batch.text[alignment.starts[first] : alignment.ends[last]]
        if written == given or alignment.cuts[last] == Cut.INCLUDES_SPACE:
            return ""
        return f"read by the tokeniser as '{written}'"

    # --- other spellings ---

    def _add_spellings(self, prepared: PreparedBatch, rule: WordDefinition, words: Ints) -> None:
        """Find those of the words that could have been written otherwise."""
        wanted = (prepared.alignment.cuts[words] != Cut.EMPTY) & prepared.touches_scored[words]
        for word in self.finder(rule).add_branches(prepared.alignment, words[wanted], prepared.branches):
            prepared.mark_missing(np.array([word]), NO_START)

    # --- every spelling ---

    def _plan_searches(self, prepared: PreparedBatch, rules: Sequence[tuple[WordDefinition, Ints]]) -> None:
        """Plan the search for every spelling of the words that are scored."""
        alignment = prepared.alignment
        has_start = prepared.boundary_sets != BoundarySets.NOTHING
        planner = SearchPlanner(self._vocabulary, alignment, prepared.branches, has_start)
        # Of a text that the tokenizer rewrites, the event is over the text as it is read, token by token.
        is_silent = (self._vocabulary.lengths[alignment.ids] == 0).astype(np.float64)  # the unknown token
        is_written = segment_sums(is_silent, alignment.first_tokens, alignment.stop_tokens) == 0.0
        is_read = is_written & (alignment.cuts == Cut.CLEAN)
        is_exact = alignment.exact[alignment.text_of_word] & (not self._vocabulary.leaves_out_space)
        is_known = is_exact | is_read
        for rule, words in rules:
            after = alignment.boundary_after[words]
            is_missing = prepared.missing[after - 1] | prepared.missing[after]
            wanted = prepared.is_scored[words] & ~is_missing & (alignment.cuts[words] != Cut.EMPTY)
            for word in words[wanted & ~is_known[words]].tolist():
                prepared.add_note(word, REWRITTEN)
            searched = words[wanted & is_known[words]]
            planner.add(searched, self._either_ending(alignment, rule, searched), self._events_of(rule))
        prepared.search_plan = planner.plan()

    def _either_ending(self, alignment: Alignment, rule: WordDefinition, words: Ints) -> list[Ending]:
        """Return what ends each word, whether its last token has a mark or not."""
        endings, numbers = self._endings(alignment, rule, words, np.zeros(len(words), dtype=bool))
        either = [endings[number] for number in numbers.tolist()]
        if not self._vocabulary.marked.any():
            return either
        closed, numbers = self._endings(alignment, rule, words, np.ones(len(words), dtype=bool))
        return [each._replace(after_mark=closed[number]) for each, number in zip(either, numbers.tolist(), strict=True)]

    def _events_of(self, rule: WordDefinition) -> WordEvents:
        if rule.name not in self._word_events:
            trie = trie_as_read(self._vocabulary, len(self.atoms.atom_of_token))
            joined = self.finder(rule).joined
            self._word_events[rule.name] = WordEvents(trie, joined, self.atoms, self._cut_off_tokens)
        return self._word_events[rule.name]


def _words_by_tokens(alignment: Alignment, text: int) -> Iterator[range]:
    """Yield the words of a text, those together that share a token."""
    first = None
    for word in alignment.words_of_text(text):
        first = word if first is None else first
        if alignment.cuts[word] != Cut.MID_TOKEN:
            yield range(first, word + 1)
            first = None


def _left_and_word(alignment: Alignment, word: int) -> tuple[str, str]:
    """Return what a definition may look at: the text before a word, and the word."""
    start = alignment.starts[word]
    text_start = alignment.batch.text_starts[alignment.text_of_word[word]]
    return alignment.batch.text[max(text_start, start - LEFT_CONTEXT_CHARACTERS) : start], alignment.word(word)


def _windows(prepared: PreparedBatch) -> list[list[Window]]:
    """Return the windows of each text."""
    alignment, settings = prepared.alignment, prepared.settings
    lengths = np.diff(alignment.token_offsets)
    whole_texts = {n_tokens: [Window(0, 0, n_tokens)] for n_tokens in np.unique(lengths).tolist()}
    found = [whole_texts[n_tokens] for n_tokens in lengths.tolist()]
    if settings.max_text_tokens is not None:
        for text in np.flatnonzero(lengths > settings.max_text_tokens).tolist():
            words = slice(*alignment.word_offsets[text : text + 2])
            word_stops = alignment.stop_tokens[words] - alignment.token_offsets[text]
            found[text] = windows(int(lengths[text]), word_stops, settings.max_text_tokens, settings.min_context)
    return found


def _user_spans(batch: TextBatch, user_words: Sequence[Sequence[Word]]) -> tuple[Ints, Ints]:
    """Return where given words start and end in the batch."""
    text_starts = np.repeat(batch.text_starts[:-1], [len(words) for words in user_words])
    bounds = [(word.start, word.end) for words in user_words for word in words]
    array = np.array(bounds, dtype=np.int64).reshape(-1, 2)
    return array[:, 0] + text_starts, array[:, 1] + text_starts


def context_words(batch: TextBatch, starts: Ints, ends: Ints, context_lengths: Sequence[int]) -> Ints:
    """Return how many words come before each continuation, which must begin with a word of its own."""
    begins = batch.text_starts[:-1] + np.array(context_lengths, dtype=np.int64)
    words_before = np.searchsorted(ends, begins, side="right")
    runs_on = np.append(starts, len(batch.text))[words_before] < begins
    for text in np.flatnonzero(runs_on).tolist():
        continuation = batch.text[begins[text] : batch.text_starts[text + 1] - 1]
        word = batch.text[starts[words_before[text]] : ends[words_before[text]]]
        raise InputError(
            f"continuation {batch.documents[text].id} ('{continuation[:30]}') goes on with the context's last word: "
            f"together they make '{word[:40]}'. Put a space between them, or move the whole word into the "
            "continuation."
        )
    return words_before - np.searchsorted(starts, batch.text_starts[:-1])


def _between(alignment: Alignment, passages: Sequence[Passage]) -> Bools:
    """Return True for words that only stand between those that the user gave."""
    between = np.zeros(alignment.n_words, dtype=bool)
    for text, passage in enumerate(passages):
        if passage.unscored:
            between[alignment.word_offsets[text] + np.array(passage.unscored, dtype=np.int64)] = True
    return between


def _beyond(alignment: Alignment, passages: Sequence[Passage]) -> Bools:
    """Return True for words after the last one that is scored."""
    ends_in_text = [len(passage.text) if passage.scored_end is None else passage.scored_end for passage in passages]
    ends = alignment.batch.text_starts[:-1] + np.array(ends_in_text, dtype=np.int64)
    beyond: Bools = alignment.starts >= ends[alignment.text_of_word]
    return beyond
