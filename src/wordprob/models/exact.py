"""Language models whose truth is known, with which every estimator is checked: the backend ``exact``.

A finite language is a list of texts with their probabilities. When each text is tokenized, the probability of every
sequence of tokens is a sum over the texts that begin with it; so is the true probability of every word. Nothing is
approximated, so an estimator that is correct returns the truth to rounding error, and one that is wrong does not.
:class:`LeakyLM` is the judge of searches: every spelling of a word has some probability in it.

>>> lm = ExactLM.bigram("bow")
>>> [(w, round(p, 3)) for w, p in lm.truth("She saw the mark.", "whitespace")]
[('She', 0.42), ('saw', 0.657), ('the', 0.6), ('mark.', 0.06)]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import regex

from wordprob.core import words
from wordprob.core.arrays import Floats
from wordprob.core.atoms import Atoms
from wordprob.core.characters import is_white_space
from wordprob.core.vocabulary import Tokens, Vocabulary, all_spans, build_vocabulary
from wordprob.core.word_definition import WordDefinition
from wordprob.errors import OptionError, did_you_mean
from wordprob.models.protocol import STATISTICS, PrefixStates, Request, Scores, scores_from_logits
from wordprob.options import ModelOptions

# --- a tokenizer ------------------------------------------------------------------------------------------------------

START_ID = 0

START, END_OF_TEXT = "<start>", "<end>"
"""Two control tokens, ids 0 and 1 of every toy vocabulary."""


class ToyTokenizer:
    """Splits a text into chunks by a pattern, and each chunk from left to right into its longest known pieces.

    Parameters
    ----------
    chunks
        A regular expression; its matches are tokenized one by one.
    lexicon
        The known pieces; every single character in them is added.
    prefix, suffix
        Put before and after every text: SentencePiece puts a space in front, and a space at the end marks the last
        word as a final one.
    """

    def __init__(self, chunks: str, lexicon: Sequence[str], prefix: str = "", suffix: str = "") -> None:
        characters = sorted({c for piece in lexicon for c in piece} | set(" .amrk"))
        pieces = [START, END_OF_TEXT, *dict.fromkeys([*lexicon, *characters])]
        self._chunks = regex.compile(chunks)
        self._prefix, self._suffix = prefix, suffix
        self._ids = {piece: i for i, piece in enumerate(pieces) if i > 1}
        self._longest_piece = max(map(len, self._ids))
        self.vocabulary: Vocabulary = build_vocabulary(
            pieces, self.ids, added={i: p for p, i in self._ids.items()}, control={0, 1}, start=0, ends=[1]
        )

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text; characters without a piece are skipped."""
        whole = self._prefix + text + self._suffix if text else ""
        return [i for chunk in self._chunks.findall(whole) for i in self._greedy(chunk)]

    def _greedy(self, chunk: str) -> Iterator[int]:
        begin = 0
        while begin < len(chunk):
            longest = min(len(chunk), begin + self._longest_piece)
            end = next((end for end in range(longest, begin, -1) if chunk[begin:end] in self._ids), None)
            if end is None:
                begin += 1  # a character without a piece
            else:
                yield self._ids[chunk[begin:end]]
                begin = end

    def encode(self, texts: Sequence[str]) -> Sequence[Tokens]:
        """Tokenize each text, with byte spans."""
        return all_spans(texts, [self.ids(t) for t in texts], self.vocabulary, None)

    def cut(self, text: str, place: int) -> tuple[int, int] | None:
        """Return None: the texts of a toy are short and need not be cut."""
        return None


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


# --- toy languages ----------------------------------------------------------------------------------------------------

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


# --- the exact model of a finite language -----------------------------------------------------------------------------


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


# --- a model that leaks -----------------------------------------------------------------------------------------------

OVERLAPPING_PIECES = (
    " mark",
    " ma",
    "mark",
    "ma",
    "ark",
    "rk",
    "er",
    "ed",
    "ke",
    " m",
    "r.",
    "..",
    "'s",
    " the",
    "th",
    "he",
    ". ",
)
OVERLAPPING_CHUNKS = r" ?\w+|'s|'|[.]+|\s"


