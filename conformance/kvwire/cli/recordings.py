"""``kvwire convert``, ``scrub`` and ``verify``: what is done with recordings besides judging them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

import click

from kvwire.cli.baseline import expectations
from kvwire.cli.judge import capture_options, said_of
from kvwire.cli.judging import FILE
from kvwire.cli.quantities import Named
from kvwire.cli.screen import say
from kvwire.conclusion.result import ResultError
from kvwire.judges.verdict import Exit
from kvwire.recordings import scrub as scrubbing
from kvwire.recordings.units import Unit, units
from kvwire.recordings.verifying import verified
from kvwire.standard import reading
from kvwire.trace import files
from kvwire.trace.records import TraceError

KEY_BYTES, KEY_LEAST = 32, 16
_PATHS = Named()


def one_of(paths: Sequence[Path]) -> Unit:
    """The one recording that lies in these files.

    Raises:
        click.UsageError: when they are none, or several.
    """
    try:
        found = units(paths)
    except TraceError as error:
        raise click.UsageError(str(error)) from None
    if len(found) > 1:
        raise click.UsageError(f"these are {len(found)} recordings, {', '.join(u.name for u in found[:3])} …: name one")
    if found[0].error:
        raise click.UsageError(found[0].error)
    return found[0]


@click.command()
@click.argument("paths", metavar="FILE…", nargs=-1, required=True, type=_PATHS)
@click.option("--output", "-o", "path", type=FILE, required=True, help="Its ending says the form.")
def convert(paths: tuple[Path, ...], path: Path) -> int:
    """Write a recording in another form, without loss: .mcap, .kvtrace (lines of JSON) or .kvtrace.gz.

    The parts of one recording (FILE.0001 …) become one file.
    """
    unit = _other(one_of(paths), path)
    try:
        with files.open_recording(*unit.paths) as recording:
            files.convert(recording, path)
    except TraceError as error:
        raise click.UsageError(str(error)) from None
    if recording.ended.cut:
        say(f"{path}: {recording.ended.cut}", err=True)
    return Exit.CONFORMANT


@click.command()
@click.argument("paths", metavar="FILE…", nargs=-1, required=True, type=_PATHS)
@click.option("--output", "-o", "path", type=FILE, required=True, help="Its ending says the form.")
@click.option("--key-file", type=FILE, help="At least 16 secret bytes, so that another recording is replaced alike.")
def scrub(paths: tuple[Path, ...], path: Path, key_file: Path | None) -> int:
    """Write a recording without its prompts, to be given away.

    Token ids, salts, names of adapters and sessions, multimodal digests, topics, hosts and folders are replaced by
    keyed bijections; hashes are computed again where their function is known, and replaced where it is not. Without
    --key-file the key is random and thrown away. Verdicts stay, but for those that docs/recordings.md names. What
    cannot be kept is left out and named. Times, numbers, lengths, LoRA ids, media, ranks and ports stay as they are.
    """
    unit = _other(one_of(paths), path)
    try:
        named = scrubbing.scrub(unit.paths, path, _key(key_file))
    except TraceError as error:
        raise click.UsageError(str(error)) from None
    for what, count in sorted(named.items()):
        say(f"{what}: {count}")
    return Exit.CONFORMANT


def _key(path: Path | None) -> bytes:
    if path is None:
        return secrets.token_bytes(KEY_BYTES)
    try:
        key = reading.content(path)
    except OSError as error:
        raise click.UsageError(f"--key-file {path}: {error.strerror}") from None
    if len(key) < KEY_LEAST:
        raise click.UsageError(
            f"--key-file {path}: {len(key)} bytes, at least {KEY_LEAST} are needed: `head -c {KEY_BYTES} /dev/urandom`"
        )
    return key


def _other(unit: Unit, path: Path) -> Unit:
    """The recording, if it is not to be replaced by what is made of it."""
    if path.exists() and any(path.samefile(own) for own in unit.paths):
        raise click.UsageError(f"{path} is the recording itself: name another file")
    return unit


@click.command()
@click.argument("result_stream", metavar="RESULT", type=Named(dir_okay=False, exists=True))
@click.argument("paths", metavar="RECORDING…", nargs=-1, required=True, type=_PATHS)
@click.option("--expected-failures", "expected", type=FILE, help="The file that the result was held against.")
@capture_options
def verify(
    result_stream: Path, paths: tuple[Path, ...], expected: Path | None, ports: tuple[str, ...], topic: str | None
) -> int:
    """Derive a result (`--json RESULT`) again from its recording, and compare to the byte.

    Every result has the digests of the standard, of the source of the judges, and of what was recorded, whatever the
    form of its file. What differs is named: another standard, other judges, another recording, other verdicts. What
    --port and --topic said of a packet capture is to be said again.

    Exit codes: 0 the same bytes, 1 something differs, 2 usage.
    """
    try:
        found = units(paths)
        entries = None if expected is None else expectations(expected)
        told = said_of(found, ports, topic)
        differing = list(verified(reading.content(result_stream, reading.RESULT_BYTES), found, entries, told))
    except OSError as error:
        raise click.UsageError(f"{result_stream}: {error.strerror}") from None
    except (TraceError, ResultError) as error:
        raise click.UsageError(f"{result_stream}: {error}" if isinstance(error, ResultError) else str(error)) from None
    for line in differing:
        say(line)
    if not differing:
        say(f"{result_stream} follows from {', '.join(map(str, paths))}, to the byte")
    return Exit.NOT_CONFORMANT if differing else Exit.CONFORMANT
