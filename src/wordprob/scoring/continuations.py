"""Continuations of contexts: the whole texts, and which part of each is scored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from wordprob.core.arrays import Ints
from wordprob.core.text import Document
from wordprob.core.word_definition import LEFT_CONTEXT_CHARACTERS
from wordprob.errors import InputError, counted
from wordprob.models.protocol import Tokenizer
from wordprob.scoring.passages import Passage, WordChoice, check_texts, with_ids
from wordprob.scoring.shared_contexts import heads_of


class Continuations(NamedTuple):
    """Continuations, each after its context.

    Attributes
    ----------
    passages
        The contexts with their continuations; the rows of a table are about the continuations.
    contexts
        What comes before each continuation, the separator included. Equal ones are one and the same string.
    """

    passages: list[Passage]
    contexts: list[str]


def continuations_of(
    contexts: str | Iterable[str],
    continuations: Iterable[str],
    ids: Sequence[int | str] | None,
    separator: str,
    crossed: bool,
) -> Continuations:
    """Put continuations after their contexts; parameters as for :meth:`wordprob.Scorer.score_continuations`."""
    befores, afters = pair_up(contexts, continuations, crossed)
    # Each context with the separator, if it needs one before what does not begin with white space.
    with_separator = {context: join_texts(context, "", separator)[0] for context in set(befores)}
    joined = [
        context if after[:1].isspace() else with_separator[context]
        for context, after in zip(befores, afters, strict=True)
    ]
    passages = []
    for alone, context in zip(with_ids(afters, ids), joined, strict=True):
        begin = len(context)
        passages.append(Passage(Document(alone.id, context + alone.text), begin, origin=begin, source=alone))
    return Continuations(passages, joined)


def with_heads(
    choice: WordChoice, contexts: Sequence[str], tokenizer: Tokenizer, max_text_tokens: int | None
) -> list[Passage]:
    """Return continuations whose long contexts are heads, as far as their words can be found without them.

    Parameters
    ----------
    choice
        The words of the continuations.
    contexts
        What comes before each.
    tokenizer
        The model's tokenizer.
    max_text_tokens
        How many tokens of a text fit into the model's context.
    """
    passages = choice.passages
    if not choice.definition.local or any(passage.words is not None for passage in passages):
        return passages
    looks_back = getattr(choice.definition, "looks_back", LEFT_CONTEXT_CHARACTERS)
    texts = [passage.text for passage in passages]
    heads = heads_of(texts, contexts, tokenizer, max_text_tokens, looks_back)
    return [
        _with_head(passage, head.ids, head.stop) if head.stop else passage
        for passage, head in zip(passages, heads, strict=True)
    ]


def _with_head(passage: Passage, head: Ints, stop: int) -> Passage:
    """Return a passage without its first characters, of which the model reads the tokens instead."""
    return passage._replace(
        document=Document(passage.document.id, passage.text[stop:]),
        context_length=passage.context_length - stop,
        origin=passage.origin - stop,
        head=head,
    )


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
