"""The Scorer: texts, or what comes after contexts, in; tables of surprisals out.

:func:`wordprob.scoring.open_model.score_chunk` is the path of a text, one step after the other. Threads
(:mod:`wordprob.scoring.pipeline`) and worker processes (:mod:`wordprob.scoring.worker_pool`) take the same steps, only
not one after the other; long texts (:mod:`wordprob.scoring.long_text`) are cut into several chunks.
"""

from __future__ import annotations

import copy
import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeGuard, Unpack, overload

from wordprob._version import __version__
from wordprob.core.context_limit import parse_limit
from wordprob.core.word_definition import WordDefinition
from wordprob.errors import InputError
from wordprob.models.protocol import PrefixStates
from wordprob.models.registry import wrap_given_model
from wordprob.options import ScoringKeywords, ScoringOptions
from wordprob.scoring.capability_checks import check_scoring_options, check_sources
from wordprob.scoring.chunks import (
    CHARACTERS_PER_BATCH_TOKEN,
    CHARACTERS_PER_TOKEN,
    FIRST_CHUNK_CHARACTERS,
    SHARED_CONTEXT_CHARACTERS,
    cut_into_chunks,
    join_excerpts,
    join_sections,
    order_by_beginnings,
    with_empty_texts,
    without_repeated_empty,
)
from wordprob.scoring.continuations import continuations_of, with_heads
from wordprob.scoring.limited_context import limited_chunks
from wordprob.scoring.long_text import sections
from wordprob.scoring.open_model import OpenModel, score_chunk
from wordprob.scoring.passages import Chunk, GivenWords, Rule, WordChoice, Words, choose_words, passages_of
from wordprob.scoring.pipeline import score_in_threads
from wordprob.scoring.prepare import TextPreparer
from wordprob.scoring.prepared_batch import BatchSettings
from wordprob.scoring.progress import count_on, progress_callback, progress_over
from wordprob.scoring.pseudo_surprisal import score_masked
from wordprob.scoring.requests import Progress
from wordprob.scoring.results import WordTable
from wordprob.scoring.worker_pool import (
    score_in_workers,
    useful_workers,
)
from wordprob.tables.schema import BatchScores
from wordprob.tables.word_level_columns import WordLevel

if TYPE_CHECKING:
    from wordprob.scoring.next_words import NextWords
    from wordprob.scoring.word_spellings import WordSpellings

SMALL_CHUNK_CHARACTERS_PER_BATCH_TOKEN = 8
"""A chunk of at most so many characters for each token that the model takes at a time is some two batches."""


