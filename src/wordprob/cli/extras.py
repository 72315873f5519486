"""What commands need beyond the package itself."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from wordprob.errors import UnsupportedError


def check_installed(what: str, packages: Iterable[str], extra: str) -> None:
    """Raise, with what to type, unless these packages are installed; ``what`` needs them."""
    for name in packages:
        try:
            import_module(name)
        except ImportError as error:
            raise UnsupportedError(f"{what} {name}: pip install 'wordprob[{extra}]'") from error
