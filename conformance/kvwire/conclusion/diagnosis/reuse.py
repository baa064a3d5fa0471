"""Announced against reused: of each prompt that was run, how much the stream announced just before, medium by medium,
and how much the engine says that it reused.

Prompts without an adapter, a salt and items only: which blocks of others are theirs, the wire does not say.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kvwire.cache.chains import NOTHING, Text, Window, longer
from kvwire.conclusion.diagnosis.residents import Residents
from kvwire.trace.calls import CacheCall
from kvwire.trace.records import StreamInfo, Trace
from kvwire.wire.dialect import read
from kvwire.wire.events import Event, group_kind
from kvwire.wire.framing import split_live


class Reused(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One prompt: its record and tokens, those that were ``cached`` as the engine says, and those of its prefix that
    stood announced: in each medium, and ``anywhere``, block by block in one medium or another.

    ``parting`` is the first block, of ``size`` tokens, on which they part; None where they agree.
    """

    stream: str
    record: int
    tokens: int
    size: int
    cached: int
    announced: dict[str, int]
    anywhere: int
    parting: int | None = None

    @property
    def said(self) -> str:
        """In a line."""
        media = ", ".join(f"{name} {count}" for name, count in sorted(self.announced.items())) or "none"
        text = f"prompt of {self.tokens} tokens (record {self.record}): {self.cached} reused, announced {media}"
        if len(self.announced) > 1:
            text += f", across media {self.anywhere}"
        if self.parting is None:
            return text
        block = f"block {self.parting} (tokens {self.parting * self.size} to {(self.parting + 1) * self.size - 1})"
        if self.cached > self.anywhere:
            return f"{text}: {block} was reused and stands announced nowhere, so that a consumer misses hits"
        return f"{text}: {block} stands announced and was not reused, so that a consumer counts on what is not there"


def reuse(trace: Trace, info: StreamInfo) -> tuple[Reused, ...]:
    """Every plain prompt of a stream, held against what stood announced when it was run."""
    return tuple(_follow(trace, info))


def _follow(trace: Trace, info: StreamInfo) -> Iterator[Reused]:
    held = _Announced()
    newest = -1
    for index, record in enumerate(trace.records):
        if record.stream != info.name:
            continue
        if record.frames is not None and record.is_live and (split := split_live(record.frames)) is not None:
            number, payload = split
            if number > newest:  # else the other witness's copy
                newest = number
                for event in read(payload).events:
                    held.take(event, number)
        call = record.detail
        if not isinstance(call, CacheCall) or not call.succeeded or call.cached_tokens is None or not held.size:
            continue
        if call.lora is None and call.salt is None and not call.mm:
            tokens = [token for token in call.tokens if isinstance(token, int)]
            if len(tokens) == len(call.tokens):
                yield held.compare(info.name, index, tokens, call.cached_tokens)


class _Announced:
    """What stands announced, by the tokens of prefixes."""

    def __init__(self) -> None:
        self.size = 0
        self._residents = Residents()
        self._texts: Window[int, Text] = Window()
        self._hashes: dict[Text, set[int]] = {}

    def take(self, event: Event, number: int) -> None:
        self._residents.take(event, number)
        if event.kind != "stored" or not event.whole or event.tokenless:
            return
        if group_kind(event.group, event.spec_kind, event.window) != "dense":
            return
        self.size = min(self.size or event.block_size or 0, event.block_size or 0)
        above = NOTHING if event.parent is None else self._texts.get(event.parent)
        for index, value in enumerate(event.hashes):
            if above is None:
                return
            above = longer(above, event.block(index))
            self._texts.put(value, above)
            self._hashes.setdefault(above, set()).add(value)

    def compare(self, stream: str, record: int, tokens: list[int], cached: int) -> Reused:
        size = self.size
        media: dict[str, set[int]] = {}
        for location, blocks in self._residents.held.items():
            media.setdefault(str(location.medium), set()).update(blocks)
        counts = dict.fromkeys((name for name, blocks in media.items() if blocks), 0)
        whole, above = 0, NOTHING
        for at in range(0, len(tokens) - size + 1, size):
            above = longer(above, tokens[at : at + size])
            hashes = self._hashes.get(above, set())
            there = [name for name, blocks in media.items() if not blocks.isdisjoint(hashes)]
            for name in there:
                counts[name] += size * (counts[name] == at)
            whole += size * (whole == at and bool(there))
        return Reused(
            stream=stream,
            record=record,
            tokens=len(tokens),
            size=size,
            cached=cached,
            announced=counts,
            anywhere=whole,
            parting=_parting(len(tokens), size, cached, whole),
        )


def _parting(tokens: int, size: int, cached: int, announced: int) -> int | None:
    """The first block on which the two part. An engine computes at least one token: of a prompt that is announced as a
    whole its last block may be left out.
    """
    least = min(announced, (tokens - 1) // size * size)
    if least // size <= cached // size <= announced // size:
        return None
    return min(announced, cached) // size
