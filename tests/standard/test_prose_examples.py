"""The examples of the prose: bytes and their projection say the same, and a conformance statement is one."""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvwire.standard import schemas, statement
from kvwire.wire.dialect import read_slowly
from kvwire.wire.msgpack import walk
from kvwire.wire.projection import project_batch

SPEC = Path(__file__).parents[2] / "spec"
QUOTED = re.compile(r"^> ?", re.MULTILINE)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEX = re.compile(r"\s*([0-9a-f]+(?: [0-9a-f]+)*)(?:\s{2,}.*)?\Z")


def fences(chapter: str) -> list[tuple[str, str]]:
    """Language and content of every fenced block of a chapter, those in block quotes included."""
    text = QUOTED.sub("", (SPEC / chapter).read_text(encoding="utf-8"))
    return FENCE.findall(text)


def payload(block: str) -> bytes | None:
    """The bytes of a hex block, remarks behind two spaces left out; None when it holds something else."""
    found = [HEX.match(line) for line in block.splitlines()]
    lines = [match[1].replace(" ", "") for match in found if match is not None]
    return bytes.fromhex("".join(lines)) if lines and len(lines) == len(found) else None


def pairs() -> Iterator[tuple[str, bytes, str]]:
    """Chapter, payload and projection of every example that gives both."""
    for path in sorted(SPEC.glob("*.md")):
        blocks = fences(path.name)
        for (_, before), (language, block) in itertools.pairwise(blocks):
            if language == "json" and (content := payload(before)) is not None:
                yield path.name, content, block


PAIRS = list(pairs())


@pytest.mark.parametrize(("chapter", "content", "projection"), PAIRS, ids=[pair[0] for pair in PAIRS])
def test_bytes_and_projection(chapter: str, content: bytes, projection: str) -> None:
    node = walk(content)
    assert node.end == len(content)
    assert project_batch(node) == json.loads(projection)
    if chapter == "legacy.md":
        assert schemas.validate("batch", json.loads(projection))
    else:
        assert schemas.validate("batch", json.loads(projection)) == []
        reading = read_slowly(content)
        assert not reading.flaws
        assert not any(flaw.code != "hash-unsigned" for event in reading.events for flaw in event.flaws)


def test_the_examples_were_found() -> None:
    assert {"event.md", "legacy.md"} <= {chapter for chapter, _, _ in PAIRS}
    assert len(PAIRS) >= 5


def test_sizes_that_the_prose_states() -> None:
    """`…, 143 bytes:` before an example is the size of its payload."""
    found = 0
    for path in sorted(SPEC.glob("*.md")):
        text = QUOTED.sub("", path.read_text(encoding="utf-8"))
        for stated, block in re.findall(r"(\d+) bytes:\n+```\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            content = payload(block)
            assert content is not None, (path.name, block)
            assert len(content) == int(stated), path.name
            found += 1
    assert found >= 5


def test_the_statement() -> None:
    blocks = [tomllib.loads(block) for language, block in fences("statement.md") if language == "toml"]
    for raw in blocks:
        assert schemas.validate("statement", raw) == []
    whole, media = (statement.convert(raw, "statement.md") for raw in blocks)
    assert whole.streams[0].name == "rank0"
    assert media.residency_of("CPU", 0) == "counted"
