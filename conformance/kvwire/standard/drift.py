"""The registry of the standard: built from prose and table, checked against judges, lock, ceiling and profiles.

``build`` writes what is generated (``requirements.json``, the lock file, the ceiling of pending ids), ``check`` finds
whatever does not fit together, ``release`` freezes the edition. Each returns problems, an empty list when there are
none; each problem names its place and the way out.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import cast, get_args

import msgspec

from kvwire.standard import editions, prose, registry
from kvwire.standard.editions import CEILING, CHANGES, EDITION, LOCK
from kvwire.standard.profiles import problems as profile_problems
from kvwire.standard.prose import Problem, normal
from kvwire.standard.protocol import VERBS
from kvwire.standard.registry import Binds, DecidedBy, Level, Memory, Requirement

TABLE = "requirements.toml"
GENERATED = "requirements.json"
NEEDS = frozenset({"passive", "replayable", "os", *VERBS}) - {"hello"}
MEMORY: tuple[str, ...] = get_args(Memory)
BUILD = "run `kvwire spec build` and commit what it writes"


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the table beside the prose (spec/requirements.toml)."""

    level: Level
    binds: Binds
    needs: tuple[str, ...]
    decided_by: DecidedBy
    judged: str | None = None
    pending: str | None = None
    review: str | None = None
    untestable: str | None = None


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a requirement is judged: chapter, method and its docstring, what the judge remembers, file and line."""

    id: str
    area: str
    method: str
    doc: str
    memory: str
    file: str
    line: int


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """An id that stands in code where no judge is marked with it; ``judging``: in a room that judges."""

    id: str
    file: str
    line: int
    judging: bool


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """What the code says of the standard: every judge, and every other use of an id."""

    judges: tuple[Place, ...]
    uses: tuple[Use, ...] = ()


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements that prose and table give together, where each stands in the table, and what did not fit."""

    requirements: tuple[Requirement, ...]
    lines: dict[str, int]
    problems: tuple[Problem, ...]


def checkout() -> Path | None:
    """The ``spec`` folder of the checkout that this package lies in; None for an installed copy."""
    root = Path(str(resources.files("kvwire"))).parents[1]
    spec = root / "spec"
    return spec if (root / "pyproject.toml").is_file() and (spec / TABLE).is_file() else None


# prose and table


def _entry_fault(entry: Entry) -> str:
    states = [name for name in ("judged", "pending", "review", "untestable") if getattr(entry, name) is not None]
    if len(states) != 1:
        return f"exactly one of judged, pending, review and untestable is needed, here {', '.join(states) or 'none'}"
    if unknown := sorted(set(entry.needs) - NEEDS):
        return f"`needs` does not know {', '.join(unknown)}; it knows {', '.join(sorted(NEEDS))}"
    return "" if entry.needs else "`needs` is empty: write passive, replayable, os or adapter verbs"


def read_table(folder: Path) -> tuple[dict[str, Entry], dict[str, int], list[Problem]]:
    """The entries of the table, the line of each, and the problems of the table itself."""
    path = folder / TABLE
    file = f"{folder.name}/{TABLE}"
    text = path.read_text(encoding="utf-8")
    heads = {
        match[1]: number for number, raw in enumerate(text.splitlines(), 1) if (match := re.match(r"\[([^\]]+)\]", raw))
    }
    try:
        raw_entries = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return {}, heads, [Problem(file, 0, "", f"not TOML: {error}")]
    entries: dict[str, Entry] = {}
    problems: list[Problem] = []
    for name, raw in raw_entries.items():
        line = heads.get(name, 0)
        try:
            entry = msgspec.convert(raw, Entry)
        except msgspec.ValidationError as error:
            problems.append(Problem(file, line, name, f"{error}; the fields are described at the top of the table"))
            continue
        if fault := _entry_fault(entry):
            problems.append(Problem(file, line, name, fault))
        entries[name] = entry
    return entries, heads, problems


