"""What an edition has promised so far: its lock file, the ceiling of pending ids, and the change log.

``editions/1.lock`` holds one line per id that was ever given, and never loses one::

    KVW-SEQ-008  SHOULD      draft      <SHA-256 of the sentence>  <how many lines of the change log name the id>
    KVW-SEQ-009  MUST NOT    frozen     <SHA-256 of the sentence>
    KVW-SEQ-010  MUST        withdrawn

``editions/pending.toml`` holds how many ids may still wait for a judge, per whom they bind; it only falls.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, cast, get_args

import msgspec

from kvwire.standard.prose import ID, LEVELS
from kvwire.standard.registry import AREAS, Binds, Level, Requirement

EDITION = "1"
LOCK = f"editions/{EDITION}.lock"
CEILING = "editions/pending.toml"
CHANGES = "CHANGELOG.md"
BINDS: tuple[Binds, ...] = get_args(Binds)

State = Literal["draft", "frozen", "withdrawn"]
_STATES: tuple[str, ...] = get_args(State)
_LOCK_HEAD = f"""\
# Every id of edition {EDITION}: its level, whether it may still change, the SHA-256 of its sentence, and, while it may
# change, how many lines of {CHANGES} name it: a sentence changes together with one more. `kvwire spec build` writes
# draft ids, `kvwire spec release` freezes them. No line is ever removed: an id that is given up stays as `withdrawn`.
"""
_CEILING_HEAD = """\
# How many sentences may still wait for a judge, by whom they bind. `kvwire spec build` lowers a number as soon as
# fewer are pending; nothing raises one.
"""


class Locked(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a lock file: ``sha256`` of the sentence (hex), ``told`` by so many lines of the change log."""

    id: str
    level: Level
    state: State
    sha256: str = ""
    told: int = 0
    line: int = 0


def digest(sentence: str) -> str:
    """The SHA-256 of a sentence, in hex: what freezing keeps."""
    return hashlib.sha256(sentence.encode()).hexdigest()


def order(requirement_id: str) -> tuple[int, str]:
    """The sort key of ids: areas in the order of the registry, then numbers."""
    return AREAS.index(requirement_id.split("-")[1]), requirement_id


def _lock_line(number: int, raw: str) -> Locked | None:
    """The entry of one line; None when it is none."""
    fields = re.split(r"\s{2,}", raw.strip())
    form = ID.match(fields[0])
    if form is None or form[1] not in AREAS or not 3 <= len(fields) <= 5:
        return None
    name, level, state = fields[:3]
    sha256 = fields[3] if len(fields) > 3 else ""
    count = fields[4] if len(fields) > 4 else "0"
    if level not in LEVELS or state not in _STATES or (state == "frozen" and not sha256) or not count.isdecimal():
        return None
    return Locked(
        id=name, level=cast("Level", level), state=cast("State", state), sha256=sha256, told=int(count), line=number
    )


def read_lock(folder: Path) -> tuple[dict[str, Locked], list[tuple[int, str]]]:
    """The entries of the lock file, and the lines (number, text) that are none or repeat an id.

    A missing file has no entries.
    """
    path = folder / LOCK
    entries: dict[str, Locked] = {}
    bad: list[tuple[int, str]] = []
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    for number, raw in enumerate(lines, 1):
        if not raw.strip() or raw.startswith("#"):
            continue
        entry = _lock_line(number, raw)
        if entry is None or entry.id in entries:
            bad.append((number, raw))
        else:
            entries[entry.id] = entry
    return entries, bad


def write_lock(entries: Iterable[Locked]) -> bytes:
    """The lock file of these entries."""
    kept = {"draft": "{0.sha256}  {0.told}", "frozen": "{0.sha256}", "withdrawn": ""}
    lines = [
        f"{entry.id}  {entry.level:<10}  {entry.state:<9}  {kept[entry.state].format(entry)}".rstrip()
        for entry in sorted(entries, key=lambda entry: order(entry.id))
    ]
    return (_LOCK_HEAD + "\n" + "".join(line + "\n" for line in lines)).encode()


def next_lock(
    locked: Mapping[str, Locked], requirements: Iterable[Requirement], changes: str, *, freeze: bool = False
) -> list[Locked]:
    """The entries that ``build`` writes: frozen and withdrawn ones kept, drafts and new ids as they are today.

    With ``freeze``, every id that is not withdrawn is frozen with the digest of its sentence.
    """
    entries = dict(locked)
    for requirement in requirements:
        name = requirement.id
        if name in locked and locked[name].state != "draft":
            continue
        entries[name] = Locked(
            id=name,
            level=requirement.level,
            state="frozen" if freeze else "draft",
            sha256=digest(requirement.sentence),
            told=told(changes, name),
        )
    return list(entries.values())


def told(changes: str, requirement_id: str) -> int:
    """How many lines of the change log name an id."""
    return sum(re.search(rf"{requirement_id}\b", line) is not None for line in changes.splitlines())


def announced(changes: str, requirement_id: str, old: str, new: str) -> bool:
    """Whether a line of the change log names the id, its old level, and after it the new one."""
    pattern = re.compile(rf"{requirement_id}\b.*\b{old}\b(?! NOT).*\b{new}\b(?! NOT)")
    return any(pattern.search(line) for line in changes.splitlines())


def pending(requirements: Iterable[Requirement]) -> dict[Binds, int]:
    """How many requirements are pending, per whom they bind."""
    counts: dict[Binds, int] = dict.fromkeys(BINDS, 0)
    for requirement in requirements:
        counts[requirement.binds] += requirement.pending is not None
    return counts


def read_ceiling(folder: Path) -> dict[Binds, int] | None:
    """The committed ceiling; None when there is no file yet.

    Raises:
        tomllib.TOMLDecodeError: when the file is no TOML.
        msgspec.ValidationError: when it is anything but whole numbers by name.
    """
    path = folder / CEILING
    if not path.is_file():
        return None
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), dict[Binds, int])


def write_ceiling(ceiling: Mapping[Binds, int] | None, counts: Mapping[Binds, int]) -> bytes:
    """The ceiling file: the lower of the committed ceiling and today's count; the counts when there is no file yet."""
    lines = []
    for who in BINDS:
        most = counts[who] if ceiling is None else min(ceiling.get(who, 0), counts[who])
        lines.append(f"{who} = {most}\n")
    return (_CEILING_HEAD + "\n" + "".join(lines)).encode()
