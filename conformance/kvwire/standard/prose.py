"""The sentences of the standard, read from its prose (spec/*.md).

A requirement is one sentence of running text or of a list item with exactly one BCP 14 key word in capitals, and its
id in brackets right before the final full stop. Block quotes, code and headings hold none. Everything that only looks
like a requirement, or nearly is one, is a problem that names its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast, get_args

import msgspec

from kvwire.standard.registry import AREAS, Level

LEVELS: tuple[str, ...] = get_args(Level)
ID = re.compile(r"KVW-([A-Z]{3})-\d{3}\Z")
"""The form of a requirement id."""

_KEYWORD = re.compile(
    r"\b(MUST NOT|MUST|SHOULD NOT|SHOULD|MAY|SHALL NOT|SHALL|NOT RECOMMENDED|RECOMMENDED|REQUIRED|OPTIONAL)\b"
)
_BRACKET = re.compile(r"\[(KVW-[^\]]*)\](?!\()")
_MENTION = re.compile(r"KVW-[A-Z]{3}-\d{3}")
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_END = re.compile(r"[.!?][\"”’)*_]*(?=\s|\Z)")
_HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*\Z")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+(.*)\Z")
_FENCE = re.compile(r"(`{3,}|~{3,})")
_NO_PROSE = frozenset({"CHANGELOG.md"})


class Problem(msgspec.Struct, frozen=True):
    """What is wrong with the standard: file (from the checkout on), line (0: the whole file), id, and the way out."""

    file: str
    line: int
    id: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.id}: {self.message}" if self.id else f"{place}: {self.message}"


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement as the prose states it: ``text`` on one line, without its id and full stop."""

    id: str
    level: Level
    text: str
    section: str
    file: str
    line: int


class Prose(msgspec.Struct, frozen=True, kw_only=True):
    """What the chapters say: the sentences, every id mentioned anywhere with its first place, and the problems."""

    sentences: tuple[Sentence, ...]
    mentions: dict[str, tuple[str, int]]
    problems: tuple[Problem, ...]


class _Block(msgspec.Struct):
    """One paragraph, list item or table row: its lines joined by line ends, and the number of its first line."""

    heading: str
    line: int
    text: str


def _blocks(text: str) -> Iterator[_Block]:
    """Running text only: fences, HTML comments, block quotes and headings are left out."""
    heading, fence, comment = "", "", False
    block: _Block | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if fence:
            if line.startswith(fence) and not line.strip(fence[0]):
                fence = ""
            continue
        if comment or line.startswith("<!--"):
            comment = "-->" not in line
            continue
        opening = _FENCE.match(line)
        title = _HEADING.match(line)
        item = _ITEM.match(raw)
        row = line.startswith("|")
        if block is not None and (opening or title or item or row or not line or line.startswith(">")):
            yield block
            block = None
        if opening:
            fence = opening[1]
        elif title:
            heading = title[1]
        elif line and not line.startswith(">"):
            content = item[1] if item else line
            if block is None:
                block = _Block(heading, number, content)
            else:
                block.text += "\n" + content
        if block is not None and row:
            yield block
            block = None
    if block is not None:
        yield block


def _blank_code(text: str) -> str:
    """The text with its code spans blanked, every line end and offset kept."""
    return _CODE.sub(lambda span: re.sub(r"[^\n]", "·", span[0]), text)


def _sentences(block: _Block) -> Iterator[tuple[int, str, str]]:
    """Line, text, and text without code of every sentence of a block; white space is one space."""
    masked = _blank_code(block.text)
    start = 0
    for end in [match.end() for match in _END.finditer(masked)] + [len(masked)]:
        text, bare = block.text[start:end], masked[start:end]
        if text.strip():
            lead = len(text) - len(text.lstrip())
            line = block.line + block.text.count("\n", 0, start + lead)
            yield line, normal(text), normal(bare)
        start = end


def normal(text: str) -> str:
    """The text with each run of white space as one space."""
    return " ".join(text.split())


def _fault(ids: list[str], words: list[str], bare: str) -> str:
    """What is wrong with a sentence that holds an id or a key word; empty when it is a requirement."""
    if not ids:
        return (
            f"the key word {words[0]} stands in a sentence without an id: end the sentence with a new id in brackets "
            "(`… [KVW-AREA-nnn].`), or write the word in small letters"
        )
    if len(ids) > 1:
        return f"one sentence carries {len(ids)} ids ({', '.join(ids)}): split it into one sentence per id"
    form = ID.match(ids[0])
    if form is None or form[1] not in AREAS:
        return f"this is no id: write KVW-AREA-nnn with three digits and an area of {', '.join(AREAS)}"
    if not words:
        return (
            "the sentence carries an id but no key word in capitals: write MUST, MUST NOT, SHOULD, SHOULD NOT or MAY "
            "outside of code, or mention the id without brackets"
        )
    if len(words) > 1:
        return f"{len(words)} key words under one id ({', '.join(words)}): split it into one sentence per key word"
    if words[0] not in LEVELS:
        return f"{words[0]} is no level of this standard: write one of {', '.join(LEVELS)}"
    if not bare.endswith(f"[{ids[0]}]."):
        return "the id does not stand right before the final full stop: end the sentence with `[id].`"
    return ""


def read(folder: Path) -> Prose:
    """Everything that the chapters of a ``spec`` folder say."""
    sentences: dict[str, Sentence] = {}
    mentions: dict[str, tuple[str, int]] = {}
    problems: list[Problem] = []
    for path in sorted(folder.glob("*.md")):
        if path.name in _NO_PROSE:
            continue
        file = f"{folder.name}/{path.name}"
        text = path.read_text(encoding="utf-8")
        for number, raw in enumerate(text.splitlines(), 1):
            for mention in _MENTION.findall(raw):
                mentions.setdefault(mention, (file, number))
        for block in _blocks(text):
            for line, whole, bare in _sentences(block):
                ids, words = _BRACKET.findall(bare), _KEYWORD.findall(bare)
                if not ids and not words:
                    continue
                name = ids[0] if ids else ""
                if fault := _fault(ids, words, bare):
                    problems.append(Problem(file, line, name, fault))
                elif name in sentences:
                    first = sentences[name]
                    where = f"{first.file}:{first.line}"
                    problems.append(Problem(file, line, name, f"the id stands at {where} too: use a new id"))
                else:
                    sentences[name] = Sentence(
                        id=name,
                        level=cast("Level", words[0]),
                        text=whole.removesuffix(f"[{name}].").rstrip(),
                        section=f"{path.name}: {block.heading}",
                        file=file,
                        line=line,
                    )
    return Prose(sentences=tuple(sentences.values()), mentions=mentions, problems=tuple(problems))
