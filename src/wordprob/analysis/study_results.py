"""What the results of all studies have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, cast

from wordprob.analysis import outputs

ABSENT = "–"
"""What a table prints where there is no value."""


class StudyResult(ABC):
    """A result that knows its models and its provenance, and writes itself to a folder."""

    FILE_NAMES: ClassVar[tuple[str, ...]]
    """The names of the files in the folder, known before there is a result."""

    provenance: Mapping[str, object]

    @property
    @abstractmethod
    def models(self) -> list[str]:
        """The models, in the order given."""

    @property
    def sizes(self) -> dict[str, float | None]:
        """Millions of parameters of each model, where known."""
        known = cast("Mapping[str, float | None]", self.provenance["sizes"])
        return {model: known.get(model) for model in self.models}

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """Return the files of the result by name: tables, figures and provenance."""

    def write(self, folder: str | Path, force: bool = False) -> Path:
        """Write the files of the result into a folder, all of them or none.

        Parameters
        ----------
        folder
            The folder; it is made if there is none.
        force
            Replace results that the folder holds already.
        """
        folder = outputs.check_folder(folder, self.FILE_NAMES, force)
        outputs.write_folder(folder, self.files())
        return folder


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def latex_table(caption: str, columns: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in LaTeX (needs booktabs).

    Parameters
    ----------
    caption
        Written above the table as a comment.
    columns
        The alignment of the columns, as ``tabular`` takes it.
    header
        The lines above the body, complete.
    rows
        The cells of the body, already in LaTeX.
    """
    body = [" & ".join(cells) + r" \\" for cells in rows]
    top = [f"% {caption}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", *header, r"\midrule"]
    return "\n".join([*top, *body, r"\bottomrule", r"\end{tabular}"]) + "\n"


def latex_text(text: str) -> str:
    """Return text with the characters escaped that mean something to LaTeX."""
    for character in "_&%#":
        text = text.replace(character, rf"\{character}")
    return text.replace("²", "$^2$").replace(ABSENT, "--")
