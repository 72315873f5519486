"""Word segmenters for scripts without spaces, each an optional package: ``--words jieba``, ``--words mecab``.

Another one is one function and one line: see :func:`wordprob.core.words.register_definition`.
"""

from __future__ import annotations

import logging
from importlib import import_module
from types import ModuleType

from wordprob.core.span_words import Segmenter
from wordprob.errors import OptionError


def jieba() -> Segmenter:
    """Return Chinese words as the package jieba cuts them."""
    package = _package("jieba", "jieba", "chinese")
    package.setLogLevel(logging.WARNING)
    return Segmenter("jieba", package.lcut)


def mecab() -> Segmenter:
    """Return Japanese words as MeCab cuts them, with the package fugashi and a dictionary of its own."""
    tagger = _package("fugashi", "mecab", "japanese").Tagger()
    return Segmenter("mecab", lambda text: [word.surface for word in tagger(text)])


def _package(name: str, words: str, extra: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError:
        raise OptionError(f"'{words}' needs the package {name}: pip install 'wordprob[{extra}]'.") from None
