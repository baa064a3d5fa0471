"""Does a result follow from a recording? It is derived again, and compared to the byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from kvwire.conclusion import expected_failures, provenance, result
from kvwire.conclusion.expected_failures import Entry
from kvwire.conclusion.result import Outcome, Recording, Result, ResultError, Total
from kvwire.conclusion.summary import Wanted
from kvwire.recordings.judging import Answer, Asked, answer, dumped, line
from kvwire.recordings.many import Tally
from kvwire.recordings.units import Unit
from kvwire.standard import reading
from kvwire.trace.captures.capture import Told

_recording, _total = msgspec.json.Decoder(Recording), msgspec.json.Decoder(Total)
OTHER_BYTES = "the same is said, in other bytes: the file was written or changed by something else"
SHOWN = 10
"""How many outcomes of one recording are named at most."""


def verified(
    raw: bytes, units: Sequence[Unit], expected: tuple[Entry, ...] | None, told: Told | None = None
) -> Iterator[str]:
    """A line for each thing in which a result stream differs from the one that the recordings have.

    ``told`` is what was said of packet captures when they were judged; no result has it.

    Raises:
        ResultError: when it is none, or was held against expected failures and none are given.
    """
    if not _is_of_many(raw):
        if len(units) != 1:
            raise ResultError(f"it is the result of one recording, and {len(units)} are given")
        yield from _one(raw, units[0], expected, told)
        return
    blocks, last = _blocks(raw)
    by_name = {unit.name: unit for unit in units}
    tally, derived, same = Tally(), bytearray(), True
    for recording, lines in blocks:
        unit = by_name.pop(recording.name, None)
        if unit is None:
            same = False
            yield f"{recording.name}: no recording of this name is given"
            continue
        again = answer(unit, _asked(lines, expected, told) if lines else Asked(told=told or Told()))
        tally.add(again)
        derived += again.dump()
        if again.dump() != line(recording) + lines:
            same = False
            yield from (f"{recording.name}: {text}" for text in _block(recording, lines, again, expected))
    yield from (f"{name}: the result does not speak of it" for name in by_name)
    if last != tally.total():
        yield "the last line, of all recordings together, is another"
    elif same and not by_name and derived + line(last) != raw:
        yield OTHER_BYTES


def _is_of_many(raw: bytes) -> bool:
    return raw.startswith(b'{"kind":"recording"')


def _blocks(raw: bytes) -> tuple[list[tuple[Recording, bytes]], Total]:
    """Each recording of a stream with the lines of its result, and the last line."""
    blocks: list[tuple[Recording, list[bytes]]] = []
    total: Total | None = None
    for number, text in enumerate(raw.splitlines(keepends=True), 1):
        try:
            if text.startswith(b'{"kind":"recording"'):
                blocks.append((reading.json(_recording.decode, text), []))
            elif text.startswith(b'{"kind":"total"'):
                total = reading.json(_total.decode, text)
            else:
                blocks[-1][1].append(text)
        except msgspec.MsgspecError as error:
            raise ResultError(f"line {number}: not of a result stream ({error})") from None
    if total is None:
        raise ResultError("the last line, `total`, is missing: the result is not whole")
    return [(recording, b"".join(lines)) for recording, lines in blocks], total


def _asked(raw: bytes, expected: tuple[Entry, ...] | None, told: Told | None) -> Asked:
    """How the recording of a result was judged."""
    run = result.parse(raw).run
    if run.expected_sha256 and expected is None:
        raise ResultError("it was held against expected failures: name the file by --expected-failures")
    return Asked(
        profile=run.profile,
        wanted=Wanted(only=tuple(run.only), strict=run.strict, allow_inconclusive=run.allow_inconclusive),
        expected=expected if run.expected_sha256 else None,
        today=run.expected_on,
        told=told or Told(),
    )


def _one(raw: bytes, unit: Unit, expected: tuple[Entry, ...] | None, told: Told | None) -> Iterator[str]:
    again = answer(unit, _asked(raw, expected, told))
    if again.result is None:
        yield again.recording.error
    elif dumped(again.result) != raw:
        yield from _differences(result.parse(raw), again.result, expected)


def _block(recording: Recording, lines: bytes, again: Answer, expected: tuple[Entry, ...] | None) -> Iterator[str]:
    if again.result is None or not lines:
        yield f"{recording.error or 'it has a result'}, and here: {again.recording.error or 'it has a result'}"
        return
    if recording != again.recording:
        yield "its records, parts or end are others"
    yield from _differences(result.parse(lines), again.result, expected)


def _differences(told: Result, here: Result, expected: tuple[Entry, ...] | None) -> Iterator[str]:
    """What differs, the causes first."""
    causes = [
        ("another standard", told.run.standard_sha256, provenance.standard()),
        ("other judges", told.run.judges_sha256, provenance.judges()),
        ("another recording", told.run.recording_sha256, here.run.recording_sha256),
    ]
    if expected is not None:
        causes.append(("other expected failures", told.run.expected_sha256, expected_failures.digest(expected)))
    named = 0
    for what, before, after in causes:
        if before != after:
            named += 1
            yield f"{what}: the result has {before or 'no digest'}, here it is {after}"
    for text in _outcomes(told, here):
        named += 1
        yield text
    lines = [
        ("streams", told.streams, here.streams),
        ("holes", told.holes, here.holes),
        ("notices", told.notices, here.notices),
        ("troubles", told.troubles, here.troubles),
        ("the summary", told.summary, here.summary),
        ("the run", _bare(told), _bare(here)),
    ]
    for what, first, second in lines:
        if first != second:
            named += 1
            yield f"{what}: not as here"
    if not named:
        yield OTHER_BYTES


def _bare(report: Result) -> object:
    """The first line without the digests, which have lines of their own."""
    names = ("standard_sha256", "judges_sha256", "recording_sha256", "expected_sha256")
    return msgspec.structs.replace(report.run, **dict.fromkeys(names, ""))


def _outcomes(told: Result, here: Result) -> Iterator[str]:
    """Verdicts that differ, then how many outcomes differ in what was counted or found."""
    before, after = _by_place(told), _by_place(here)
    verdicts: list[str] = []
    others: list[str] = []
    for place in dict.fromkeys([*before, *after]):
        first, second = before.get(place), after.get(place)
        if first == second:
            continue
        name = f"{place[0]} on {place[1]}"
        words = [str(one.verdict) if one is not None else "no outcome" for one in (first, second)]
        if words[0] != words[1]:
            verdicts.append(f"another verdict: {name}: {words[0]} in the result, {words[1]} here")
        else:
            others.append(name)
    yield from verdicts[:SHOWN]
    if len(verdicts) > SHOWN:
        yield f"… and {len(verdicts) - SHOWN} more verdicts"
    if others:
        more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
        yield f"other counts, findings or reasons: {', '.join(others[:SHOWN])}{more}"


def _by_place(report: Result) -> Mapping[tuple[str, str], Outcome]:
    return {(outcome.requirement, outcome.stream): outcome for outcome in report.outcomes}