class Scorer(OpenModel):
    """Scores words with a language model.

    Parameters
    ----------
    model
        A :class:`wordprob.models.protocol.LanguageModel`, or a transformers model that is loaded already. For models by
        name, and for further options, use :func:`wordprob.load`.
    tokenizer
        The tokenizer of a transformers model.

    Examples
    --------
    >>> from wordprob.models.exact import ExactLM
    >>> table = Scorer(ExactLM.bigram("bow")).score(["She saw the mark"], unit="nats")
    >>> table.to_pandas()[["word", "surprisal", "surprisal_naive"]].round(3).values.tolist()[3]
    ['mark', 1.514, 0.0]
    """

    def __init__(self, model: Any, tokenizer: Any = None) -> None:
        super().__init__(wrap_given_model(model, tokenizer))

    def __repr__(self) -> str:
        facts = [self.model.metadata.get("model", type(self.model).__name__), *self._facts()]
        return f"<Scorer: {', '.join(facts)}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the model and where it comes from."""
        cell = '<{0} style="text-align:left">{1}</{0}>'
        rows = "".join(
            f"<tr>{cell.format('th', html.escape(str(name)))}{cell.format('td', html.escape(str(value)))}</tr>"
            for name, value in self.model.metadata.items()
            if value
        )
        return f"<div><code>{html.escape(repr(self))}</code><table>{rows}</table></div>"

    def _facts(self) -> list[str]:
        """Return what there is to say about the model in a few words."""
        model = self.model
        facts = [f"vocabulary of {model.vocab_size:,} tokens"]
        if model.max_tokens is not None:
            facts.append(f"context of {model.max_tokens:,}")
        if "device" in model.metadata:
            facts.append(f"{model.metadata.get('dtype', '')} on {model.metadata['device']}".strip())
        return facts

    def with_options(
        self,
        options: ScoringOptions | None = None,
        /,
        *,
        words: Rule | None = None,
        **changed: Unpack[ScoringKeywords],
    ) -> Scorer:
        """Return a scorer with the same model that has other defaults.

        Parameters
        ----------
        options
            All options at once; by default those of this scorer.
        words, **changed
            Options by name, as :class:`wordprob.options.ScoringOptions` has them.

        Examples
        --------
        >>> import wordprob
        >>> scorer = wordprob.load("exact:bow").with_options(words="punctuation", unit="nats")
        >>> scorer.score("She saw the mark").unit
        'nats'
        """
        other = copy.copy(self)
        other.options = (options or self.options).updated(_by_name(words, changed))
        return other

    def score(
        self,
        texts: str | Iterable[str],
        words: Words | None = None,
        *,
        ids: Sequence[int | str] | None = None,
        sources: Sequence[str] | None = None,
        progress: Progress | bool | None = None,
        **options: Unpack[ScoringKeywords],
    ) -> WordTable:
        """Return the surprisal of every word of every text.

        Parameters
        ----------
        texts
            One text or several. They are scored independently and are never changed.
        words
            What a word is: ``whitespace`` (the default), ``punctuation``, ``characters``, ``regex:PATTERN``, a
            :class:`wordprob.core.words.WordDefinition`, or the words themselves: a list for each text (or one list for
            one text). The words of a list are strings, or pairs of where they start and end in the text; what lies
            between them is then context.
        ids
            Names for the texts; counted from 0 by default.
        sources
            For encoder–decoder models: the source of each text, which is then the target.
        progress
            ``True`` shows a progress bar. Or a function that is called with the numbers of texts done and in all; a
            long text counts as several.
        **options
            Options of scoring by name: ``boundary``, ``unit``, ``min_context``, ``max_context``, ``extras``,
            ``estimators``, ``spellings``, ``tolerance``, ``max_open``, ``readers``.
            :class:`wordprob.options.ScoringOptions` describes them.
        """
        chosen = self._options(words, options, "ids", "sources")
        check_scoring_options(chosen)
        choice = choose_words(_words(words, chosen), chosen.boundary, passages_of(texts, ids))
        settings = self.settings(chosen)
        self._check_sources(sources, len(choice.passages), chosen)
        readers = self._readers(chosen, choice)
        chunk_characters = self._chunk_characters(readers)
        order = self._order(choice, chunk_characters) if sources is None else None
        if order is not None:
            choice = choice.at(order)
        scored_texts = without_repeated_empty(choice.passages)
        to_score = choice.at(scored_texts)
        with progress_callback(progress) as advance:
            shown = progress_over(advance, len(choice.passages) - len(scored_texts))
            if sources is None:
                chunks = self._chunks(to_score, settings, chunk_characters, chosen.max_context)
                scored = self._score(choice.definition, chunks, settings, readers, shown)
            else:
                of_texts = [sources[position] for position in scored_texts]
                scored = self._score_targets(to_score, of_texts, settings, chunk_characters, shown)
            scored = self._with_word_level(scored, to_score, chosen)
            everything = with_empty_texts(scored, choice.passages, scored_texts)
            table = WordTable.build(everything, self._metadata(choice, chosen), chosen.unit, chosen.extras)
            return table if order is None else table.in_order(order)

    def score_continuations(
        self,
        context: str | Iterable[str],
        continuations: Iterable[str],
        words: Words | None = None,
        *,
        crossed: bool = False,
        separator: str = " ",
        ids: Sequence[int | str] | None = None,
        progress: Progress | bool | None = None,
        **options: Unpack[ScoringKeywords],
    ) -> WordTable:
        """Return the surprisal of each continuation's words, given the context.

        The values are those of scoring the whole texts, but what they share is computed once. Offsets are into the
        continuation.

        Parameters
        ----------
        context
            What comes before; may be empty. Or several contexts, one for each continuation.
        continuations
            What may come next: words or longer stretches, as many as you like.
        words
            As for :meth:`score`; lists of words are those of the continuations alone.
        crossed
            For several contexts: score every continuation after each of them. The texts of the first context come
            first.
        separator
            Put between context and continuation, unless either brings white space of its own.
        ids, progress, **options
            As for :meth:`score`.

        Examples
        --------
        >>> from wordprob.models.exact import ExactLM
        >>> table = Scorer(ExactLM.bigram("bow")).score_continuations("She saw the", ["mark", "marker"], "punctuation")
        >>> (2 ** -table.to_pandas()["surprisal"]).round(3).tolist()
        [0.4, 0.35]
        >>> table = Scorer(ExactLM.bigram("bow")).score_continuations(["She saw the", "She"], ["mark", "saw the"])
        >>> table.to_pandas()["word"].tolist()
        ['mark', 'saw', 'the']
        """
        chosen = self._options(words, options, "crossed", "separator", "ids")
        check_scoring_options(chosen, after_contexts=True)
        texts = continuations_of(context, continuations, ids, separator, crossed)
        choice = choose_words(_words(words, chosen), chosen.boundary, texts.passages, after_contexts=True)
        settings, tokenizer = self.settings(chosen), self.model.tokenizer
        readers = self._readers(chosen, choice)
        if chosen.max_context is None:
            passages = with_heads(choice, texts.contexts, tokenizer, settings.max_text_tokens)
            chunks = cut_into_chunks(passages, SHARED_CONTEXT_CHARACTERS, shares_context=True)
        else:
            limit = parse_limit(chosen.max_context)
            chunks = limited_chunks(choice, limit, tokenizer, SHARED_CONTEXT_CHARACTERS, shares_context=True)
        metadata = self._metadata(choice, chosen)
        if isinstance(context, str):
            metadata["context"] = context
        with progress_callback(progress) as advance:
            scored = self._score(choice.definition, chunks, settings, readers, advance)
            return WordTable.build(scored, metadata, chosen.unit, chosen.extras)

    def score_candidates(
        self, context: str | Iterable[str], candidates: Iterable[str], words: Words | None = None, **options: Any
    ) -> WordTable:
        """Return a row for each candidate after a context, or after each of several, with its probability.

        See :func:`wordprob.scoring.candidates.score_candidates`.
        """
        from wordprob.scoring.candidates import score_candidates

        return score_candidates(self, context, candidates, words, **options)

    def spellings(
        self,
        context: str,
        word: str,
        words: Rule | None = None,
        *,
        separator: str = " ",
        **options: Unpack[ScoringKeywords],
    ) -> WordSpellings:
        """Return the spellings of a word after a context, whichever ``spellings`` are counted elsewhere.

        See :func:`wordprob.scoring.word_spellings.spellings_of`.
        """
        from wordprob.scoring.word_spellings import spellings_of

        ScoringOptions.check_used(options, "words", "boundary", "unit", "tolerance", "max_open")
        chosen = self._options(words, options, "separator")
        return spellings_of(self, context, word, chosen, separator=separator)

    @overload
    def next_words(self, context: str, words: Rule | None = ..., **options: Any) -> NextWords: ...

    @overload
    def next_words(self, context: Sequence[str], words: Rule | None = ..., **options: Any) -> list[NextWords]: ...

    def next_words(
        self, context: str | Sequence[str], words: Rule | None = None, **options: Any
    ) -> NextWords | list[NextWords]:
        """Return the words that could come after a context, or after each of several, which are searched together.

        See :func:`wordprob.scoring.next_words.next_words` for ``top``, ``mass`` and ``progress``. The other options are
        those of scoring, and ``unit``, ``spellings`` and ``max_open`` matter here.
        """
        from wordprob.scoring.next_words import next_words

        ScoringOptions.check_used(options, "words", "unit", "spellings", "max_open")
        own = {name: options.pop(name) for name in ("top", "mass", "progress") if name in options}
        chosen = self._options(words, options, "top", "mass")
        contexts = [context] if isinstance(context, str) else context
        found = next_words(self, contexts, chosen, **own)
        return found[0] if isinstance(context, str) else found

    def _options(self, words: Words | None, options: Mapping[str, Any], *others: str) -> ScoringOptions:
        """Return the options of a call: those of the scorer, and those given by name.

        ``others`` are further keywords of the call, which a wrong name may stand for.
        """
        rule = None if _are_given(words) else words
        return self.options.updated(_by_name(rule, options), ["words", *others, "progress"])

    # --- targets of encoder–decoder models ---

    def _check_sources(self, sources: Sequence[str] | None, n_texts: int, options: ScoringOptions) -> None:
        """Raise, unless an encoder–decoder model has a source for each text, and another model has none."""
        if sources is not None or not self.capabilities.has_source:
            name = self.model.metadata.get("model", "the model")
            check_sources(self.capabilities, options, name, has_sources=sources is not None)
        if sources is not None and (isinstance(sources, str) or len(sources) != n_texts):
            given = "one string" if isinstance(sources, str) else str(len(sources))
            raise InputError(f"{n_texts} texts but {given} as `sources`; give a list with one for each.")

    def _score_targets(
        self,
        choice: WordChoice,
        sources: Sequence[str],
        settings: BatchSettings,
        chunk_characters: int,
        progress: Progress | None,
    ) -> Iterator[BatchScores]:
        """Score texts given their sources; texts in a row that have the same one are scored together."""
        model: Any = self.model
        before = model.source
        done = 0
        try:
            by_source = groupby(zip(choice.passages, sources, strict=True), key=itemgetter(1))
            for source, group in by_source:
                passages = [passage for passage, _ in group]
                model.set_source(source)
                chunks = self._chunks(choice._replace(passages=passages), settings, chunk_characters)
                yield from self._score(choice.definition, chunks, settings, 0, None)
                done += len(passages)
                if progress is not None:
                    progress(done, len(choice.passages))
        finally:
            model.set_source(before)

    # --- steps ---

    def _score(
        self,
        definition: WordDefinition,
        chunks: Sequence[Chunk],
        settings: BatchSettings,
        workers: int,
        progress: Progress | None,
    ) -> Iterator[BatchScores]:
        """Score chunks in worker processes or in threads of this one."""
        preparer = self.preparer(definition)
        if not self.capabilities.predicts_next_token:
            return score_masked(self.model, preparer, chunks, settings, progress)
        if workers and settings.max_width is None:  # a server is slow enough for threads
            scored = score_in_workers(self.model, preparer, chunks, settings, workers, progress)
        elif len(chunks) == 1 and self._is_small(chunks[0]):
            scored = self._score_small(preparer, chunks[0], settings, progress)
        else:
            scored = score_in_threads(self.model, preparer, chunks, settings, progress)
        joined = ((join_excerpts(scores, chunk), chunk) for scores, chunk in zip(scored, chunks, strict=True))
        return join_sections(joined)

    def _is_small(self, chunk: Chunk) -> bool:
        """Return True if a chunk has too little text for threads to pay."""
        return chunk.n_characters <= SMALL_CHUNK_CHARACTERS_PER_BATCH_TOKEN * self.model.batch_tokens

    def _score_small(
        self, preparer: TextPreparer, chunk: Chunk, settings: BatchSettings, progress: Progress | None
    ) -> Iterator[BatchScores]:
        """Score one small chunk without threads."""
        text_done = count_on(progress, 0, len(chunk.passages))
        yield score_chunk(self.model, preparer, chunk, settings, PrefixStates(), text_done)

    def _with_word_level(
        self, scored: Iterator[BatchScores], choice: WordChoice, options: ScoringOptions
    ) -> Iterator[BatchScores]:
        """Add what is wanted of the words that could have come, if anything is."""
        if not (options.extras and WordLevel.of(options.extras)):
            return scored
        from wordprob.scoring.word_entropy import with_word_level

        return with_word_level(
            scored,
            self,
            lambda text: choice.passages[text].rule or choice.definition,
            options.extras,
            options.max_open,
        )

    def _readers(self, options: ScoringOptions, choice: WordChoice) -> int:
        """Return how many processes read the texts; as many as pay, unless a number was chosen."""
        if options.readers is not None:
            return options.readers
        return useful_workers(self.model.batch_tokens, choice.n_characters)

    def _chunk_characters(self, workers: int) -> int:
        """Return how many characters a chunk has, about: no more than the model can keep the states of."""
        characters = CHARACTERS_PER_BATCH_TOKEN * self.model.batch_tokens // (4 if workers else 1)
        max_kept_tokens = self.capabilities.max_kept_tokens
        return characters if max_kept_tokens is None else min(characters, CHARACTERS_PER_TOKEN * max_kept_tokens)

    def _order(self, choice: WordChoice, chunk_characters: int) -> list[int] | None:
        """Return another order of texts that need several chunks, if the model saves work with it."""
        if choice.n_characters <= chunk_characters or not self.capabilities.shares_beginnings:
            return None
        return order_by_beginnings([passage.text for passage in choice.passages])

    def _chunks(
        self,
        choice: WordChoice,
        settings: BatchSettings,
        chunk_characters: int,
        limit: str | int | None = None,
    ) -> list[Chunk]:
        """Cut texts into chunks, large for a model that takes much at a time, and a text alone in one into sections."""
        if limit is not None:
            return limited_chunks(choice, parse_limit(limit), self.model.tokenizer, chunk_characters)
        chunks = []
        first_characters = max(chunk_characters // 16, FIRST_CHUNK_CHARACTERS)
        for chunk in cut_into_chunks(choice.passages, chunk_characters, first_characters):
            passage = chunk.passages[0]  # alone in its chunk, if it is long
            may_be_cut = passage.words is None and self.capabilities.predicts_next_token
            if may_be_cut and len(passage.text) > 2 * chunk_characters:
                tokenizer = self.model.tokenizer
                chunks += sections(passage, choice.definition, tokenizer, settings, chunk_characters)
            else:
                chunks.append(chunk)
        return chunks

    def _metadata(self, choice: WordChoice, options: ScoringOptions) -> dict[str, str]:
        vocabulary = self.model.tokenizer.vocabulary
        further = {} if options.max_context is None else {"max_context": str(parse_limit(options.max_context))}
        if options.spellings == "all":
            further |= {name: str(getattr(options, name)) for name in ("spellings", "tolerance", "max_open")}
        return {
            **self.model.metadata,
            "tokenizer": vocabulary.fingerprint,
            "words": choice.description,
            "estimator": "corrected" if self.capabilities.predicts_next_token else "pseudo",
            "start_token": "" if vocabulary.start is None else vocabulary.tokens[vocabulary.start],
            "end_tokens": " ".join(vocabulary.tokens[i] for i in vocabulary.ends),
            **further,
            "wordprob": __version__,
        }


def _are_given(words: object) -> TypeGuard[GivenWords]:
    """Return True for lists of words, which are checked against the texts."""
    return not isinstance(words, str) and isinstance(words, Sequence)


def _words(words: Words | None, options: ScoringOptions) -> Words:
    """Return the words of a call: as they are given, or by the rule of the options."""
    return words if _are_given(words) else options.words


def _by_name(words: object, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by name; ``words``, where it was specified, is one of them."""
    return {**options} if words is None else {"words": words, **options}
