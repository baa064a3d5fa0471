"""The vectors that this installation carries, as typed values."""

from __future__ import annotations

import functools

import msgspec

from kvwire.standard import reading, resources
from kvwire.standard.registry import UnknownNameError
from kvwire.vectors import manifest
from kvwire.vectors.model import FILE_TYPES, AnyFile, Manifest

SUFFIX = ".json"


class _Head(msgspec.Struct):
    schema: str


_head = msgspec.json.Decoder(_Head)


@functools.cache
def contents() -> Manifest:
    """The manifest: every data file, its digest, and the ids of its tests."""
    return manifest.read(resources.vectors())


def names() -> tuple[str, ...]:
    """The names of the files of tests, as ``load`` takes them."""
    return tuple(entry.path.removesuffix(SUFFIX) for entry in contents().files if entry.schema in FILE_TYPES)


def decode(data: bytes) -> AnyFile:
    """A file of tests from its bytes.

    Raises:
        msgspec.MsgspecError: when it is none.
        UnknownNameError: when its schema is not known.
    """
    schema = reading.json(_head.decode, data).schema
    if schema not in FILE_TYPES:
        raise UnknownNameError(f"no schema {schema!r}; there are {', '.join(FILE_TYPES)}")
    file: AnyFile = reading.json(msgspec.json.Decoder(FILE_TYPES[schema]).decode, data)
    return file


def load(name: str) -> AnyFile:
    """A file of tests by its name, as ``hash/v1_block_key``; its inputs and answers are typed as its kind says.

    Raises:
        UnknownNameError: when there is none of that name; the message lists what there is.
    """
    if name not in names():
        raise UnknownNameError(f"no vectors {name!r}; there are {', '.join(names())}")
    return decode((resources.vectors() / f"{name}{SUFFIX}").read_bytes())
