"""Payloads and their projections (spec/batch.md, spec/event.md, spec/projection.md, spec/legacy.md)."""

from __future__ import annotations

from typing import Any

import msgspec

from kvwire.vectors.model import Group, Layer, WireExpected, WireFile, WireInput
from kvwire.wire.msgpack import WireError, walk
from kvwire.wire.projection import project_batch
from kvwire_generators import corpus
from kvwire_generators.corpus import Row
from kvwire_generators.making import cite, make
from kvwire_generators.wire import encodings, events, fields, invalid, legacy, proposals, valid
from kvwire_generators.wire.events import Payload, WireGroup, WireTest
from kvwire_generators.wire.invalid import Bad
from kvwire_generators.wire.msgpack_forms import pack

SCHEMA = "kvwire/vectors/wire/1"
NOTES = {**events.NOTES, **invalid.NOTES, **legacy.NOTES, **corpus.NOTES, **proposals.NOTES}
ENCODED = ("KVW-EVT-025",)


def projected(payload: bytes) -> Any:
    """The projection of a payload; unset where it is not one well-formed value."""
    try:
        return project_batch(walk(payload))
    except WireError:
        return msgspec.UNSET


def _valid(item: Payload, payload: bytes, others: tuple[bytes, ...] = ()) -> WireTest:
    return WireTest(
        id=f"wire-{item.slug}",
        comment=item.comment,
        flags=item.flags,
        requirements=tuple(sorted(item.requirements or (ENCODED if others else ("KVW-EVT-001",)))),
        result="valid",
        input=WireInput(payload=payload.hex(), encodings=tuple(other.hex() for other in others)),
        expected=WireExpected(projection=projected(payload)),
    )


def _invalid(item: Bad) -> WireTest:
    return WireTest(
        id=f"wire-{item.slug}",
        comment=item.comment,
        flags=(item.form,) if item.form in NOTES else (),
        requirements=tuple(sorted({r for name in (item.fault, *item.also) for r in NOTES[name].requirements})),
        result="invalid",
        input=WireInput(payload=item.payload.hex()),
        expected=WireExpected(
            projection=projected(item.payload), layer=item.layer, fault=item.fault, also=item.also, form=item.form
        ),
    )


LAYERS: dict[str, Layer] = {
    bad.fault: bad.layer for _, _, items in (*legacy.payloads(), *fields.payloads()) for bad in items
} | {"token-range": "schema"}
"""The layer at which a fault is noticed in bytes from elsewhere."""


def _found(row: Row) -> WireTest:
    first = row.faults[0] if row.faults else None
    return WireTest(
        id=row.id,
        comment=row.comment,
        flags=(*row.flags, row.form) if row.form is not None else row.flags,
        requirements=tuple(sorted({r for name in row.faults for r in NOTES[name].requirements})),
        result="valid" if first is None else "invalid",
        input=WireInput(payload=row.payload.hex()),
        expected=WireExpected(
            projection=projected(row.payload),
            layer=None if first is None else LAYERS[first],
            fault=first,
            also=row.faults[1:],
            form=row.form,
        ),
    )


def _found_file(name: str, comment: str, rows: tuple[Row, ...]) -> WireFile:
    group = WireGroup(name=name, comment=comment, tests=tuple(map(_found, rows)))
    return make(SCHEMA, __name__, [group], NOTES)


def _valid_file() -> WireFile:
    groups: list[WireGroup] = [
        Group(name=name, comment=comment, tests=tuple(_valid(item, payload) for item, payload in items))
        for name, comment, items in valid.payloads()
    ]
    return make(SCHEMA, __name__, groups, NOTES)


def _encodings_file() -> WireFile:
    groups: list[WireGroup] = [
        Group(name=name, comment=comment, tests=tuple(_valid(*item) for item in items))
        for name, comment, items in encodings.payloads()
    ]
    return make(SCHEMA, __name__, groups, NOTES)


def _bad_file(sections: list[tuple[str, str, list[Bad]]]) -> WireFile:
    groups: list[WireGroup] = [
        Group(name=name, comment=comment, tests=tuple(map(_invalid, items))) for name, comment, items in sections
    ]
    return make(SCHEMA, __name__, groups, NOTES)


def _proposals_file() -> WireFile:
    replace = msgspec.structs.replace
    salts = [
        replace(_valid(item, pack(item.value)), result="acceptable", cites=cite("KVW-EVT-019"))
        for item in proposals.salted()
    ]
    taken = [_valid(item, pack(item.value)) for item in proposals.taken()]
    refused = [replace(_invalid(item), flags=(proposals.FORBIDDEN[item.slug],)) for item in proposals.refused()]
    groups: list[WireGroup] = [
        Group(
            name="salts",
            comment="Salts in clear, which are right where they are declared; no payload says so.",
            tests=tuple(salts),
        ),
        Group(name="tolerated and adopted", comment="What a reader takes.", tests=tuple(taken)),
        Group(name="forbidden", comment="What a sentence forbids.", tests=tuple(refused)),
    ]
    return make(SCHEMA, __name__, groups, NOTES)


def files() -> dict[str, WireFile]:
    """The files of ``wire/``."""
    return {
        "wire/valid.json": _valid_file(),
        "wire/encodings.json": _encodings_file(),
        "wire/invalid.json": _bad_file(fields.payloads()),
        "wire/legacy.json": _bad_file(legacy.payloads()),
        "wire/proposals.json": _proposals_file(),
        "wire/corpus.json": _found_file(
            "corpus", "Payloads that were fed to decoders of other projects.", corpus.corpus()
        ),
        "wire/captured.json": _found_file("captured", "Payloads that real encoders wrote.", corpus.captured()),
    }
