"""A language small enough to know exactly: the judge of every estimator.

A finite language is a list of texts with their probabilities. Tokenise each text, and the probability of every subword
prefix is a sum over the texts still possible; so is the true probability of every word. Nothing is approximated, so an
estimator that is right returns the truth to rounding error, and one that is wrong does not.

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
from wordprob.core.vocabulary import Tokens, Vocabulary, all_spans, build_vocabulary
from wordprob.core.words import WordDefinition
from wordprob.errors import OptionError, did_you_mean
from wordprob.models.protocol import PrefixStates, Request, Scores

START, END_OF_TEXT = "<start>", "<end>"
"""Two control tokens, ids 0 and 1 of every toy vocabulary."""


# --- toy tokenisers ----------------------------------------------------------------------------------------------


class ToyTokenizer:
    """Cuts a text into chunks by a pattern, then each chunk greedily into its longest known pieces.

    Parameters
    ----------
    chunks
        A regular expression; its matches are tokenised one by one.
    lexicon
        The known pieces; every single character in them is added.
    prefix, suffix
        Put around every text: a space in front is SentencePiece's habit, one behind marks final words.
    """

    def __init__(self, chunks: str, lexicon: Sequence[str], prefix: str = "", suffix: str = "") -> None:
        characters = sorted({c for piece in lexicon for c in piece} | set(" .amrk"))
        pieces = [START, END_OF_TEXT, *dict.fromkeys([*lexicon, *characters])]
        self._chunks = regex.compile(chunks)
        self._prefix, self._suffix = prefix, suffix
        self._ids = {piece: i for i, piece in enumerate(pieces) if i > 1}
        self.vocabulary: Vocabulary = build_vocabulary(
            pieces, self.ids, added={i: p for p, i in self._ids.items()}, control={0, 1}, start=0, ends=[1]
        )

    def ids(self, text: str) -> list[int]:
        """Return the ids of a text; characters without a piece are skipped."""
        whole = self._prefix + text + self._suffix if text else ""
        return [i for chunk in self._chunks.findall(whole) for i in self._greedy(chunk)]

    def _greedy(self, chunk: str) -> Iterator[int]:
        at = 0
        while at < len(chunk):
            fit = next((n for n in range(len(chunk), at, -1) if chunk[at:n] in self._ids), None)
            if fit is not None:
                yield self._ids[chunk[at:fit]]
            at = fit or at + 1

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokenise each text, with byte spans."""
        return all_spans(texts, [self.ids(t) for t in texts], self.vocabulary, None)

    def cut(self, text: str, place: int) -> tuple[int, int] | None:
        """Its texts are short."""
        return None


