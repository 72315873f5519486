"""Language models that are small enough to be exact, with which every estimator is checked.

A finite language is a list of texts with their probabilities. When each text is tokenized, the probability of every
sequence of tokens is a sum over the texts that begin with it; so is the true probability of every word. Nothing is
approximated, so an estimator that is correct returns the truth to rounding error, and one that is wrong does not.

>>> lm = ExactLM.bigram("bow")
>>> [(w, round(p, 3)) for w, p in lm.truth("She saw the mark.", "whitespace")]
[('She', 0.42), ('saw', 0.657), ('the', 0.6), ('mark.', 0.06)]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from wordprob.core import words
from wordprob.core.arrays import Floats
from wordprob.core.atoms import Atoms
from wordprob.core.word_definition import WordDefinition
from wordprob.errors import OptionError, did_you_mean
from wordprob.models.leaky import LeakyLM
from wordprob.models.protocol import STATISTICS, PrefixStates, Request, Scores
from wordprob.models.toy_tokenizer import END_OF_TEXT, ToyTokenizer
from wordprob.options import ModelOptions

STEMS = ("She", "saw", "the", "mark", "er", "ed", "'s", "?", ".")
WORD_INITIAL_PIECES = (*STEMS, *(f" {stem}" for stem in STEMS[:4]))
WORD_FINAL_PIECES = (*STEMS, *(f"{stem} " for stem in STEMS), "marked ")
FAMILIES: Mapping[str, Callable[[], ToyTokenizer]] = {
    "bow": lambda: ToyTokenizer(r" ?\w+|'s|[?.]|\s", WORD_INITIAL_PIECES),
    "bow-marked": lambda: ToyTokenizer(r" ?\w+|'s|[?.]|\s", WORD_INITIAL_PIECES, prefix=" "),
    "bow-joined": lambda: ToyTokenizer(r" ?\w+|'s|[?.]\n*|\s", (*WORD_INITIAL_PIECES, "\n", ".\n", "?\n")),
    "eow": lambda: ToyTokenizer(r"\w+ ?|'s ?|[?.] ?|\s", WORD_FINAL_PIECES, suffix=" "),
    "eow-unmarked": lambda: ToyTokenizer(r"\w+ ?|'s ?|[?.] ?|\s", WORD_FINAL_PIECES),
}
"""Five families: a space belongs to the token after it or before it, and is added at an end of the text or not."""


# --- toy languages -----------------------------------------------------------------------------------------------

Chain = Mapping[str, Mapping[str, float]]

CHAIN: Chain = {
    "": {"She": 0.6, "the": 0.25, "saw": 0.1, "": 0.05},
    "She": {"saw": 0.46, "mark": 0.14, "'s": 0.2, ".": 0.1, "marked": 0.1},
    "saw": {"the": 0.6, "She": 0.3, "mark": 0.1},
    "the": {"mark": 0.4, "marker": 0.35, "marked": 0.25},
    "mark": {".": 0.15, "?": 0.2, "": 0.15, "'s": 0.1, "saw": 0.25, "the": 0.15},
    "marker": {".": 0.5, "She": 0.3, "": 0.2},
    "marked": {"the": 0.3, "?": 0.5, "mark": 0.2},
    "'s": {"mark": 0.5, "marker": 0.3, "?": 0.2},
    ".": {"": 0.55, "She": 0.45},
    "?": {"": 0.7, "the": 0.3},
}
"""The worked example of the paper as a bigram chain: what follows each word; the empty word is the end."""

ATTACHED = frozenset({"'s", ".", "?"})
"""Words written without a space before them."""

BREAKS = frozenset({".", "?"})
"""Words after which a line may break."""


def enumerate_texts(
    chain: Chain,
    longest: int,
    newline: float = 0.0,
    attached: frozenset[str] = ATTACHED,
    breaks: frozenset[str] = BREAKS,
) -> dict[str, float]:
    """Return every text of at most ``longest`` words, with its probability; a text of that many words ends there.

    ``newline`` is the probability that a word that follows one of ``breaks`` with a gap comes after a line break and
    not after a space.
    """
    texts: dict[str, float] = {}

    def grow(text: str, last: str, count: int, p: float) -> None:
        if count == longest:
            texts[text] = texts.get(text, 0.0) + p
            return
        for word, q in chain[last].items():
            if not word:
                texts[text] = texts.get(text, 0.0) + p * q
                continue
            line_break = newline if last in breaks else 0.0
            gaps = {"": 1.0} if not text or word in attached else {" ": 1.0 - line_break, "\n": line_break}
            for gap, gap_probability in gaps.items():
                if gap_probability:
                    grow(text + gap + word, word, count + 1, p * q * gap_probability)

    grow("", "", 0, 1.0)
    return texts


# --- the model ---------------------------------------------------------------------------------------------------


class ExactLM:
    """The exact subword model of a finite language under a tokenizer.

    Parameters
    ----------
    texts
        Probability of every text; they add up to one.
    tokenizer
        Its ids of a text are the only token sequence that has the text's probability.
    """

    max_tokens: int | None = None
    batch_tokens = 4096

    def __init__(self, texts: Mapping[str, float], tokenizer: ToyTokenizer, name: str = "exact") -> None:
        self.texts = dict(texts)
        self.tokenizer = tokenizer
        self.vocab_size = tokenizer.vocabulary.size
        self.metadata = {"model": name, "revision": "", "dtype": "float64"}
        self._mass: dict[tuple[int, ...], float] = {}
        self._next: dict[tuple[int, ...], dict[int, float]] = {}
        for text, p in self.texts.items():
            self._add((0, *tokenizer.ids(text), 1), p)
        self._longest_prefix = max(map(len, self._mass), default=0)

    @classmethod
    def bigram(cls, family: str = "bow", longest: int = 5) -> ExactLM:
        """Return the worked example under one of the tokenizer families."""
        if family not in FAMILIES:
            raise OptionError(f"no toy tokeniser is called '{family}'. {did_you_mean(family, FAMILIES)}")
        texts = enumerate_texts(CHAIN, longest, newline=0.4 if family == "bow-joined" else 0.0)
        return cls(texts, FAMILIES[family](), name=f"exact:{family}")

    def _add(self, ids: tuple[int, ...], p: float) -> None:
        for n in range(1, len(ids)):
            prefix = ids[:n]
            self._mass[prefix] = self._mass.get(prefix, 0.0) + p
            following = self._next.setdefault(prefix, {})
            following[ids[n]] = following.get(ids[n], 0.0) + p

    def distribution(self, prefix: Sequence[int]) -> Floats:
        """Return p(next id | prefix); all zero after a prefix that no text has."""
        probabilities = np.zeros(self.vocab_size)
        if len(prefix) > self._longest_prefix:
            return probabilities
        key = tuple(int(i) for i in prefix)
        for i, p in self._next.get(key, {}).items():
            probabilities[i] = p / self._mass[key]
        return probabilities

    def score(self, requests: Sequence[Request], atoms: Atoms) -> Iterator[tuple[int, Scores]]:
        """Yield log p of every next id, the log-mass of every atom, and whatever else a request asks for.

        Probabilities are summed before their logarithm is taken, so that the sums are exact to rounding error.
        """
        members = np.eye(len(atoms.labels))[atoms.atom_of_token]
        for index, request in enumerate(requests):
            ids = request.ids.tolist()
            # One id more than the longest prefix of the language is enough to see that no text has it.
            lengths = [min(j + 1, self._longest_prefix + 1) for j in range(request.first, len(ids))]
            rows = np.stack([self.distribution(ids[:length]) for length in lengths])
            next_ids = ids[request.first + 1 :]
            target = [row[i] for row, i in zip(rows[:-1], next_ids, strict=True)]
            gather_rows = (request.gather - request.first).tolist()
            listed = [request.id_lists[number] for number in request.gather_lists.tolist()]
            gathered = [rows[j, chosen].sum() for j, chosen in zip(gather_rows, listed, strict=True)]
            with np.errstate(divide="ignore"):
                yield (
                    index,
                    Scores(
                        target=np.log(np.array(target, dtype=np.float64)),
                        mass=np.log(rows @ members),
                        gathered=np.log(np.array(gathered, dtype=np.float64)),
                        statistics={name: _statistic(name, rows, request) for name in request.statistics},
                    ),
                )

    def open(
        self, requests: Sequence[Request], atoms: Atoms, states: PrefixStates | None = None
    ) -> Iterator[tuple[int, Scores]]:
        """Return the same as :meth:`score`: keeping states would save nothing."""
        return self.score(requests, atoms)

    # --- the truth, from strings alone ---

    def truth(self, text: str, definition: str) -> list[tuple[str, float]]:
        """Return each word of ``text`` with its true probability given the words before it."""
        segments = words.define(definition).segment(text)
        reached = [self.start_probability(text)]
        reached += [self.prefix_probability(text[: word.end], definition) for word in segments]
        return [(word.text, reached[i + 1] / reached[i]) for i, word in enumerate(segments)]

    def span_truth(self, text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[str, float]]:
        """Return each span of ``text`` with the true probability that the text goes on in this way."""
        reached = [self.start_probability(text), *(self.prefix_probability(text[:end]) for _, end in spans)]
        return [(text[a:b], reached[i + 1] / reached[i]) for i, (a, b) in enumerate(spans)]

    def start_probability(self, text: str) -> float:
        """Return the probability of the texts that begin as ``text`` does: with white space, or without."""
        spaced = text[:1].isspace()
        return math.fsum(p for t, p in self.texts.items() if t[:1].isspace() == spaced)

    def prefix_probability(self, prefix: str, definition: str | None = None) -> float:
        """Return the probability of the texts that begin with ``prefix``.

        With a definition, only those count that have a word boundary at its end.
        """
        return math.fsum(p for _, p in self._beginning_with(prefix, definition))

    def followers(self, text: str, definition: str | None) -> dict[str, float]:
        """Return the true probability of everything that can come after the words of ``text``: words, or the end.

        Without a definition, what can come next are single characters. The empty text stands for the start of texts
        that begin without white space; white space alone for the start of those that begin with it, where the first
        word includes it.
        """
        place = len(text) if text.strip() else 0
        at_start = [(t, p) for t, p in self.texts.items() if t[:1].isspace() == text[:1].isspace()]
        possible = self._beginning_with(text, definition) if place else at_start
        total = math.fsum(p for _, p in possible)
        probabilities: dict[str, float] = {}
        for other, p in possible:
            key = other[place : _next_end(other, place, definition)] or END_OF_TEXT
            probabilities[key] = probabilities.get(key, 0.0) + p / total
        return probabilities

    def _beginning_with(self, prefix: str, definition: str | None) -> list[tuple[str, float]]:
        """Return the texts that begin with ``prefix`` and, with a definition, have a word boundary at its end."""
        rule = words.define(definition) if definition else None
        found = [(text, p) for text, p in self.texts.items() if text.startswith(prefix)]
        return [(text, p) for text, p in found if rule is None or _ends_word(rule, text, len(prefix))]


def _statistic(name: str, rows: Floats, request: Request) -> Floats:
    """Return a statistic of the distributions at the rows where a request wants it; ``rows`` are probabilities."""
    chosen = rows[request.statistics_rows - request.first]
    next_ids = request.next_ids(request.statistics_rows)
    if name == "entropy":
        return np.array([0.0 - float(np.sum(row[row > 0] * np.log(row[row > 0]))) for row in chosen])
    if name == "rank":
        return np.array([1.0 + float(np.sum(row > row[i])) for row, i in zip(chosen, next_ids, strict=True)])
    with np.errstate(divide="ignore"):
        return STATISTICS[name](np.log(chosen), next_ids)


def _next_end(text: str, place: int, definition: str | None) -> int:
    """Return where the next word ends, or the next character without a definition; ``place`` if there is none."""
    if definition is None:
        return min(place + 1, len(text))
    return next((word.end for word in words.define(definition).segment(text) if word.start >= place), place)


def _ends_word(rule: WordDefinition, text: str, at: int) -> bool:
    return at in (0, len(text)) or any(w.end == at for w in rule.segment(text))


# --- the backend's functions (see wordprob.models.registry) ----------------------------------------------------------


LEAKY = "leaky"


def load(source: str, _options: ModelOptions) -> ExactLM | LeakyLM:
    """Open the worked example under a tokenizer family, or the model that leaks; no other option applies to it."""
    return LeakyLM() if source == LEAKY else ExactLM.bigram(source)


def load_tokenizer(source: str, _options: ModelOptions) -> ToyTokenizer:
    """Open the tokenizer of a family."""
    return LeakyLM().tokenizer if source == LEAKY else ExactLM.bigram(source, longest=1).tokenizer


def describe(_source: str, _options: ModelOptions) -> dict[str, str]:
    """Return nothing: the family says it all."""
    return {}