class LeakyLM:
    """A token bigram with random weights, and tokens that overlap: it leaks onto every spelling.

    Any sequence of its tokens has some probability, whatever the tokenizer would have written. As a token depends on
    the one before it only, the mass on all spellings of a word is a short dynamic programme over the place in the text
    and the last token, which :meth:`truth` is. It judges the search for every spelling.

    Parameters
    ----------
    tokenizer
        Its own spelling of a text is one of many that have probability.
    seed
        Of the random weights.
    spread
        Standard deviation of the logits.

    Examples
    --------
    >>> import wordprob
    >>> scorer = wordprob.Scorer(LeakyLM())
    >>> table = scorer.score("the marker", spellings="all", tolerance=1e-9, max_open=10_000, unit="nats")
    >>> found = table.to_pandas()["surprisal_all"]
    >>> [bool(abs(np.exp(-s) - p) < 1e-9) for s, (_, p) in zip(found, LeakyLM().truth("the marker", "whitespace"))]
    [True, True]
    """

    max_tokens: int | None = None
    batch_tokens = 4096

    def __init__(self, tokenizer: ToyTokenizer | None = None, seed: int = 1, spread: float = 1.5) -> None:
        self.tokenizer = ToyTokenizer(OVERLAPPING_CHUNKS, OVERLAPPING_PIECES) if tokenizer is None else tokenizer
        self.vocab_size = self.tokenizer.vocabulary.size
        self.metadata = {"model": "exact:leaky", "revision": "", "dtype": "float64"}
        self._logits = np.random.default_rng(seed).normal(0.0, spread, (self.vocab_size, self.vocab_size))
        self._logits[:, START_ID] = -np.inf

    def distribution(self, last: int) -> Floats:
        """Return p(next id) after an id."""
        weights = np.exp(self._logits[last])
        probabilities: Floats = weights / weights.sum()
        return probabilities

    def score(self, requests: Sequence[Request], atoms: Atoms) -> Iterator[tuple[int, Scores]]:
        """Yield the scores of requests."""
        for n, request in enumerate(requests):
            yield n, scores_from_logits(self._logits[request.ids[request.first :]], request, atoms)

    def open(
        self, requests: Sequence[Request], atoms: Atoms, states: PrefixStates | None = None
    ) -> Iterator[tuple[int, Scores]]:
        """Return the same as :meth:`score`: keeping states would save nothing."""
        return self.score(requests, atoms)

    # --- the truth ---

    def truth(self, text: str, definition: str) -> list[tuple[str, float]]:
        """Return each word of a text with its probability in every spelling, given the words before it as they stand.

        This holds for tokenizers that write the words before a word in one way only, whatever follows them.
        """
        found = []
        place = 0
        for word in words.define(definition).segment(text):
            last = [START_ID, *self.tokenizer.ids(text[:place])][-1]
            reached = self.boundary_mass(text[:place], last, definition, text[:1])
            found.append((word.text, self._mass(text, place, word.end, last, definition) / reached))
            place = word.end
        return found

    def _mass(self, text: str, place: int, end: int, last: int, definition: str) -> float:
        """Return the mass of all token sequences after ``last`` that write ``text[place:end]`` and end it there."""
        masses: list[dict[int, float]] = [{} for _ in range(end - place + 1)]
        masses[0][last] = 1.0
        total = 0.0
        for written, alive in enumerate(masses):
            rest = text[place + written : end]
            for previous, mass in alive.items():
                if not rest:
                    total += mass * self.boundary_mass(text[:end], previous, definition, "")
                    continue
                probabilities = self.distribution(previous)
                for token, piece in self._pieces():
                    p = mass * float(probabilities[token])
                    if rest.startswith(piece):
                        following = masses[written + len(piece)]
                        following[token] = following.get(token, 0.0) + p
                    elif piece.startswith(rest) and self._ends(text[:end], piece[len(rest) :], definition):
                        total += p
        return total

    def boundary_mass(self, text: str, last: int, definition: str, opening: str) -> float:
        """Return the mass of what may follow a text: the end, or something that ends its last word.

        At the start of a text, what counts is whether it begins with white space, as ``opening`` does.
        """
        probabilities = self.distribution(last)
        spaced = is_white_space(opening)
        total = 0.0
        for token, piece in self._pieces():
            fits = self._ends(text, piece, definition) if text else is_white_space(piece[0]) == spaced
            total += float(probabilities[token]) if fits else 0.0
        return total if spaced and not text else total + float(probabilities[self.tokenizer.vocabulary.ends[0]])

    def _pieces(self) -> Iterator[tuple[int, str]]:
        for token, piece in enumerate(self.tokenizer.vocabulary.token_bytes):
            if piece:
                yield token, piece.decode()

    @staticmethod
    def _ends(text: str, rest: str, definition: str) -> bool:
        return any(word.end == len(text) for word in words.define(definition).segment(text + rest))


# --- the backend's functions (see wordprob.models.registry) -----------------------------------------------------------


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