def draft(folder: Path, code: Code) -> Draft:
    """The requirements of a ``spec`` folder, in the order of areas and numbers."""
    told = prose.read(folder)
    entries, lines, problems = read_table(folder)
    file = f"{folder.name}/{TABLE}"
    problems = [*told.problems, *problems]
    broken = {problem.id for problem in problems}
    sentences = {sentence.id: sentence for sentence in told.sentences}
    for sentence in told.sentences:
        entry = entries.get(sentence.id)
        if entry is None and sentence.id not in broken:
            message = f"the table has no entry for it: add [{sentence.id}] to {file}"
            problems.append(Problem(sentence.file, sentence.line, sentence.id, message))
        elif entry is not None and entry.level != sentence.level:
            message = f"the sentence says {sentence.level}, the table {entry.level}: make them equal"
            problems.append(Problem(sentence.file, sentence.line, sentence.id, message))
    for name in entries:
        if name not in sentences and name not in broken:
            message = "no chapter states it: write the sentence with this id, or remove the entry"
            problems.append(Problem(file, lines.get(name, 0), name, message))
    locked, _ = editions.read_lock(folder)
    for name, (where, number) in told.mentions.items():
        if name not in sentences and name not in broken and name not in locked and name not in entries:
            problems.append(Problem(where, number, name, "there is no such id: correct the reference"))
    for place in code.judges:
        if place.memory not in MEMORY:
            message = f"{place.area}.{place.method} remembers {place.memory}: write one of {', '.join(MEMORY)}"
            problems.append(Problem(place.file, place.line, place.id, message))
    memory = {place.id: cast("Memory", place.memory) for place in code.judges}
    requirements = [
        Requirement(
            id=name,
            sentence=sentences[name].text,
            section=sentences[name].section,
            since=EDITION,
            memory=memory.get(name) if entry.judged is not None else None,
            **msgspec.structs.asdict(entry),
        )
        for name, entry in entries.items()
        if name in sentences
    ]
    requirements.sort(key=lambda requirement: editions.order(requirement.id))
    return Draft(requirements=tuple(requirements), lines=lines, problems=tuple(problems))


# what is generated


def _changes(folder: Path) -> str:
    path = folder / CHANGES
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def generated(folder: Path, requirements: tuple[Requirement, ...], *, freeze: bool = False) -> dict[str, bytes]:
    """The generated files of a ``spec`` folder, by their path in it, as ``build`` (or ``release``) writes them."""
    locked, _ = editions.read_lock(folder)
    lock = editions.next_lock(locked, requirements, _changes(folder), freeze=freeze)
    ceiling = editions.write_ceiling(editions.read_ceiling(folder), editions.pending(requirements))
    return {
        GENERATED: registry.dump(EDITION, requirements),
        LOCK: editions.write_lock(lock),
        CEILING: ceiling,
    }


def _edition_problems(folder: Path, requirements: tuple[Requirement, ...]) -> list[Problem]:
    """What a person has to decide: malformed files, ids gone or taken again, changes not told, too many pending."""
    file, ceiling_file = f"{folder.name}/{LOCK}", f"{folder.name}/{CEILING}"
    locked, bad = editions.read_lock(folder)
    problems = [
        Problem(file, line, "", f"not a line of a lock file, or an id twice: {raw.strip()!r}") for line, raw in bad
    ]
    by_id = {requirement.id: requirement for requirement in requirements}
    changes = _changes(folder)
    problems += [
        Problem(file, entry.line, entry.id, fault)
        for entry in locked.values()
        if (fault := _lock_fault(entry, by_id.get(entry.id), changes, folder.name))
    ]
    new = [name for name in by_id if locked and name not in locked]
    if any(entry.state == "frozen" for entry in locked.values()):
        message = f"edition {EDITION} is frozen: a new sentence belongs to the next edition"
        problems += [Problem(file, 0, name, message) for name in new]
    else:
        log = f"{folder.name}/{CHANGES}"
        message = "the id is new, and no line says so: add `- {}: …`"
        problems += [Problem(log, 0, name, message.format(name)) for name in new if not editions.told(changes, name)]
    try:
        ceiling = editions.read_ceiling(folder)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        return [
            *problems,
            Problem(ceiling_file, 0, "", f"not a ceiling: {error}; it has a number per {editions.BINDS}"),
        ]
    if ceiling is not None:
        for who, count in editions.pending(requirements).items():
            if count > (most := ceiling.get(who, 0)):
                message = (
                    f"{count} ids that bind a {who} are pending, the ceiling is {most}: judge some, or explain in "
                )
                problems.append(Problem(ceiling_file, 0, "", f"{message}the table why they need review or no test"))
    return problems


