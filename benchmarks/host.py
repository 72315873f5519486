"""What preparing texts costs besides the tokenizer: words, alignment, spellings and table.

    python benchmarks/host.py TEXTS TOKENIZER [TOKENIZER …] [--output results.csv] [--readers 2]

TEXTS has one text on each line. The model's scores are constants, so that only the host is timed, all on one core. The
limit is the time of the tokenizer alone on the same texts. With --readers, the process that runs the model is timed
too, while that many other processes prepare the texts.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy as np
import record

from wordprob.core.arrays import cumulative_offsets
from wordprob.core.characters import is_cut_off
from wordprob.models.batching import pack
from wordprob.models.registry import open_tokenizer
from wordprob.models.request_arrays import RequestArrays, ScoreArrays, ScoreBatches
from wordprob.scoring.scorer import Scorer

LOG_MASS_OF_CUT_OFF_CHARACTERS = -30.0
BATCH_ROWS = 1 << 15


class ConstantModel:
    """A model that takes no time: every request has the same scores.

    As with a model of English, tokens that cut a character off are too improbable to be read on.
    """

    metadata = {"model": "none"}  # noqa: RUF012
    max_tokens = 2048
    batch_tokens = 4096

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.vocab_size = tokenizer.vocabulary.size
        self._known = None
        self.cuts_off = [ends_within_character(piece) for piece in tokenizer.vocabulary.token_bytes]

    def score(self, requests, atoms):
        """Answer in arrays, some rows at a time, as models do that run many texts together."""
        return ScoreBatches(self._batches(RequestArrays.of(requests), atoms))

    def _batches(self, requests, atoms):
        mass, target = self._constants(atoms)
        cuts_off = np.array([len(ids) == 1 and self.cuts_off[ids[0]] for ids in requests.id_lists], dtype=bool)
        gathered = np.where(cuts_off, LOG_MASS_OF_CUT_OFF_CHARACTERS, -9.0)
        for numbers in pack(requests.row_counts.tolist(), BATCH_ROWS):
            part = slice(numbers[0], numbers[-1] + 1)
            offsets = cumulative_offsets(requests.row_counts[part])
            gather = requests.gather_offsets[part.start : part.stop + 1]
            yield ScoreArrays(
                numbers=np.arange(part.start, part.stop),
                offsets=offsets,
                target=target[: offsets[-1] - len(numbers)],
                mass=mass[: offsets[-1]],
                gathered=gathered[requests.gather_lists[gather[0] : gather[-1]]],
                gather_offsets=gather - gather[0],
                statistics={},
                statistics_offsets=np.zeros(len(numbers) + 1, dtype=np.int64),
                statistics_names=requests.statistics[part],
            )

    def _constants(self, atoms):
        """Return the masses and the targets of a batch, which are made once."""
        if self._known is None or self._known[0] is not atoms:
            mass = np.full((BATCH_ROWS + self.max_tokens, len(atoms.labels)), -np.log(len(atoms.labels)), np.float32)
            mass[:, [label in atoms.possible for label in atoms.labels]] = LOG_MASS_OF_CUT_OFF_CHARACTERS
            self._known = atoms, mass, np.full(len(mass), -3.0)
        return self._known[1:]

    def open(self, requests, atoms, states=None):
        return self.score(requests, atoms)


def ends_within_character(piece):
    return any(is_cut_off(piece[-back:]) for back in (1, 2, 3))


def measure(source, texts, words, readers, repeats=5):
    tokenizer = open_tokenizer(source)
    backend, scorer = tokenizer.backend, Scorer(ConstantModel(tokenizer))
    count = sum(len(t.ids) for t in tokenizer.encode(texts))
    scorer.score(texts[: len(texts) // 2], words)
    alone, whole, left = [], [], []
    for _ in range(repeats):
        alone.append(record.cpu_seconds(lambda: backend.encode_batch(texts, add_special_tokens=False)))
        whole.append(record.cpu_seconds(lambda: scorer.score(texts, words)))
        if readers:
            left.append(record.cpu_seconds(lambda: scorer.score(texts, words, readers=readers)))
    return {
        "tokenizer": Path(source).name,
        "words": words,
        "texts": len(texts),
        "tokens": count,
        "tokenise_s": round(min(alone), 4),
        "host_s": round(min(whole), 4),
        "ratio_to_limit": round(min(whole) / min(alone), 2),
        "tokens_per_s": round(count / min(whole)),
        "readers": readers,
        "left_us_per_token": round(min(left) / count * 1e6, 3) if left else "",
        **record.surroundings(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts")
    parser.add_argument("tokenizers", nargs="+")
    parser.add_argument("--output", default=None)
    parser.add_argument("--readers", type=int, default=0)
    options = parser.parse_args()
    texts = [line for line in Path(options.texts).read_text(encoding="utf-8").split("\n") if line.strip()]
    rows = []
    for source in options.tokenizers:
        for words in ("whitespace", "punctuation"):
            rows.append({"file": Path(options.texts).name, **measure(source, texts, words, options.readers)})
            print(rows[-1], flush=True)
    if options.output:
        record.save(rows, options.output)


if __name__ == "__main__":
    main()
