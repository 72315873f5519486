"""requirements.lock holds all that the Makefile installs, with versions that are asked for, and hashes."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")

pytestmark = pytest.mark.skipif(not LOCK.is_file(), reason="needs a clone: requirements.lock is not here")


def locked() -> dict[str, tuple[str, int]]:
    """Return version and number of hashes of what is installed on this machine, by name."""
    entries = LOCK.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    found = {}
    for entry in entries:
        requirement = Requirement(entry.partition("--hash")[0].strip())
        if requirement.marker is None or requirement.marker.evaluate():
            [pin] = requirement.specifier
            assert pin.operator == "=="
            found[canonicalize_name(requirement.name)] = (pin.version, len(HASH.findall(entry)))
    return found


def makefile_words(variable: str) -> list[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    [value] = re.findall(rf"^{variable} := (.*)$", text, re.MULTILINE)
    return value.split()


def asked_for(extras: list[str]) -> list[Requirement]:
    """Return what pyproject.toml asks for with these extras, on this machine."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = project["dependencies"] + [line for extra in extras for line in project["optional-dependencies"][extra]]
    requirements = [Requirement(line) for line in lines]
    own = [extra for found in requirements if found.name == project["name"] for extra in found.extras]
    others = [found for found in requirements if found.name != project["name"] and applies(found.marker)]
    return others + (asked_for(own) if own else [])


def applies(marker: Marker | None, extra: str = "") -> bool:
    return marker is None or marker.evaluate({"extra": extra})


def problems(requirements: list[Requirement]) -> list[str]:
    found, without = locked(), makefile_words("NOT_LOCKED")
    lines = []
    for requirement in requirements:
        name = canonicalize_name(requirement.name)
        version, _ = found.get(name, ("", 0))
        if name not in without and not (version and requirement.specifier.contains(version, prereleases=True)):
            lines.append(f"{requirement}: {version or 'not locked'}; run make lock")
    return lines


def test_everything_that_is_asked_for_is_locked():
    assert problems(asked_for(makefile_words("EXTRAS"))) == []


def test_a_new_requirement_is_noticed():
    assert problems([Requirement("numpy>=999"), Requirement("nowhere>=1"), Requirement("torch>=2")]) == [
        f"numpy>=999: {locked()['numpy'][0]}; run make lock",
        "nowhere>=1: not locked; run make lock",
    ]


def test_what_packages_need_in_turn_is_locked():
    """As far as packages are installed here in the version that is locked."""
    needed = []
    for name, (version, _) in locked().items():
        try:
            installed = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        if installed.version == version:
            needed += [Requirement(line) for line in installed.requires or []]
    assert len(needed) > 100
    assert problems([requirement for requirement in needed if applies(requirement.marker)]) == []


def test_every_version_has_a_hash():
    assert [name for name, (_, hashes) in locked().items() if not hashes] == []


def test_the_constraints_are_locked():
    lines = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    found = locked()
    constraints = [Requirement(line) for line in lines]
    assert problems([one for one in constraints if canonicalize_name(one.name) in found]) == []
    assert "torch==2.13.0" in lines, "what is not locked has its version here"


def test_the_makefile_installs_from_the_lock():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "pip install --quiet --require-hashes --no-deps --requirement requirements.lock" in text
    assert f'--editable ".[{",".join(makefile_words("EXTRAS"))}]"' in text


def test_the_lock_names_no_place():
    text = LOCK.read_text(encoding="utf-8")
    assert not re.search(r"://|^-|@|file:|\s/", text, re.MULTILINE)
