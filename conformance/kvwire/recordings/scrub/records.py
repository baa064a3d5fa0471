"""Everything in a recording beside payloads: frames, what was asked of the publisher and what it said, the header."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from kvwire.recordings.scrub.payloads import Payloads, hex_token
from kvwire.recordings.scrub.secrets import Secrets, signed
from kvwire.standard.statement import Statement
from kvwire.trace.calls import (
    BoundAt,
    BurstCall,
    CacheCall,
    Call,
    HelloCall,
    Place,
    PublishCall,
    ResidentCall,
    RestartCall,
    StartCall,
)
from kvwire.trace.detail import Detail, UnknownDetail
from kvwire.trace.marks import (
    EndpointSeen,
    Freed,
    Noise,
    ProcessExit,
    ProcessStart,
    RankWait,
    Reach,
    Trouble,
    Unreachable,
)
from kvwire.trace.records import Header, Record, StreamInfo
from kvwire.wire.endpoint_rules import NO_REPLAY
from kvwire.wire.events import TWO_64

WORDS = "free words of publisher, adapter and harness, of which only endpoints are left"
OUTPUT = "what processes printed, and their commands, left out"
UNKNOWN = "records of kinds that this harness does not know, left without what they tell"
CURVE = "keys of CURVE, left out"
_OURS = re.compile(r"(?:rank|stream|instance)-\d+\Z")
_ENDS = re.compile(r"(?:exit code|signal) \S+\Z")
NUMBER_BYTES = 8


def _is_text(frame: bytes) -> bool:
    """Whether what stands where the number does was written by somebody: a topic, out of place. Digits are a number."""
    try:
        text = frame.decode()
    except UnicodeDecodeError:
        return False
    return len(frame) > 2 and text.isprintable() and not text.isdecimal()


class Records:
    """Rewrites records and headers."""

    def __init__(self, secrets: Secrets, payloads: Payloads, named: Counter[str]) -> None:
        self._secrets = secrets
        self._payloads = payloads
        self._named = named

    # frames

    def record(self, record: Record) -> Record:
        """A record."""
        frames = None if record.frames is None else self._frames(record.frames)
        detail = None if record.detail is None else self._detail(record.detail)
        return msgspec.structs.replace(record, stream=self.stream(record.stream), frames=frames, detail=detail)

    def _frames(self, frames: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """A message: its payload last, the number before it, and topics or nothing before that."""
        *before, payload = frames or (b"",)
        if before and not _is_text(before[-1]):
            *before, number = before
            return (*map(self._secrets.topic, before), number, self._payloads.payload(payload))
        new = [self._secrets.topic(frame) for frame in before]
        if before and len(before[-1]) == NUMBER_BYTES:
            new[-1] = new[-1][:NUMBER_BYTES]
        return (*new, self._payloads.payload(payload)) if frames else ()

    def stream(self, name: str) -> str:
        """The name of a stream; those that the harness gives stay."""
        return name if not name or _OURS.match(name) else self._secrets.text(name)

    # details

    def _words(self, text: str | None) -> str | None:
        if text is None:
            return None
        found = self._secrets.words(text)
        self._named[WORDS] += found != text
        return found

    def _detail(self, detail: Detail) -> Detail:
        if isinstance(detail, Call):
            detail = msgspec.structs.replace(
                self._call(detail), refused=self._words(detail.refused), error=self._words(detail.error)
            )
        match detail:
            case EndpointSeen():
                hosts = self._secrets.host
                return msgspec.structs.replace(
                    detail,
                    endpoint=self._secrets.endpoint(detail.endpoint),
                    listening=None if detail.listening is None else tuple(map(hosts, detail.listening)),
                    addresses=None if detail.addresses is None else tuple(map(hosts, detail.addresses)),
                )
            case Unreachable() | Reach() | Freed():
                return msgspec.structs.replace(detail, endpoint=self._secrets.endpoint(detail.endpoint))
            case Trouble():
                return msgspec.structs.replace(detail, text=self._words(detail.text) or "…")
            case RankWait():
                return msgspec.structs.replace(detail, why=self._words(detail.why) or "")
            case ProcessStart() | ProcessExit() | Noise():
                return self._process(detail)
            case UnknownDetail():
                self._named[UNKNOWN] += 1
                return UnknownDetail(event=detail.event, raw={})
        return detail

    def _process(self, detail: ProcessStart | ProcessExit | Noise) -> Detail:
        self._named[OUTPUT] += 1
        match detail:
            case ProcessStart():
                return ProcessStart(command=("…",))
            case ProcessExit():
                how = detail.how if _ENDS.match(detail.how) else "…"
                stderr = None if detail.stderr is None else ()
                return msgspec.structs.replace(detail, how=how, stderr=stderr)
        return Noise(line="…")

    def _call(self, call: Call) -> Call:
        match call:
            case PublishCall(batch=Mapping() as batch):
                return msgspec.structs.replace(call, batch=self._payloads.projected(batch))
            case BurstCall(batches=batches):
                return msgspec.structs.replace(call, batches=tuple(map(self._payloads.projected, batches)))
            case CacheCall():
                return self._cache(call)
            case ResidentCall():
                places = call.places
                return msgspec.structs.replace(
                    call,
                    hashes=None if call.hashes is None else tuple(map(self._decimal, call.hashes)),
                    places=None if places is None else tuple(map(self._place, places)),
                )
            case StartCall():
                self._named[CURVE] += call.curve is not None
                return msgspec.structs.replace(
                    call,
                    endpoint=self._endpoint(call.endpoint),
                    replay=self._endpoint(call.replay),
                    topic=self._topic(call.topic),
                    curve=None if call.curve is None else {},
                    bound=self._bound(call.bound),
                )
            case RestartCall():
                return msgspec.structs.replace(call, bound=self._bound(call.bound))
            case HelloCall(statement=Mapping() as statement):
                return msgspec.structs.replace(call, statement=self._raw_statement(statement))
        return call

    def _decimal(self, text: str) -> str:
        value = int(text)
        return str(signed(self._payloads.hash(value % TWO_64), value))

    def _place(self, place: Place) -> Place:
        return msgspec.structs.replace(place, hashes=tuple(map(self._decimal, place.hashes)))

    def _cache(self, call: CacheCall) -> CacheCall:
        secrets = self._secrets
        items = None if call.mm is None else tuple(map(self._item, call.mm))
        return msgspec.structs.replace(
            call,
            tokens=tuple(hex_token(secrets, value) for value in call.tokens),
            salt=None if call.salt is None else secrets.text(call.salt),
            mm=items,
        )

    def _item(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """A multimodal item of a prompt: a digest, and where it stands."""
        return {
            name: hex_token(self._secrets, value) if name == "digest" and isinstance(value, str) else value
            for name, value in item.items()
        }

    # places

    def _endpoint(self, text: str | None) -> str | None:
        return text if text is None or text == NO_REPLAY else self._secrets.endpoint(text)

    def _topic(self, text: str | None) -> str | None:
        return None if text is None else self._secrets.topic(text.encode()).decode()

    def _bound(self, bound: BoundAt | None) -> BoundAt | None:
        if bound is None:
            return None
        endpoint = self._secrets.endpoint(bound.endpoint)
        return msgspec.structs.replace(
            bound, endpoint=endpoint, replay=self._endpoint(bound.replay), topic=self._topic(bound.topic)
        )

    def _raw_statement(self, statement: Mapping[str, Any]) -> dict[str, Any]:
        """The statement of an adapter, as it was said."""
        rules = {"endpoint": self._endpoint, "replay": self._endpoint, "topic": self._topic, "name": self._name}
        streams = [
            {key: rules[key](value) if key in rules and isinstance(value, str) else value for key, value in one.items()}
            for one in statement.get("streams", ())
        ]
        changed = dict(statement)
        if "streams" in statement:
            changed["streams"] = streams
        if isinstance(statement.get("default_endpoint"), str):
            changed["default_endpoint"] = self._endpoint(statement["default_endpoint"])
        return changed

    def _name(self, name: str | None) -> str:
        return self.stream(name or "")

    def header(self, header: Header) -> Header:
        """A header."""
        return msgspec.structs.replace(
            header,
            target=self._secrets.target(header.target),
            drive="openai:…" if header.drive else "",
            statement=self._statement(header.statement),
            streams=tuple(map(self._stream, header.streams)),
            plan=tuple(msgspec.structs.replace(one, said=self._words(one.said) or "") for one in header.plan),
        )

    def _statement(self, statement: Statement) -> Statement:
        streams = tuple(
            msgspec.structs.replace(
                stream,
                endpoint=self._secrets.endpoint(stream.endpoint),
                name=self.stream(stream.name),
                replay=self._endpoint(stream.replay),
                topic=self._topic(stream.topic),
            )
            for stream in statement.streams
        )
        default = self._endpoint(statement.default_endpoint)
        return msgspec.structs.replace(statement, streams=streams, default_endpoint=default)

    def _stream(self, stream: StreamInfo) -> StreamInfo:
        return msgspec.structs.replace(
            stream,
            name=self.stream(stream.name),
            endpoint=self._secrets.endpoint(stream.endpoint),
            replay=self._endpoint(stream.replay),
            topic=self._topic(stream.topic),
        )
