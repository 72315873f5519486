"""The published shapes of Pythia, for models of random weights."""

from __future__ import annotations

SHAPES = {
    # hidden size, layers, heads, feed-forward size
    "pythia-70m": (512, 6, 8, 2048),
    "pythia-160m": (768, 12, 12, 3072),
    "pythia-1.4b": (2048, 24, 16, 8192),
    "pythia-6.9b": (4096, 32, 32, 16384),
}
VOCABULARY = 50304
