"""Expected failures: a file of what is known to be broken, and a result held against it, in both directions.

A TOML file of ``[[expected]]`` tables (``Entry``). An outcome that an entry matches is expected: it is shown as such,
and does not count for the exit code. An entry that does not come true is a failure, so that the file stays true.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from kvwire.conclusion.result import INCOMPLETE, Outcome, Result
from kvwire.conclusion.summary import Wanted, exit_of, overall
from kvwire.judges.verdict import Exit, Verdict
from kvwire.standard import reading
from kvwire.standard.registry import Registry, UnknownNameError

Expectable = Literal["FAIL", "WARN", "INCONCLUSIVE", "NOT-APPLICABLE"]
Date = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$")]
BROKEN = (Verdict.FAIL, Verdict.WARN)

HEAD = """\
# Expected failures, each with a reason. An entry that matches nothing, or in another way, fails the run.
"""
"""What a new file begins with."""


class ExpectedFailuresError(ValueError):
    """A file that is none of expected failures, or a result that none can be taken from; the message says why."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is expected of one sentence.

    ``stream`` and ``verdict`` of None: any stream; FAIL or WARN, whichever the sentence has. ``message`` is how
    ``message_of`` the outcome begins, ``*`` standing for any text. The entry counts until the day it ``expires``,
    that day included. What is ``unsteady`` may as well not occur: it depends on milliseconds, or on the machine.
    """

    id: str
    stream: str | None = None
    verdict: Expectable | None = None
    message: str | None = None
    reason: str
    link: str = ""
    expires: Date | None = None
    unsteady: bool = False

    def about(self, outcome: Outcome) -> bool:
        """Whether the outcome is of its sentence and stream."""
        return self.id == outcome.requirement and self.stream in (None, outcome.stream)

    def matches(self, outcome: Outcome) -> bool:
        """Whether the outcome is the expected one."""
        return self.about(outcome) and outcome.verdict in self.verdicts and self.says(message_of(outcome))

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The verdicts that are expected: one of them."""
        return BROKEN if self.verdict is None else (self.verdict,)

    def says(self, message: str) -> bool:
        """Whether a message begins as expected."""
        pattern = ".*".join(map(re.escape, (self.message or "").split("*")))
        return re.match(pattern, message, re.DOTALL) is not None


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    expected: tuple[Entry, ...] = ()


def message_of(outcome: Outcome) -> str:
    """What an outcome says in one line: what its first finding expected and saw, else its reason."""
    if not outcome.findings:
        return outcome.reason
    return f"{outcome.findings[0].expected}; seen {outcome.findings[0].seen}"


def read(path: Path, registry: Registry) -> tuple[Entry, ...]:
    """The entries of a file, their ids written out.

    Raises:
        ExpectedFailuresError: when there is no such file, or it is another one.
    """
    try:
        raw, text = reading.toml(path)
    except reading.TomlError as error:
        raise ExpectedFailuresError(str(error)) from None
    tables = raw.get("expected")
    for table in tables if isinstance(tables, list) else ():
        if isinstance(table, dict) and hasattr(table.get("expires"), "isoformat"):
            table["expires"] = str(table["expires"])  # TOML has dates
    try:
        entries = msgspec.convert(raw, _File).expected
    except msgspec.ValidationError as error:
        said = reading.complaint(error, raw, text)
        raise ExpectedFailuresError(f"{path}{said}: not a file of expected failures") from None
    try:
        return tuple(msgspec.structs.replace(entry, id=registry.resolve(entry.id)) for entry in entries)
    except UnknownNameError as error:
        raise ExpectedFailuresError(f"{path}: {error}") from None


# --- a result against a file -------------------------------------------------------------------------------------


def held(result: Result, entries: Sequence[Entry], today: str, wanted: Wanted) -> Result:
    """A result held against expected failures: outcomes marked, and the exit code that is left.

    ``today`` is an ISO date, beyond which an entry has expired. An interrupted run is marked, and accuses no entry.
    """
    live = [entry for entry in entries if entry.expires is None or entry.expires >= today]
    outcomes = tuple(_marked(outcome, live) for outcome in result.outcomes)
    unexpected = [] if result.summary.interrupted else list(_unexpected(outcomes, entries, live, result))
    missing = result.summary.conclusive_missing
    verdicts = [(one.requirement, Verdict.PASS if one.expected else one.verdict) for one in outcomes]
    incomplete = not INCOMPLETE.isdisjoint(result.summary.no_claim)
    code = exit_of(overall(verdicts, missing, troubled=bool(result.troubles), incomplete=incomplete), wanted)
    if unexpected and code is not Exit.ERROR:
        code = Exit.NOT_CONFORMANT
    summary = msgspec.structs.replace(
        result.summary,
        expected=sum(bool(outcome.expected) for outcome in outcomes),
        unexpected=unexpected,
        exit=None if result.summary.interrupted else int(code),
    )
    run = msgspec.structs.replace(result.run, expected_sha256=digest(entries), expected_on=today)
    return msgspec.structs.replace(result, run=run, outcomes=outcomes, summary=summary)


