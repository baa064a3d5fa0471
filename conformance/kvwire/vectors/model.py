"""The files of ``vectors/`` as typed values: header, notes, groups, tests, and what a test asks and expects.

A test has ``input`` (what an implementation is given) and ``expected`` (what it has to answer). ``result`` is

* ``valid``: it must answer what is expected,
* ``invalid``: it must refuse; ``expected.fault`` names the one fault, ``expected.layer`` where it must be noticed,
* ``acceptable``: it may answer what is expected or refuse; ``cites`` quotes the sentence that leaves it open.

64-bit numbers are decimal strings by field, bytes lower-case hex.
"""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

import msgspec

from kvwire.judges.verdict import Verdict
from kvwire.standard.registry import ControlLevel

Result = Literal["valid", "invalid", "acceptable"]
Layer = Literal["frame", "msgpack", "schema", "semantics"]
"""Where a fault must be noticed: the ZeroMQ frames; the bytes as one msgpack value; types, keys and ranges;
what relates values of a batch to each other or to the stream."""

EDITION = "1"


class Note(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a flag, a mistake or a fault means. ``feature`` groups boundaries in the coverage table."""

    kind: Literal["boundary", "origin", "property", "legacy", "fault", "mistake"]
    description: str
    feature: str | None = None
    requirements: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


class Cite(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The sentence of the standard that leaves an answer open: its chapter, its words, its id if it has one."""

    chapter: str
    sentence: str
    requirement: str | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """``count`` tokens: ``start``, ``start + step``, …; written ``{"from": …, "count": …, "step": …}``."""

    start: int = msgspec.field(name="from")
    count: int
    step: int


TokenItem = int | str | Run
"""A token id, a digest of 64 hex digits, or a run of ids."""


class MmKey(msgspec.Struct, frozen=True, kw_only=True):
    """A multimodal key of a block: digest in hex, and the index within the item of its first token in the block."""

    hash: str
    start_offset: int


class HashInput(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A chain of blocks. It begins at the root of its reuse scope, or behind ``parent`` (a hash) or ``parent_key``.

    ``tokens`` are cut into blocks of ``block_size``; the last may be partial. ``salt`` is text, of which ``salt_id`` is
    the id, ``scope_key`` (hex) a deployment key. ``extra_ids`` holds one id per token; ``mm_keys`` and ``extra_keys``
    one entry per block.
    """

    tokens: tuple[TokenItem, ...] = ()
    block_size: int | None = None
    parent: str | None = None
    parent_key: str | None = None
    lora_id: str | None = None
    lora_name: str | None = None
    salt: str | None = None
    salt_id: str | None = None
    scope_key: str | None = None
    extra_ids: tuple[str, ...] | None = None
    mm_keys: tuple[tuple[MmKey, ...], ...] | None = None
    extra_keys: tuple[Any, ...] | None = None


class HashExpected(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The hash of the last block, unsigned and signed, and its 32-byte key where the function has one.

    ``tag`` is the scope tag of a salt. ``chain`` lists the answers of all blocks, the last included, where there are
    several: unsigned hashes, or keys where the answer is a key.
    """

    unsigned: str | None = None
    signed: str | None = None
    key: str | None = None
    tag: str | None = None
    chain: tuple[str, ...] | None = None
    fault: str | None = None


class WireInput(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A payload; ``encodings`` are other legal encodings of the same value, each of which must be answered alike."""

    payload: str
    encodings: tuple[str, ...] = ()


class WireExpected(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The JSON projection of the payload (unset where there is none), and of an invalid one the fault and its layer.

    ``also``: further faults, which legacy forms and bytes from elsewhere can have. ``form`` names a legacy form.
    """

    projection: Any = msgspec.UNSET
    layer: Layer | None = None
    fault: str | None = None
    also: tuple[str, ...] = ()
    form: str | None = None


class EnvelopeInput(msgspec.Struct, frozen=True, kw_only=True):
    """The frames of one live message, as a SUB socket reads them."""

    frames: tuple[str, ...]


class EnvelopeExpected(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Topic and payload as bytes, and the number."""

    topic: str | None = None
    sequence: str | None = None
    payload: str | None = None
    layer: Layer | None = None
    fault: str | None = None


class ReplayInput(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A request (``frames``, as a DEALER sends them) or an answer (``messages``, as a DEALER reads them).

    ``start`` is what was asked for, ``live`` the frames of live messages seen before, ``extensions`` what the publisher
    declares. An answer ends where nothing more came before the deadline.
    """

    frames: tuple[str, ...] | None = None
    start: str | None = None
    extensions: tuple[str, ...] = ()
    live: tuple[tuple[str, ...], ...] = ()
    messages: tuple[tuple[str, ...], ...] | None = None


class ReplayExpected(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Of a request its ``start``; of an answer its form, the numbers in it, and what it says to the client.

    ``outcome``: ``complete`` (contiguous, with end marker), ``empty`` (end marker alone), ``hole`` (a number is
    missing between two, with end marker), ``no-end`` (no end marker: incomplete).
    """

    start: str | None = None
    form: Literal["replay-topic", "replay-bare"] | None = None
    outcome: Literal["complete", "empty", "hole", "no-end"] | None = None
    numbers: tuple[str, ...] | None = None
    layer: Layer | None = None
    fault: str | None = None


class EndpointInput(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What an operator configures once, and the place of one rank. No ephemeral port is asked for."""

    endpoint: str
    replay: str | None = None
    rank: int
    world: int
    ranks_per_host: int


class EndpointExpected(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the rank binds; or the fault, and the configured endpoints of which the error must name one, if any."""

    publish: str | None = None
    replay: str | None = None
    fault: str | None = None
    names: tuple[str, ...] = ()


class ConsumerStream(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A stream that a consumer follows, and what it was told of it: whether there is replay, and what is declared."""

    name: str
    replay: bool = True
    algorithm: str | None = None
    residency: Literal["set", "counted"] = "set"


class Step(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What happens to a consumer on one stream.

    ``connected``, ``disconnected``: its subscription. ``live``: messages on it. ``replayed``: messages of the answer to
    the request sent last. ``ended``: the end marker of that answer; ``deadline``: it did not come in time.
    ``messages`` are pairs of number and batch. ``look``: the other members say which prompt is looked up, and where.
    """

    stream: str
    event: Literal["connected", "disconnected", "live", "replayed", "ended", "deadline", "look"]
    messages: tuple[tuple[str, str], ...] = ()
    tokens: tuple[int, ...] = ()
    medium: str | None = None
    group: int = 0
    lora_id: str | None = None
    lora_name: str | None = None
    salt: str | None = None


class ConsumerInput(msgspec.Struct, frozen=True, kw_only=True):
    """Streams, payloads by name, and what happens, in order."""

    streams: tuple[ConsumerStream, ...]
    batches: dict[str, str]
    steps: tuple[Step, ...]


class Held(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What is resident in one location, of one function: unsigned hashes, ascending."""

    medium: str | None
    group: int
    locality: str | None = None
    ownership: str | None = None
    algorithm: str | None = None
    hashes: tuple[str, ...]


class State(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a consumer knows of the stream of a step, after it.

    ``asks``: the start of the replay request that the step leads to, absent if it leads to none. ``last``: number of
    the batch applied last, absent before the first. ``sure``: whether what is not held is known to be absent.
    ``holds`` is absent, and ``last`` too, while an answer is read, of which a consumer can apply much or little.
    Of a look-up: ``finds``, the leading full blocks that are resident, and ``reproduces``, whether the function of the
    stream makes its hashes, absent as long as none could be checked.
    """

    asks: str | None = None
    last: str | None = None
    sure: bool
    holds: tuple[Held, ...] | msgspec.UnsetType = msgspec.UNSET
    finds: int | None = None
    reproduces: bool | None = None


class ConsumerExpected(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The state after each step."""

    steps: tuple[State, ...]
    fault: str | None = None


class SessionInput(msgspec.Struct, frozen=True, kw_only=True):
    """A run: its level of control, the profile that it is held to, and its trace, a path in ``vectors/``."""

    level: ControlLevel
    profile: str
    trace: str


Said = int | Verdict
"""The verdict on one requirement; a PASS is the number of its witnesses."""


class SessionExpected(msgspec.Struct, frozen=True, kw_only=True):
    """The exit code of the whole; by stream and requirement what is said otherwise than the group says."""

    exit: int | None
    verdicts: dict[str, dict[str, Said]]


Input = TypeVar("Input")
Expected = TypeVar("Expected")


class Test(msgspec.Struct, Generic[Input, Expected], frozen=True, omit_defaults=True, kw_only=True):
    """One test. ``mistakes``: by name, what a known mistake would answer, where that is not the right answer."""

    __test__ = False
    id: str
    comment: str
    flags: tuple[str, ...]
    requirements: tuple[str, ...]
    result: Result
    cites: Cite | None = None
    input: Input
    expected: Expected
    mistakes: dict[str, str] = {}


class Group(msgspec.Struct, Generic[Input, Expected], frozen=True, omit_defaults=True, kw_only=True):
    """Tests of one function or one subject. Hash groups name their ``algorithm``; ``width`` is the bytes of a token.

    ``informative``: not a function of the standard's own registry, or one that a new publisher does not use.
    Sessions of one profile and level are a group; ``otherwise`` is the verdict on what a session of it does not name.
    """

    name: str
    comment: str
    algorithm: str | None = None
    width: int | None = None
    informative: bool = False
    otherwise: dict[str, Verdict] = {}
    tests: tuple[Test[Input, Expected], ...]


class File(msgspec.Struct, Generic[Input, Expected], frozen=True, kw_only=True):
    """One file of tests; ``count`` is the number of its tests."""

    schema: str
    spec_edition: str
    generator: str
    count: int
    notes: dict[str, Note]
    groups: tuple[Group[Input, Expected], ...]

    @property
    def tests(self) -> tuple[Test[Input, Expected], ...]:
        """All tests, in the order of the groups."""
        return tuple(test for group in self.groups for test in group.tests)


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """One file in the manifest: its path in ``vectors/``, schema, size and digest, and the ids of its tests."""

    path: str
    schema: str
    bytes: int
    sha256: str
    count: int
    ids: tuple[str, ...]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """``MANIFEST.json``: every data file of an edition; ``count`` is the number of ids."""

    schema: str
    spec_edition: str
    generator: str
    count: int
    files: tuple[Listed, ...]


HashFile = File[HashInput, HashExpected]
WireFile = File[WireInput, WireExpected]
EnvelopeFile = File[EnvelopeInput, EnvelopeExpected]
ReplayFile = File[ReplayInput, ReplayExpected]
EndpointFile = File[EndpointInput, EndpointExpected]
ConsumerFile = File[ConsumerInput, ConsumerExpected]
SessionFile = File[SessionInput, SessionExpected]
AnyFile = File[Any, Any]

SESSION_SCHEMA = "kvwire/vectors/session/2"
FILE_TYPES: dict[str, Any] = {
    "kvwire/vectors/hash/1": HashFile,
    "kvwire/vectors/wire/1": WireFile,
    "kvwire/vectors/envelope/1": EnvelopeFile,
    "kvwire/vectors/replay/1": ReplayFile,
    "kvwire/vectors/endpoint/1": EndpointFile,
    "kvwire/vectors/consumer/1": ConsumerFile,
    SESSION_SCHEMA: SessionFile,
}
"""The type of a file of tests, by its ``schema``."""
MANIFEST_SCHEMA = "kvwire/vectors/manifest/1"
TRACE_SCHEMA = "kvwire/vectors/trace/1"
"""What the manifest says of a trace file (spec/schemas/trace.schema.json)."""
