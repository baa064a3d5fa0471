"""The JSON projection: the one way to write a batch as JSON (spec/projection.md).

64-bit numbers are decimal strings *by field*: hashes, sequence numbers, salt ids and LoRA ids always; token ids,
sizes, group indices and ranks never. Bytes are ``{"hex": …}``, a float is ``{"float": …, "bits": …}`` (its IEEE 754
bits, big-endian, in hex), an ext value is ``{"ext": type, "hex": …}``, and a map that JSON cannot hold (a key that is
not a string, or a key twice) is ``{"map": [[key, value], …]}``. Values of unknown keys follow the same rules, with
integers beyond 2^53 as ``{"int": "…"}``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from kvwire.standard.reading import TOO_DEEP, is_deep
from kvwire.wire.msgpack import Kind, Node

DECIMAL_FIELDS = frozenset({"parent_block_hash", "lora_id"})
"""Scalar event fields whose integers are decimal strings."""
DECIMAL_LISTS = frozenset({"block_hashes"})
"""Event fields that hold an array of such integers."""
SAFE_INT = 2**53 - 1
"""The largest integer that every JSON reader keeps."""

WRAPPERS = frozenset(
    frozenset(keys) for keys in (("hex",), ("hex", "str"), ("int",), ("float", "bits"), ("ext", "hex"), ("map",))
)
"""The key sets of the projection's own objects: a map with exactly these keys is written as ``{"map": …}``."""

FIELD_ORDER = (
    "type",
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
    "kv_cache_spec_sliding_window",
    "locality",
    "ownership",
    "scope",
    "session_id",
    "mm_keys",
    "hash_algo",
    "epoch",
    "v",
)
"""The order in which known keys of an event are written; unknown keys follow, sorted."""


def float_bits(value: float) -> str:
    """The IEEE 754 double as 16 lower-case hex digits, big-endian."""
    return struct.pack(">d", value).hex()


def project_float(value: float) -> dict[str, str]:
    """A float with its bits: the decimal is for people, the bits decide."""
    return {"float": repr(value), "bits": float_bits(value)}


def read_float(projected: Any) -> float:
    """The float of its projection; a plain JSON number is taken too.

    Raises:
        ValueError: when it is neither.
    """
    if isinstance(projected, Mapping) and isinstance(projected.get("bits"), str):
        (value,) = struct.unpack(">d", bytes.fromhex(projected["bits"]))
        return float(value)
    if isinstance(projected, int | float) and not isinstance(projected, bool):
        return float(projected)
    raise ValueError(f"a float is written {{'float': …, 'bits': 16 hex digits}}, not {projected!r}")


def project_value(node: Node, *, decimal: bool = False) -> Any:
    """The projection of any msgpack value; ``decimal`` writes its integers as decimal strings."""
    match node.kind:
        case Kind.INT:
            number = int(node.value)
            if decimal:
                return str(number)
            return number if -SAFE_INT <= number <= SAFE_INT else {"int": str(number)}
        case Kind.FLOAT64 | Kind.FLOAT32:
            return project_float(float(node.value))
        case Kind.BIN:
            return {"hex": bytes(node.value).hex()}
        case Kind.STR:
            return str(node.value) if node.text_ok else {"hex": bytes(node.value).hex(), "str": "not UTF-8"}
        case Kind.ARRAY:
            return [project_value(child, decimal=decimal) for child in node.items]
        case Kind.MAP:
            return _project_map(node)
        case Kind.EXT:
            return {"ext": node.ext_type, "hex": bytes(node.value).hex()}
        case _:
            return node.value


def _project_map(node: Node) -> Any:
    keys = [key.value for key, _ in node.pairs if key.kind is Kind.STR and key.text_ok]
    if len(keys) != len(node.pairs) or len(set(keys)) != len(keys) or frozenset(keys) in WRAPPERS:
        return {"map": [[project_value(key), project_value(value)] for key, value in node.pairs]}
    by_key = {str(key.value): value for key, value in node.pairs}
    ordered = [key for key in FIELD_ORDER if key in by_key] + sorted(set(by_key) - set(FIELD_ORDER))
    return {key: project_value(by_key[key], decimal=key in DECIMAL_FIELDS or key in DECIMAL_LISTS) for key in ordered}


def project_batch(node: Node) -> Any:
    """The projection of a whole payload: ``{"ts", "events", "data_parallel_rank"}`` when it is an array of three.

    Any other payload is projected as the value that it is.
    """
    if node.kind is not Kind.ARRAY or len(node.items) != 3 or node.items[1].kind is not Kind.ARRAY:
        return project_value(node)
    ts, events, rank = node.items
    return {
        "ts": project_value(ts),
        "events": [project_value(event) for event in events.items],
        "data_parallel_rank": project_value(rank),
    }


def check_batch(projected: Mapping[str, Any]) -> None:
    """See that a projection is one of a batch of three whose events have a plain form.

    Raises:
        ValueError: when it is not; the message says what.
    """
    if is_deep(projected):
        raise ValueError(f"no batch: {TOO_DEEP}")
    try:
        struct.pack(">d", read_float(projected["ts"]))
        for event in projected["events"]:
            plain_event(event)
        rank = projected.get("data_parallel_rank")
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError, struct.error) as error:
        raise ValueError(f"no batch: {type(error).__name__}: {error}") from None
    if rank is not None and type(rank) is not int:
        raise ValueError(f"no batch: its rank is {rank!r}")


def plain_event(projected: Mapping[str, Any]) -> dict[str, Any]:
    """The event of a projection as plain values, integers as integers: what an encoder takes.

    Raises:
        ValueError: when a decimal string is none, or a value has no plain form (a text that is not UTF-8, an ext value,
            a map with a key twice).
    """
    plain: dict[str, Any] = {}
    for key, value in projected.items():
        if value is None:
            plain[key] = None
        elif key in DECIMAL_LISTS:
            plain[key] = [int(item) if isinstance(item, str) else _plain(item) for item in value]
        elif key in DECIMAL_FIELDS:
            plain[key] = int(value) if isinstance(value, str) else _plain(value)
        else:
            plain[key] = _plain(value)
    return plain


def _plain(value: Any) -> Any:
    if type(value) is int:  # most of what an event holds
        return value
    if isinstance(value, Mapping):
        if set(value) == {"hex"}:
            return bytes.fromhex(value["hex"])
        if set(value) == {"int"}:
            return int(value["int"])
        if set(value) == {"float", "bits"}:
            return read_float(value)
        if set(value) == {"map"}:
            pairs = [(_plain(key), _plain(item)) for key, item in value["map"]]
            if len(dict(pairs)) == len(pairs):
                return dict(pairs)
        if frozenset(value) in WRAPPERS:
            raise ValueError(f"{value!r} has no plain form")
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value


def batch_projection(ts: float, events: Sequence[Mapping[str, Any]], rank: int | None) -> dict[str, Any]:
    """The projection of a batch from plain values: what the harness offers through an adapter."""
    projected: list[dict[str, Any]] = []
    for event in events:
        out: dict[str, Any] = {}
        for key in [k for k in FIELD_ORDER if k in event] + sorted(set(event) - set(FIELD_ORDER)):
            value = event[key]
            if key in DECIMAL_LISTS and isinstance(value, list):
                out[key] = [str(item) for item in value]
            elif key in DECIMAL_FIELDS and isinstance(value, int):
                out[key] = str(value)
            else:
                out[key] = value
        projected.append(out)
    return {"ts": project_float(ts), "events": projected, "data_parallel_rank": rank}