def digest(entries: Sequence[Entry]) -> str:
    """SHA-256 of what is expected, in hex."""
    return hashlib.sha256(msgspec.json.encode(entries, order="deterministic")).hexdigest()


def _marked(outcome: Outcome, entries: Sequence[Entry]) -> Outcome:
    entry = next((entry for entry in entries if entry.matches(outcome)), None)
    said = "" if entry is None else (entry.reason or "no reason is given") + (f" ({entry.link})" if entry.link else "")
    return msgspec.structs.replace(outcome, expected=said)


def _unexpected(
    outcomes: Sequence[Outcome], entries: Sequence[Entry], live: Sequence[Entry], result: Result
) -> Iterator[str]:
    """One line for each entry that did not come true, has expired, or gives no reason."""
    for entry in entries:
        name = entry.id if entry.stream is None else f"{entry.id} on {entry.stream}"
        about = [outcome for outcome in outcomes if entry.about(outcome)]
        if not about and result.run.only:
            continue
        if entry not in live:
            yield f"{name}: its entry expired on {entry.expires}: look again, and renew or remove it"
            continue
        if not entry.reason.strip():
            yield f"{name}: its entry gives no reason"
        if entry.unsteady or any(entry.matches(outcome) for outcome in about):
            continue
        settled = [other for other in live if other.unsteady]
        left = [outcome for outcome in about if not any(other.matches(outcome) for other in settled)]
        if left or not about:
            yield f"{name} {_instead(entry, left)}"


def _instead(entry: Entry, outcomes: Sequence[Outcome]) -> str:
    """What is there instead of what an entry expects."""
    wanted = " or ".join(entry.verdicts)
    if not outcomes:
        return f"was not judged, and {wanted} was expected: its entry matches nothing"
    outcome = min(outcomes, key=lambda one: (one.verdict not in entry.verdicts, one.verdict not in BROKEN))
    if outcome.verdict in entry.verdicts:
        how = "fails" if outcome.verdict in BROKEN else f"is {outcome.verdict}"
        return f"{how} in another way: {message_of(outcome)}; expected was: {entry.message}"
    if outcome.verdict is Verdict.PASS:
        return f"passes, and {wanted} was expected: remove its entry"
    said = f" ({message_of(outcome)})" if message_of(outcome) else ""
    return f"is {outcome.verdict}{said}, and {wanted} was expected: its entry matches nothing"


# --- a file from a result ----------------------------------------------------------------------------------------


def partial(result: Result) -> str | None:
    """Why a result does not show all that a file has to hold; None when it does."""
    if result.run.only:
        return f"it is restricted to {', '.join(result.run.only)} (--only)"
    if result.run.mode == "quick":
        return "it is of a quick run (--quick)"
    if result.summary.interrupted:
        return "its run was interrupted"
    if not INCOMPLETE.isdisjoint(result.summary.no_claim):
        return f"its run was not whole ({result.summary.headline})"
    if result.troubles:
        return f"its run was in trouble: {result.troubles[0].text}"
    return None


def lacking(result: Result, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Entries for what is not expected yet, without reasons: FAIL, WARN, and what had to be concluded and was not.

    Raises:
        ExpectedFailuresError: when the result is partial.
    """
    if why := partial(result):
        raise ExpectedFailuresError(f"{why}; expected failures are taken from a whole run")
    outcomes = [outcome for outcome in result.outcomes if not any(entry.matches(outcome) for entry in entries)]
    several = len(result.run.streams) > 1
    return tuple(
        Entry(
            id=outcome.requirement,
            stream=outcome.stream if several else None,
            verdict=msgspec.convert(outcome.verdict.value, Expectable),
            message=general(message_of(outcome)),
            reason="",
        )
        for outcome in outcomes
        if outcome.verdict in BROKEN
        or (outcome.verdict is Verdict.INCONCLUSIVE and outcome.requirement in result.summary.conclusive_missing)
    )


def general(message: str) -> str:
    """A message as a pattern: numbers, private paths, salts, and which instance it was differ from run to run."""
    message = re.sub(r"(?<![\w-])-?\d+(?![\w-])", "*", message)
    message = re.sub(r"tenant-[0-9a-f]{16}", "tenant-*", message)
    message = re.sub(r" \(instance-\d+[^)]*\)", "*", message)
    message = re.sub(r"ipc://[^\s'\"`]+", "ipc://*", message)
    return re.sub(r"\*(?:[.:,]? ?\*)+", "*", message)


def dump(entries: Sequence[Entry]) -> str:
    """Entries as they stand in a file."""
    return "".join(
        "\n[[expected]]\n"
        + "".join(
            f"{key} = {_quoted(value)}\n" for key, value in msgspec.to_builtins(entry).items() if value is not None
        )
        for entry in entries
    )


def _quoted(value: object) -> str:
    """A JSON text or boolean is one of TOML too, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
