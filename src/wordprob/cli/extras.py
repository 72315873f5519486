"""Packages that some commands need and that are not installed with wordprob itself."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from wordprob.errors import UnsupportedError


def check_installed(purpose: str, packages: Iterable[str], extra: str) -> None:
    """Raise unless packages are installed.

    Parameters
    ----------
    purpose
        The beginning of the message: "the page needs".
    packages
        Names of modules.
    extra
        The extra of wordprob that installs them.
    """
    for name in packages:
        try:
            import_module(name)
        except ImportError as error:
            raise UnsupportedError(f"{purpose} {name}: pip install 'wordprob[{extra}]'") from error
