"""Language models behind one protocol, opened by name."""

from wordprob.models.catalogue import CATALOGUE, CatalogueEntry
from wordprob.models.registry import BACKENDS, open_model, open_tokenizer, register_backend, resolve

__all__ = ["BACKENDS", "CATALOGUE", "CatalogueEntry", "open_model", "open_tokenizer", "register_backend", "resolve"]
