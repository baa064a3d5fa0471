"""``kvwire doctor``: what is on a stream, whether streams agree, and what a consumer's assumptions come to."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from kvwire.attack import targets
from kvwire.attack.curve import Curve
from kvwire.attack.endings import Endings
from kvwire.attack.probes.kit.session import Limits
from kvwire.attack.run import Settings, run
from kvwire.attack.targets import TargetError, TraceTarget, parse
from kvwire.attack.witness import Recorder
from kvwire.cli.credentials import curve_options
from kvwire.cli.judging import progressing
from kvwire.cli.quantities import Named, Seconds, Words
from kvwire.cli.screen import screen, writable, wrote
from kvwire.conclusion.diagnosis import expectation
from kvwire.conclusion.diagnosis.draft import draft
from kvwire.conclusion.diagnosis.expectation import Expectation, ExpectationError
from kvwire.conclusion.doctor import Diagnosis, diagnose
from kvwire.judges.verdict import Exit
from kvwire.report.doctor import render
from kvwire.report.visible import ascii_json
from kvwire.standard import reading
from kvwire.trace import files
from kvwire.trace.records import Trace, TraceError

_FILE = Named(dir_okay=False)


@click.command()
@click.argument("names", metavar="TARGET...", nargs=-1, required=True)
@click.option("--for", "seconds", type=Seconds(min=0.1), default=10.0, show_default=True, help="Seconds to listen.")
@click.option("--expect", type=_FILE, help="What a consumer assumes (TOML: block_size, topic, ranks, algorithm, …).")
@click.option(
    "--hash-seed", "seeds", type=Words(), multiple=True, metavar="SEED", help="A PYTHONHASHSEED to try; repeatable."
)
@click.option("--drive", metavar="openai:URL", help="Run eight prompts on the engine behind zmq:…, by its API.")
@click.option("--json", "json_file", type=_FILE, help="Write the diagnosis as JSON to this file.")
@click.option("--draft", "draft_file", type=_FILE, help="Write a draft of a conformance statement to this file.")
@click.option("--quiet", is_flag=True, help="No report; the exit code and the files say it all.")
@curve_options
def doctor(
    names: tuple[str, ...],
    seconds: float,
    expect: Path | None,
    seeds: tuple[str, ...],
    drive: str | None,
    json_file: Path | None,
    draft_file: Path | None,
    quiet: bool,
    curve: Curve | None,
) -> int:
    """Say what is on a stream: TARGET is a publisher or a recording. It attacks nothing.

    \b
    kvwire doctor 'zmq:tcp://HOST:5557'
    kvwire doctor 'zmq:tcp://HOST:5557' --expect router.toml      what does my router assume wrongly?
    kvwire doctor 'zmq:tcp://A:5557' 'zmq:tcp://B:5557'           do two workers hash one prompt alike?
    kvwire doctor 'zmq:tcp://HOST:5557' --drive openai:http://HOST:8000/v1    is reused what is announced?
    kvwire doctor run.kvtrace --draft kvwire.toml

    It listens only, but for --drive, or an adapter (exec:…): then a few prompts are run, and what is announced of each
    is held against what is reused. The streams of several targets are compared by the prompts that they share.

    Exit codes: 0 nothing was found that keeps a consumer from hits, 1 something was, 2 usage, 3 nothing was heard,
    130 interrupted (what was heard is told).
    """  # noqa: D301 - click reads the \b
    expected = _expected(expect)
    for path, option in ((json_file, "--json"), (draft_file, "--draft")):
        if path is not None:
            writable(path, option)
    if drive is not None and len(names) > 1:
        raise click.UsageError(f"--drive is for one target, and there are {len(names)}")
    traces: list[tuple[str, Trace]] = []
    for name in names:
        traces.append((reading.named(name), heard(name, seconds, drive, curve)))
        if traces[-1][1].interrupted:
            break
    diagnosis = diagnose(traces, expected, seeds)
    made = (
        (json_file, ascii_json(msgspec.json.format(msgspec.json.encode(diagnosis), indent=1)) + b"\n"),
        (draft_file, draft(diagnosis.streams).encode()),
    )
    written = wrote((path, content) for path, content in made if path is not None)
    if not quiet:
        render(diagnosis, screen())
    return Exit.ERROR if not written else _exit(diagnosis, interrupted=traces[-1][1].interrupted)


def _exit(diagnosis: Diagnosis, *, interrupted: bool) -> Exit:
    if interrupted:
        return Exit.INTERRUPTED
    if not any(profile.batches for profile in diagnosis.streams):
        return Exit.INCONCLUSIVE
    return Exit.CONFORMANT if diagnosis.clean else Exit.NOT_CONFORMANT


def _expected(path: Path | None) -> Expectation | None:
    if path is None:
        return None
    try:
        return expectation.read(path)
    except ExpectationError as error:
        raise click.UsageError(str(error)) from None


def heard(name: str, seconds: float, drive: str | None = None, curve: Curve | None = None) -> Trace:
    """The recording of that name, or what a target lets be heard in so many seconds; one that can be driven is."""
    try:
        if not name.partition(":")[0].isalpha() and Path(name).is_file() and not name.endswith(".toml"):
            name = f"trace:{name}"
        target = parse(name)
        if drive is not None:
            target = targets.drive(target, drive)
        if isinstance(target, TraceTarget):
            return files.read(target.path)
    except (TargetError, TraceError) as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.UsageError(f"{name}: {error.strerror}") from None
    limits = Limits(listen_s=seconds, handshake_s=min(5.0, max(2.0, seconds)))
    with Endings(), progressing() as progress:
        how = Settings(probes=("live", "reuse"), limits=limits, deadline_s=seconds + 5.0)
        return run(target, how, progress, Recorder(curve=curve), alone=True)