STEMS = ("She", "saw", "the", "mark", "er", "ed", "'s", "?", ".")
BEGUN = (*STEMS, *(f" {stem}" for stem in STEMS[:4]))
ENDED = (*STEMS, *(f"{stem} " for stem in STEMS), "marked ")
FAMILIES: Mapping[str, Callable[[], ToyTokenizer]] = {
    "bow": lambda: ToyTokenizer(r" ?\w+|'s|[?.]|\s", BEGUN),
    "bow-marked": lambda: ToyTokenizer(r" ?\w+|'s|[?.]|\s", BEGUN, prefix=" "),
    "bow-joined": lambda: ToyTokenizer(r" ?\w+|'s|[?.]\n*|\s", (*BEGUN, "\n", ".\n", "?\n")),
    "eow": lambda: ToyTokenizer(r"\w+ ?|'s ?|[?.] ?|\s", ENDED, suffix=" "),
    "eow-unmarked": lambda: ToyTokenizer(r"\w+ ?|'s ?|[?.] ?|\s", ENDED),
}
"""Five families: a space goes into the token after it or before it, and at the ends of a text or not."""


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
"""The worked example of the paper as a bigram chain: what follows each word, the empty word being the end."""

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
    """Return every text of at most ``longest`` words, with its probability; the last word ends it for certain.

    With ``newline``, what is not attached to one of ``breaks`` comes after a line break instead of a space that often.
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
            share = newline if last in breaks else 0.0
            gaps = {"": 1.0} if not text or word in attached else {" ": 1.0 - share, "\n": share}
            for gap, part in gaps.items():
                if part:
                    grow(text + gap + word, word, count + 1, p * q * part)

    grow("", "", 0, 1.0)
    return texts


# --- the model ---------------------------------------------------------------------------------------------------


class ExactLM:
    """The exact subword model of a finite language under a tokeniser.

    Parameters
    ----------
    texts
        Probability of every text; they add up to one.
    tokenizer
        Any tokeniser that writes every text in its own way.
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

    @classmethod
    def bigram(cls, family: str = "bow", longest: int = 5) -> ExactLM:
        """Return the worked example under one of the tokeniser families."""
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
        found = np.zeros(self.vocab_size)
        key = tuple(int(i) for i in prefix)
        for i, p in self._next.get(key, {}).items():
            found[i] = p / self._mass[key]
        return found

    def next_logprobs(self, prefixes: Sequence[Sequence[int]]) -> Iterator[tuple[int, Floats]]:
        """Yield the log-distribution after each prefix."""
        with np.errstate(divide="ignore"):
            for n, prefix in enumerate(prefixes):
                yield n, np.log(self.distribution(prefix))

    def score(self, requests: Sequence[Request], atoms: Atoms) -> Iterator[tuple[int, Scores]]:
        """Yield log p of every next id, the log-mass of every atom, and what was asked for besides."""
        for n, request in enumerate(requests):
            ids = request.ids.tolist()
            rows = np.stack([self.distribution(ids[: j + 1]) for j in range(request.first, len(ids))])
            mass = np.zeros((len(rows), len(atoms.labels)))
            for k in range(len(atoms.labels)):
                mass[:, k] = rows[:, atoms.atom_of_token == k].sum(axis=1)
            with np.errstate(divide="ignore"):
                target = np.log([row[i] for row, i in zip(rows, ids[request.first + 1 :], strict=False)])
                pairs = zip((request.gather - request.first).tolist(), request.gather_lists.tolist(), strict=True)
                gathered = np.log([rows[j, request.id_lists[k]].sum() for j, k in pairs])
                looked = _look(rows, request) if request.statistics else {}
                yield n, Scores(np.asarray(target, dtype=np.float64), np.log(mass), gathered, looked)

    def open(
        self, requests: Sequence[Request], atoms: Atoms, states: PrefixStates | None = None
    ) -> Iterator[tuple[int, Scores]]:
        """Do as :meth:`score`: nothing is gained by keeping states."""
        return self.score(requests, atoms)

    # --- the truth, from strings alone ---

    def truth(self, text: str, definition: str) -> list[tuple[str, float]]:
        """Return each word of ``text`` with its true probability given the words before it."""
        found = words.define(definition).segment(text)
        reached = [self.prefix_probability(text[:0], definition)]
        reached += [self.prefix_probability(text[: w.end], definition) for w in found]
        return [(w.text, reached[i + 1] / reached[i]) for i, w in enumerate(found)]

    def end_truth(self, text: str, definition: str) -> float:
        """Return the true probability that ``text`` ends after its last word."""
        found = words.define(definition).segment(text)
        whole = self.texts.get(text, 0.0)
        return whole / self.prefix_probability(text[: found[-1].end] if found else "", definition)

    def prefix_probability(self, prefix: str, definition: str) -> float:
        """Return the probability of the texts that begin with ``prefix`` and have a word boundary at its end."""
        rule = words.define(definition)
        return math.fsum(p for t, p in self.texts.items() if t.startswith(prefix) and _ends_word(rule, t, len(prefix)))

    def followers(self, text: str, definition: str) -> dict[str, float]:
        """Return the true probability of everything that can come after the words of ``text``: words, or the end."""
        rule = words.define(definition)
        total = self.prefix_probability(text, definition)
        found: dict[str, float] = {}
        for other, p in self.texts.items():
            if other.startswith(text) and _ends_word(rule, other, len(text)):
                after = next((w for w in rule.segment(other) if w.start >= len(text)), None)
                key = other[len(text) : after.end] if after else END_OF_TEXT
                found[key] = found.get(key, 0.0) + p / total
        return found


def _look(rows: Floats, request: Request) -> dict[str, Floats]:
    """Return the entropy at the rows to be inspected, and the rank of the id that came there."""
    entropy, rank = [], []
    for j in request.statistics_rows.tolist():
        row = rows[j - request.first]
        entropy.append(0.0 - float(np.sum(row[row > 0] * np.log(row[row > 0]))))
        rank.append(1.0 + float(np.sum(row > row[request.ids[j + 1]])))
    found = {"entropy": np.array(entropy), "rank": np.array(rank)}
    return {name: found[name] for name in request.statistics}


def _ends_word(rule: WordDefinition, text: str, at: int) -> bool:
    return at in (0, len(text)) or any(w.end == at for w in rule.segment(text))


def open_exact(family: str, **_: object) -> ExactLM:
    """Open the worked example under a tokeniser family; there is nothing to choose but that."""
    return ExactLM.bigram(family)
