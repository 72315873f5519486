"""The page on what users can rely on names tests; they exist."""

from __future__ import annotations

import re

from docs_examples import ROOT

NAME = re.compile(r"`(test_\w+)(…?)`")


def test_every_test_that_the_page_names_exists():
    page = (ROOT / "docs/trust.md").read_text(encoding="utf-8")
    named = NAME.findall(page)
    assert len(named) > 20
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    existing = set(re.findall(r"^def (test_\w+)\(", sources, re.MULTILINE))
    missing = [
        name for name, more in named if not any(test == name or (more and test.startswith(name)) for test in existing)
    ]
    assert missing == []
