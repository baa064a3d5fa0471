"""``kvwire vectors``: list and export the golden vectors, and try an implementation on them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click
import msgspec

from kvwire.cli.quantities import Named, Seconds
from kvwire.cli.screen import say, say_json
from kvwire.judges.verdict import Exit
from kvwire.standard import reading, resources
from kvwire.standard.registry import UnknownNameError
from kvwire.vectors import access, asking, copying, manifest
from kvwire.vectors.filtering import Outcome, ask
from kvwire.vectors.manifest import DamageError
from kvwire.vectors.model import FILE_TYPES, SESSION_SCHEMA, AnyFile

FAILURES_SHOWN = 20
TROUBLES_SHOWN = 5

_only = click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Only this kind (hash) or file (hash/v1_block_key); repeatable.",
)
_from = click.option(
    "--vectors",
    "folder",
    type=Named(file_okay=False),
    help="A folder of vectors, instead of those that came with this kvwire.",
)


@click.group()
def vectors() -> None:
    """The golden vectors: list, export, try an implementation on them."""


def _damaged(error: DamageError) -> None:
    say(f"vectors: {error}", err=True)
    raise click.exceptions.Exit(Exit.ERROR)


@vectors.command()
@click.argument("name")
@click.option("--output", "-o", required=True, type=Named(dir_okay=False), help="Where the trace is written.")
@_from
def session(name: str, output: Path, folder: Path | None) -> None:
    """Write the trace of a session, for `kvwire judge`; it is the file session/NAME.kvtrace of the vectors."""
    from kvwire.trace import files
    from kvwire.trace.records import TraceError
    from kvwire.vectors import sessions

    place = folder or resources.vectors()
    if not (place / sessions.path_of(name)).is_file():
        raise click.UsageError(f"no session {name!r}; `kvwire vectors list session` shows them all")
    try:
        files.write(sessions.trace_of(place, name), output)
    except TraceError as error:
        raise click.UsageError(str(error)) from None
    except sessions.SessionError as error:
        _damaged(DamageError(str(error)))


@vectors.command("list")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--ids", is_flag=True, help="List the tests, not the files.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@_from
def list_command(names: tuple[str, ...], ids: bool, as_json: bool, folder: Path | None) -> None:
    """List the files (or with --ids the tests) of the vectors; NAME is a kind as `hash` or a file."""
    place = folder or resources.vectors()
    for entry in _choose(place, names):
        if as_json and not ids:
            say_json(entry)
        elif not ids:
            say(f"{entry.path.removesuffix('.json'):28}{entry.count:6} {entry.schema}")
        elif entry.schema in FILE_TYPES:
            for test in _file(place, entry.path).tests:
                row = {"file": entry.path, "id": test.id, "result": test.result, "comment": test.comment}
                if as_json:
                    say_json(row)
                else:
                    say(f"{test.id:44} {test.result:10} {test.comment}")
        else:
            for name in entry.ids:
                if as_json:
                    say_json({"file": entry.path, "id": name})
                else:
                    say(name)


@vectors.command()
@click.argument("target", type=Named(), metavar="DIR")
@_only
@_from
@click.option("--check", is_flag=True, help="Copy nothing: end with 1 when the copy in DIR differs.")
def export(target: Path, only: tuple[str, ...], folder: Path | None, check: bool) -> int:
    """Copy the vectors to DIR, with manifest, edition, licence; an earlier copy there is replaced."""
    if check:
        return _checked_copy(target, folder or resources.vectors())
    try:
        chosen = copying.export(folder or resources.vectors(), target, only)
    except (UnknownNameError, FileExistsError) as error:
        raise click.UsageError(str(error)) from None
    except DamageError as error:
        _damaged(error)
        return Exit.ERROR
    say(f"vectors: {len(chosen)} files, {sum(len(entry.ids) for entry in chosen)} ids in {target}")
    return Exit.CONFORMANT


def _checked_copy(target: Path, source: Path) -> int:
    try:
        found = copying.differing(source, target)
    except DamageError as error:
        raise click.UsageError(f"{target}: {error}; `kvwire vectors export {target}` makes a copy") from None
    for line in found:
        say(line)
    say(f"vectors: {len(found)} differ" if found else f"vectors: {target} is as this kvwire has them")
    return Exit.NOT_CONFORMANT if found else Exit.CONFORMANT


def _file(folder: Path, path: str) -> AnyFile:
    """A file of tests that the manifest lists."""
    try:
        return access.decode(reading.content(folder / path, reading.RESULT_BYTES))
    except (OSError, msgspec.MsgspecError, UnknownNameError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        say(f"vectors: {folder / path}: {why}; copy the vectors again", err=True)
        raise click.exceptions.Exit(Exit.ERROR) from None


def _choose(folder: Path, names: tuple[str, ...]) -> tuple[Any, ...]:
    try:
        return copying.choose(manifest.read(folder), names)
    except UnknownNameError as error:
        raise click.UsageError(str(error)) from None
    except DamageError as error:
        _damaged(error)
        return ()


class _Asked(msgspec.Struct):
    """The questions, and what the mistakes of each file are."""

    questions: list[asking.Question]
    meanings: dict[str, dict[str, str]]


def _questions(folder: Path, only: tuple[str, ...], flags: tuple[str, ...], skip: tuple[str, ...]) -> _Asked:
    asked = FILE_TYPES.keys() - {SESSION_SCHEMA}  # a session asks those who judge
    chosen = [entry for entry in _choose(folder, only) if entry.schema in asked]
    if not chosen:
        raise click.UsageError(f"--only {' '.join(only)}: no tests are there; `kvwire vectors list` shows what is")
    if found := manifest.damage(folder):
        _damaged(DamageError("; ".join(found)))
    files = {entry.path.removesuffix(".json"): _file(folder, entry.path) for entry in chosen}
    known = {label for file in files.values() for test in file.tests for label in asking.labels(test)}
    for name in (*flags, *skip):
        if name not in known:
            raise click.UsageError(f"no test here has the flag {name!r}; there are {', '.join(sorted(known))}")
    questions = [
        question
        for name, file in files.items()
        for question in asking.questions(name, file, wanted=flags, unwanted=skip)
    ]
    if not questions:
        raise click.UsageError("no test is left by these filters")
    meanings = {
        name: {slug: note.description for slug, note in file.notes.items() if note.kind == "mistake"}
        for name, file in files.items()
    }
    return _Asked(questions, meanings)


@vectors.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND")
@_only
@click.option("--flag", "flags", multiple=True, help="Only tests with this flag, result, fault or layer; repeatable.")
@click.option("--skip", multiple=True, help="No tests with this flag, result, fault or layer; repeatable.")
@click.option(
    "--silence",
    default=30.0,
    type=Seconds(min=0.1),
    show_default=True,
    metavar="S",
    help="Seconds without output before it is given up.",
)
@click.option("--all", "show_all", is_flag=True, help=f"Show every failure, not the first {FAILURES_SHOWN}.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line: answers, then troubles.")
@_from
def verify(
    command: tuple[str, ...],
    only: tuple[str, ...],
    flags: tuple[str, ...],
    skip: tuple[str, ...],
    silence: float,
    show_all: bool,
    as_json: bool,
    folder: Path | None,
) -> None:
    """Try an implementation: a filter that reads a JSON line per test and writes one.

    \b
    In:   {"id": "v1-known-root", "kind": "hash", "algorithm": "v1_block_key", "input": {"tokens": [1, 2, 3, 4], …}}
    Out:  {"id": "v1-known-root", "unsigned": "924206229973855"}
    or    {"id": …, "refused": "why"}, or {"id": …, "unsupported": true}

    Exit codes: 0 all passed, 1 some failed, 2 usage, 4 the filter died, was silent or did not answer in order.
    """  # noqa: D301 - click reads the \b
    asked = _questions(folder or resources.vectors(), only, flags, skip)
    try:
        outcome = ask(command, asked.questions, silence)
    except OSError as error:
        raise click.UsageError(f"cannot run {command[0]!r}: {error.strerror}") from None
    if as_json:
        _as_json(outcome)
    else:
        _tell(outcome, asked.meanings, FAILURES_SHOWN if not show_all else len(outcome.graded))
    raise click.exceptions.Exit(_exit(outcome))


def _exit(outcome: Outcome) -> Exit:
    if outcome.troubles:
        return Exit.ERROR
    grades = {graded.grade for graded in outcome.graded}
    return Exit.NOT_CONFORMANT if "failed" in grades else Exit.CONFORMANT if "passed" in grades else Exit.INCONCLUSIVE


def _as_json(outcome: Outcome) -> None:
    for graded in outcome.graded:
        say_json(graded)
    for question in outcome.unanswered:
        say_json({"id": question.id, "file": question.file, "grade": "unanswered"})
    for trouble in outcome.troubles:
        say_json({"trouble": trouble.kind, "id": trouble.id, "text": trouble.text})


def _tell(outcome: Outcome, meanings: dict[str, dict[str, str]], most: int) -> None:
    failed = [graded for graded in outcome.graded if graded.grade == "failed"]
    for graded in failed[:most]:
        say(f"FAIL {graded.id}: {graded.why}")
        for name in graded.mistakes:
            say(f"    known mistake {name}: {meanings[graded.file][name]}")
    if len(failed) > most:
        say(f"… and {len(failed) - most} more failures (--all shows them)")
    tally = Counter(f"{name}: {meanings[graded.file][name]}" for graded in failed for name in graded.mistakes)
    if tally:
        say("Known mistakes that the wrong answers are:")
        for text, count in tally.most_common():
            say(f"  {count} × {text}")
    grades: dict[str, Counter[str]] = {}
    for graded in outcome.graded:
        grades.setdefault(graded.file, Counter())[graded.grade] += 1
    for question in outcome.unanswered:
        grades.setdefault(question.file, Counter())["without an answer"] += 1
    for name, counts in grades.items():
        say(f"{name}: {', '.join(f'{count} {grade}' for grade, count in counts.items())}")
    seen: Counter[str] = Counter()
    for trouble in outcome.troubles:
        seen[trouble.kind] += 1
        if seen[trouble.kind] <= TROUBLES_SHOWN:
            where = f"when {trouble.id} was waited for" if trouble.id else "after the last answer"
            say(f"error: {trouble.text}, {where}", err=True)
    for kind, count in seen.items():
        if count > TROUBLES_SHOWN:
            say(f"error: {count - TROUBLES_SHOWN} more of the sort {kind!r}", err=True)
