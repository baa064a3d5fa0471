"""A recording without its prompts, to be given away: token ids, salts, names, topics and hosts are replaced.

Everything is a bijection with a key, so that equal things stay equal; hashes are computed again where their function is
known. Passes over the recording: what secrets there are and by which function its hashes are computed, then what they
become, then the writing. Memory grows with the distinct blocks of the recording.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from kvwire.recordings.scrub.hashing import Hashes
from kvwire.recordings.scrub.payloads import Payloads
from kvwire.recordings.scrub.records import Records
from kvwire.recordings.scrub.secrets import Secrets, longest_first, scope_tag
from kvwire.trace import files
from kvwire.trace.calls import BurstCall, CacheCall, PublishCall
from kvwire.trace.files import End
from kvwire.trace.records import Record
from kvwire.wire.dialect import read
from kvwire.wire.events import TWO_64, Event

PASSES = 3
"""How often functions are looked for at most: an answer to a replay request can bring parents after their children."""
COUNTED = 3
"""As many ids that count up behind a digest are synthetic ones."""
ITEM = 1 << 20
"""How many tokens an item has at most."""


def scrub(paths: Sequence[Path], into: Path, key: bytes) -> Counter[str]:
    """Write a recording anew without its prompts; what could not be kept is returned, by what it was, with counts.

    Raises:
        TraceError: when the recording cannot be read, or nothing can be written there.
    """
    named: Counter[str] = Counter()
    secrets = Secrets(key)
    hashes = Hashes(secrets)
    payloads = Payloads(secrets, hashes.new, named)
    _learn(paths, secrets, hashes, payloads)
    records = Records(secrets, payloads, named)
    with files.open_recording(*paths) as recording, files.saved(into) as encoder:
        header = recording.header if len(paths) == 1 else msgspec.structs.replace(recording.header, part=None)
        encoder.begin(records.header(header))
        for record in recording:
            encoder.add(records.record(record))
        end = recording.end
        if end is None:
            encoder.flush()
        else:
            last = end.header if end.header is msgspec.UNSET else records.header(end.header)
            if last is not msgspec.UNSET and len(paths) > 1:
                last = msgspec.structs.replace(last, part=None)
            count = end.end if len(paths) == 1 else recording.ended.records
            continued = end.continued if len(paths) == 1 else msgspec.UNSET
            encoder.end(End(end=count, interrupted=end.interrupted, header=last, continued=continued))
    return +named


def _learn(paths: Sequence[Path], secrets: Secrets, hashes: Hashes, payloads: Payloads) -> None:
    """What the recording holds: salts, synthetic ids, whether hashes are unsigned, and by what they are computed."""
    salts: set[str] = set()
    lowest: int | None = None
    for record in _records(paths):
        for lora, salt in _scopes(record):
            hashes.scope(lora, salt)
            if salt:
                salts.add(salt)
        for _, event in _events(record):
            if event.cache_salt:
                salts.add(event.cache_salt)
            payloads.unsigned = payloads.unsigned or bool(event.unsigned_hashes)
            for value in _synthetic(event):
                lowest = value if lowest is None else min(lowest, value)
    secrets.salts = longest_first(salts)
    secrets.tags = {scope_tag(salt): scope_tag(secrets.text(salt)) for salt in salts}
    if lowest is not None:
        secrets.kept = range(lowest, min(lowest + ITEM, 1 << 31))
    for _ in range(PASSES):
        known = hashes.known
        for payload, event in _stores(paths):
            hashes.seek(payload, event)
        if hashes.known == known:
            break
    for payload, event in _stores(paths):
        hashes.settle(payload, event)


def _records(paths: Sequence[Path]) -> Iterator[Record]:
    with files.open_recording(*paths) as recording:
        yield from recording


def _scopes(record: Record) -> Iterator[tuple[int | None, str | None]]:
    """The scopes that what was asked of the publisher is of."""
    match record.detail:
        case CacheCall(lora=lora, salt=salt):
            yield None if lora is None else int(lora) % TWO_64, salt
        case PublishCall(batch=batch) if batch is not None:
            yield from ((None, salt) for event in batch["events"] if isinstance(salt := event.get("cache_salt"), str))
        case BurstCall(batches=batches):
            for batch in batches:
                yield from ((None, salt) for one in batch["events"] if isinstance(salt := one.get("cache_salt"), str))


def _events(record: Record) -> Iterator[tuple[bytes, Event]]:
    if record.frames and len(record.frames) > 1:
        payload = record.frames[-1]
        yield from ((payload, event) for event in read(payload).events)


def _stores(paths: Sequence[Path]) -> Iterator[tuple[bytes, Event]]:
    """The blocks that were stored, each payload once while it is remembered."""
    seen: dict[bytes, None] = {}
    for record in _records(paths):
        if not record.frames or record.frames[-1] in seen:
            continue
        seen[record.frames[-1]] = None
        if len(seen) > 4096:
            del seen[next(iter(seen))]
        yield from ((payload, event) for payload, event in _events(record) if event.kind == "stored" and event.whole)


def _synthetic(event: Event) -> Iterator[int]:
    """The first of the ids that count up behind a digest."""
    tokens = event.tokens
    for at, digest in enumerate(tokens):
        run = tokens[at + 1 : at + 1 + COUNTED]
        first = run[0] if run else None
        if not isinstance(digest, bytes) or not isinstance(first, int) or len(run) < COUNTED:
            continue
        if list(run) == [first + step for step in range(COUNTED)]:
            yield first - 1
