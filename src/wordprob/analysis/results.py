"""What the results of all studies have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import cast


class StudyResult(ABC):
    """A result that knows its models and its provenance, and writes itself to a folder."""

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
        from wordprob.analysis import outputs

        files = self.files()
        folder = outputs.check_folder(folder, files, force)
        outputs.write_folder(folder, files)
        return folder
