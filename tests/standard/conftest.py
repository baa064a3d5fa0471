"""A small standard in a temporary folder: two sentences that are judged, one that is pending, and a profile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kvwire.standard.drift import Code, Place, build

CHAPTER = """\
# Envelope

Frames are bytes, and `MUST` in code binds nobody.

> Note. Whoever MUST know reads [KVW-ENV-001] first.

A publisher MUST send
three frames [KVW-ENV-001].

- A publisher SHOULD send `a. b`
  in order [KVW-SEQ-001].

```
A publisher MUST not be read from code.
```

## Consumers

A consumer MUST NOT guess [KVW-SEQ-002]. More follows.
"""
TABLE = """\
[KVW-ENV-001]
level = "MUST"
binds = "publisher"
needs = ["passive"]
decided_by = "envelope"
judged = "envelope"

[KVW-SEQ-001]
level = "SHOULD"
binds = "publisher"
needs = ["replayable"]
decided_by = "engine"
judged = "sequence"

[KVW-SEQ-002]
level = "MUST NOT"
binds = "consumer"
needs = ["passive"]
decided_by = "envelope"
pending = "later"
"""
PROFILE = {
    "profile": "core",
    "edition": "1",
    "title": "a publisher",
    "sentences": {"KVW-ENV-001": "passive", "KVW-SEQ-001": "replayable"},
}


QUOTES = {
    "KVW-ENV-001": ("envelope", "KVW-ENV-001: A publisher MUST send three\n        frames."),
    "KVW-SEQ-001": ("sequence", "A publisher SHOULD send `a. b` in order."),
}


@pytest.fixture
def judges() -> Code:
    """The judges of the small standard."""
    return Code(
        judges=tuple(
            Place(id=name, area=area, method="method", doc=doc, memory="O(1)", file=f"kvwire/judges/{area}.py", line=7)
            for name, (area, doc) in QUOTES.items()
        )
    )


@pytest.fixture
def folder(tmp_path: Path, judges: Code) -> Path:
    """The small standard, built."""
    spec = tmp_path / "spec"
    (spec / "profiles").mkdir(parents=True)
    (spec / "envelope.md").write_text(CHAPTER, encoding="utf-8")
    (spec / "requirements.toml").write_text(TABLE, encoding="utf-8")
    (spec / "CHANGELOG.md").write_text("# Changes\n\nNothing MUST be read from here.\n", encoding="utf-8")
    (spec / "profiles" / "core.json").write_text(json.dumps(PROFILE), encoding="utf-8")
    assert build(spec, judges) == []
    return spec


@pytest.fixture
def edit(folder: Path) -> Callable[[str, str, str], None]:
    """Replace a text that must occur exactly once in one file of the small standard."""

    def replace(name: str, old: str, new: str) -> None:
        path = folder / name
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, (name, old)
        path.write_text(text.replace(old, new), encoding="utf-8")

    return replace
