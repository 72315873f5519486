"""An open model with what is prepared for it, and the path of a text from its characters to its surprisals.

:func:`score_chunk` is the whole path, one step after the other.
"""

from __future__ import annotations

from collections.abc import Callable

from wordprob.core.bounded_cache import BoundedCache
from wordprob.core.word_definition import WordDefinition
from wordprob.models.protocol import Capabilities, LanguageModel, PrefixStates, capabilities_of
from wordprob.options import ScoringOptions
from wordprob.processes import Channel
from wordprob.scoring.all_spellings import sum_all_spellings
from wordprob.scoring.beyond_texts import ask_beyond_texts
from wordprob.scoring.capability_checks import check_model_can_score
from wordprob.scoring.collect import CollectedScores
from wordprob.scoring.estimate import estimate_batch
from wordprob.scoring.passages import Chunk
from wordprob.scoring.prepare import TextPreparer
from wordprob.scoring.prepared_batch import BatchSettings, PreparedBatch
from wordprob.scoring.requests import ask_along_texts, states_for
from wordprob.scoring.worker_pool import RemoteModel, WorkerSetup, without_documents
from wordprob.tables.schema import BatchScores

CACHED_PREPARERS = 8
"""Word definitions that are kept ready."""


def score_chunk(
    model: LanguageModel,
    preparer: TextPreparer,
    chunk: Chunk,
    settings: BatchSettings,
    states: PrefixStates | None = None,
    text_done: Callable[[int], None] | None = None,
) -> BatchScores:
    """Score some texts: the sequential path. ``text_done`` is called with the number of texts done so far."""
    states = states_for(model, chunk, settings, states)
    prepared, collected = collect_chunk(model, preparer, chunk, settings, states, text_done)
    sums = None
    if settings.search is not None:  # every other spelling
        sums = sum_all_spellings(model, preparer.atoms, prepared, collected, states)
    return estimate_batch(prepared, collected, sums)  # the equation


def collect_chunk(
    model: LanguageModel,
    preparer: TextPreparer,
    chunk: Chunk,
    settings: BatchSettings,
    states: PrefixStates | None,
    text_done: Callable[[int], None] | None = None,
) -> tuple[PreparedBatch, CollectedScores]:
    """Ask the model everything about some texts that their words need in the tokenizer's own spellings."""
    prepared = preparer.prepare(chunk, settings)  # texts → words → tokens → alignment → own spellings → windows
    collected = CollectedScores.empty(prepared)
    # The model, along the texts.
    for answers in ask_along_texts(model, preparer.atoms, prepared, states=states, text_done=text_done):
        collected.add(prepared, answers)
    # Where other spellings leave them, and where characters are cut off.
    ask_beyond_texts(model, preparer.atoms, preparer.events, prepared, collected, states)
    return prepared, collected


def score_for_parent(channel: Channel) -> None:
    """Score the chunks that come over a channel, until it is closed: what a worker process does."""
    setup: WorkerSetup = channel.receive()
    model = RemoteModel(channel, setup)
    states = PrefixStates()
    while True:
        chunk: Chunk | WorkerSetup = channel.receive()
        if isinstance(chunk, WorkerSetup):
            setup, model, states = chunk, RemoteModel(channel, chunk), PrefixStates()
            continue
        result: BatchScores | Exception
        try:
            result = without_documents(score_chunk(model, setup.preparer, chunk, setup.settings, states))
        except (EOFError, OSError):
            raise
        except Exception as error:  # raised again in the process that started this one
            result = error
        channel.send(result)


class OpenModel:
    """A language model, the options that calls have by default, and what was prepared for word definitions.

    Parameters
    ----------
    model
        The model.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.options = ScoringOptions()
        self._preparers: BoundedCache[TextPreparer] = BoundedCache(CACHED_PREPARERS)

    @property
    def capabilities(self) -> Capabilities:
        """What the model can do."""
        return capabilities_of(self.model)

    def preparer(self, definition: WordDefinition) -> TextPreparer:
        """Return what prepares texts under a word definition; the last few are kept."""
        preparer = self._preparers.get(
            definition, lambda: TextPreparer(self.model.tokenizer, self.model.vocab_size, definition)
        )
        if self.capabilities.may_change:
            preparer.events.known_starts.clear()
        return preparer

    def forget_starts(self) -> None:
        """Forget what is remembered of the starts of texts, so that values depend on no earlier call, to the last bit.

        It is computed with the first texts of a call, and rounding depends on what else is in a batch.
        """
        for preparer in self._preparers.values():
            preparer.events.known_starts.clear()

    @property
    def cached_definitions(self) -> int:
        """How many word definitions are kept ready."""
        return len(self._preparers)

    def settings(self, options: ScoringOptions) -> BatchSettings:
        """Return what the numbers of a batch depend on, with these options and this model."""
        check_model_can_score(self.capabilities, options, type(self.model).__name__)
        return BatchSettings.of(self.model, options)
