"""Continuations of contexts: the whole texts, and which part of each is scored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import sub

from wordprob.core.text import Document
from wordprob.core.word_definition import LEFT_CONTEXT_CHARACTERS
from wordprob.errors import InputError, counted
from wordprob.models.protocol import Tokenizer
from wordprob.scoring.batching import MAX_TEXTS_PER_CHUNK, SHARED_CONTEXT_CHARACTERS, chunk_slices
from wordprob.scoring.documents import check_texts, with_ids
from wordprob.scoring.prepared_batch import BatchSettings, Chunk
from wordprob.scoring.shared_contexts import NO_HEAD, heads_of
from wordprob.scoring.word_choice import WordChoice


@dataclass(frozen=True)
class Continuations:
    """Continuations, each after its context.

    Attributes
    ----------
    whole
        The contexts with their continuations.
    alone
        The continuations, which the rows of a table are about.
    contexts
        What comes before each continuation, the separator included. Equal ones are one and the same string.
    """

    whole: list[Document]
    alone: list[Document]
    contexts: list[str]

    @cached_property
    def begins(self) -> list[int]:
        """Where in each whole text the continuation begins, in characters."""
        return list(map(len, self.contexts))

    def chunks(self, choice: WordChoice, tokenizer: Tokenizer, settings: BatchSettings) -> list[Chunk]:
        """Cut the texts into chunks, each text with its whole context, or with the end of it and the head as ids."""
        documents, begins = self.whole, self.begins
        heads = [NO_HEAD] * len(documents)
        if choice.given is None and choice.definition.local:
            texts = [document.text for document in self.whole]
            looks_back = getattr(choice.definition, "looks_back", LEFT_CONTEXT_CHARACTERS)
            heads = heads_of(texts, self.contexts, tokenizer, settings.max_text_tokens, looks_back)
            stops = [head.stop for head in heads]
            documents = [
                Document(document.id, document.text[stop:]) for document, stop in zip(self.whole, stops, strict=True)
            ]
            begins = list(map(sub, self.begins, stops))
        lengths = [len(document.text) for document in documents]
        return [
            Chunk(
                documents[part],
                **choice.of_part(part),
                context_lengths=begins[part],
                offset_origins=begins[part],
                source_documents=self.alone[part],
                shares_context=True,
                heads=[head.ids for head in heads[part]],
            )
            for part in chunk_slices(lengths, MAX_TEXTS_PER_CHUNK, SHARED_CONTEXT_CHARACTERS)
        ]


def continuations_of(
    contexts: str | Iterable[str],
    continuations: Iterable[str],
    ids: Sequence[int | str] | None,
    separator: str,
    crossed: bool,
) -> Continuations:
    """Put continuations after their contexts; parameters as for :meth:`wordprob.Scorer.score_continuations`."""
    befores, afters = pair_up(contexts, continuations, crossed)
    alone = with_ids(afters, ids)
    # Each context with the separator, if it needs one before what does not begin with white space.
    with_separator = {context: join_texts(context, "", separator)[0] for context in set(befores)}
    joined = [
        context if after[:1].isspace() else with_separator[context]
        for context, after in zip(befores, afters, strict=True)
    ]
    whole = [Document(document.id, context + document.text) for document, context in zip(alone, joined, strict=True)]
    return Continuations(whole, alone, joined)


def pair_up(
    contexts: str | Iterable[str], continuations: Iterable[str], crossed: bool = False
) -> tuple[list[str], list[str]]:
    """Return for each text its context and its continuation.

    Examples
    --------
    >>> pair_up("a", ["x", "y"])
    (['a', 'a'], ['x', 'y'])
    >>> pair_up(["a", "b"], ["x", "y"])
    (['a', 'b'], ['x', 'y'])
    >>> pair_up(["a", "b"], ["x", "y"], crossed=True)
    (['a', 'a', 'b', 'b'], ['x', 'y', 'x', 'y'])
    """
    afters = check_texts(continuations)
    befores = check_texts(contexts, "context")
    if isinstance(contexts, str) or crossed:
        return [before for before in befores for _ in afters], afters * len(befores)
    if len(befores) != len(afters):
        raise InputError(
            f"{counted(len(befores), 'context')} but {counted(len(afters), 'continuation')}; give one continuation "
            "for each context, or `crossed` to score every continuation after every context."
        )
    return befores, afters


def join_texts(context: str, continuation: str, separator: str) -> tuple[str, int]:
    """Return the whole text, and where the continuation begins in it."""
    head = context if has_space_between(context, continuation) else context + separator
    return head + continuation, len(head)


def has_space_between(context: str, continuation: str) -> bool:
    """Return True if there is white space between the two already, or nothing to put any after."""
    return not context or context[-1].isspace() or continuation[:1].isspace()
