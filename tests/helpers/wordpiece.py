"""A small WordPiece tokenizer."""

from __future__ import annotations

import regex

from wordprob.core.vocabulary import all_spans, build_vocabulary


class WordPiece:
    """A WordPiece tokenizer: pieces that go on with a word begin with ``##``, and white space is dropped."""

    def __init__(self):
        pieces = ["[UNK]", "[START]", "[END]", *"shesawthemarkit.,(", "she", "saw", "the", "mark", "mar", "it"]
        pieces += ["##er", "##ed", *(f"##{c}" for c in "shesawthemarkit")]
        self._pieces = list(dict.fromkeys(pieces))
        self._ids = {piece: i for i, piece in enumerate(self._pieces)}
        self.vocabulary = build_vocabulary(
            self._pieces, self.ids, added={}, control={1, 2}, start=1, ends=[2], unknown=0
        )

    def ids(self, text):
        ids = []
        for word in regex.findall(r"\w+|[^\w\s]", text.lower()):
            rest = ""
            while word:
                size = next((n for n in range(len(word), 0, -1) if rest + word[:n] in self._ids), 0)
                ids.append(self._ids[rest + word[:size]] if size else 0)
                word, rest = word[size or len(word) :], "##"
        return ids

    def encode(self, texts):
        return all_spans(texts, [self.ids(text) for text in texts], self.vocabulary, None)

    def cut(self, text, place):
        return None