def _lock_fault(entry: editions.Locked, requirement: Requirement | None, changes: str, spec: str) -> str:
    if requirement is None:
        if entry.state == "withdrawn":
            return ""
        return "the id is gone from prose and table: bring it back, or write `withdrawn` instead of its state here"
    if entry.state == "withdrawn":
        return "the id was withdrawn and is used again: take a new number"
    if entry.state == "frozen":
        if entry.level != requirement.level:
            return f"frozen as {entry.level}, now {requirement.level}: a frozen level does not change within an edition"
        if entry.sha256 != editions.digest(requirement.sentence):
            return "the sentence differs from the one that was frozen: restore it, or withdraw it and give a new id"
    elif entry.level != requirement.level and not editions.announced(changes, entry.id, entry.level, requirement.level):
        line = f"- {entry.id}: {entry.level} → {requirement.level}, because …"
        return f"the level was {entry.level} and is {requirement.level}: add the line `{line}` to {spec}/{CHANGES}"
    elif (
        entry.sha256
        and entry.sha256 != editions.digest(requirement.sentence)
        and editions.told(changes, entry.id) <= entry.told
    ):
        return f"the sentence was changed, and no new line says so: add `- {entry.id}: …` to {spec}/{CHANGES}"
    return ""


def _stale(folder: Path, requirements: tuple[Requirement, ...]) -> list[Problem]:
    problems = []
    for name, content in generated(folder, requirements).items():
        path = folder / name
        if not path.is_file():
            problems.append(Problem(f"{folder.name}/{name}", 0, "", f"the file is missing: {BUILD}"))
        elif path.read_bytes() != content:
            problems.append(Problem(f"{folder.name}/{name}", 0, "", f"not what the prose and the table give: {BUILD}"))
    return problems


# judges


def _judge_problems(folder: Path, found: Draft, code: Code) -> list[Problem]:
    problems: list[Problem] = []
    by_id = {requirement.id: requirement for requirement in found.requirements}
    marked: dict[str, Place] = {}
    for place in code.judges:
        name = place.id
        requirement = by_id.get(name)
        if (first := marked.setdefault(name, place)) is not place:
            message = f"{first.area}.{first.method} ({first.file}:{first.line}) is marked with it too: leave one place"
        elif requirement is None:
            message = f"{place.area}.{place.method} judges an id that the standard does not have: correct the id"
        elif requirement.judged is None:
            message = f"{place.area}.{place.method} judges it, but the table says {requirement.status}: write `judged`"
        elif requirement.judged != place.area:
            message = f"judged by {place.area}.{place.method}, but the table says {requirement.judged}: correct one"
        elif normal(requirement.sentence) not in normal(place.doc):
            message = f"the docstring of {place.area}.{place.method} does not quote it: write “{requirement.sentence}”"
        else:
            continue
        problems.append(Problem(place.file, place.line, name, message))
    for name, requirement in by_id.items():
        if requirement.judged is not None and name not in marked:
            message = f"no method in judges/{requirement.judged} is marked `@judge({name!r})`: write it, or `pending`"
            problems.append(Problem(f"{folder.name}/{TABLE}", found.lines.get(name, 0), name, message))
    for use in code.uses:
        if use.id not in marked:
            problems.append(Problem(use.file, use.line, use.id, "no judge is marked with it: correct the id"))
        elif use.judging:
            message = "an id stands where its judge is marked with it, and nowhere else: let that judge say it"
            problems.append(Problem(use.file, use.line, use.id, message))
    return problems


# the three commands


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if not path.is_file() or path.read_bytes() != content:
            path.write_bytes(content)


def build(folder: Path, code: Code) -> list[Problem]:
    """Write what is generated; nothing is written while prose, table, lock or ceiling have problems."""
    found = draft(folder, code)
    if found.problems:
        return list(found.problems)
    if problems := _edition_problems(folder, found.requirements):
        return problems
    _write(folder, generated(folder, found.requirements))
    return []


def check(folder: Path, code: Code) -> list[Problem]:
    """Everything that does not fit together. While prose and table do not, nothing else is looked at."""
    found = draft(folder, code)
    if found.problems:
        return list(found.problems)
    known = registry.Registry(EDITION, found.requirements)
    edition = _edition_problems(folder, found.requirements)
    return [
        *edition,
        *([] if edition else _stale(folder, found.requirements)),
        *_judge_problems(folder, found, code),
        *profile_problems(folder, known),
    ]


def release(folder: Path, code: Code) -> list[Problem]:
    """Freeze the lock file; refused while ``check`` finds problems or any id is pending."""
    found = draft(folder, code)
    problems = check(folder, code)
    problems += [
        Problem(f"{folder.name}/{TABLE}", found.lines.get(r.id, 0), r.id, f"still pending: {r.pending}")
        for r in found.requirements
        if r.pending is not None
    ]
    if not problems:
        _write(folder, generated(folder, found.requirements, freeze=True))
    return problems
