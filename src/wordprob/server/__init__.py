"""A local web page and a JSON route that score texts: texts in, words with their surprisal out.

>>> from wordprob.server import serve
>>> serve(["smollm2-135m"], port=8517)  # doctest: +SKIP
"""

from wordprob.server.serving import ServerSettings, create_app, serve

__all__ = ["ServerSettings", "create_app", "serve"]
