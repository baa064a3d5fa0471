"""Payloads from elsewhere: a corpus that was fed to eight decoders, and bytes that real encoders wrote.

``corpus.tsv`` and ``captured.tsv`` beside this file hold the facts: bytes, how the standard classifies them, and what
the decoders did with them.
"""

from __future__ import annotations

import functools
from importlib import resources

import msgspec

from kvwire.vectors.model import Note

NOTES = {
    "corpus": Note(kind="origin", description="was fed to decoders of other projects, see wire/consumers.json"),
    "mixed": Note(kind="legacy", description="array events and maps in one batch", links=("legacy.md",)),
}
NONE = "-"
ACCEPTED, REJECTED, EMPTIED = "are"
"""What a decoder did: took the batch, dropped all of it, or took an empty one for it."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One payload: ``seen`` has a letter per decoder; ``faults`` stand with the one that is named in front."""

    id: str
    form: str | None
    flags: tuple[str, ...]
    faults: tuple[str, ...]
    payload: bytes
    comment: str
    seen: str = ""


@functools.cache
def _lines(name: str) -> tuple[tuple[str, ...], ...]:
    text = (resources.files("kvwire_generators") / name).read_text(encoding="utf-8")
    return tuple(tuple(line.split("\t")) for line in text.splitlines() if not line.startswith("#"))


def _words(text: str) -> tuple[str, ...]:
    return () if text == NONE else tuple(text.split())


def corpus() -> tuple[Row, ...]:
    """The payloads that were fed to decoders."""
    return tuple(
        Row(
            id=name,
            form=None if form == NONE else form,
            flags=("corpus", *_words(flags)),
            faults=_words(faults),
            seen=seen,
            payload=bytes.fromhex(payload),
            comment=comment,
        )
        for name, form, flags, faults, seen, payload, comment in _lines("corpus.tsv")
    )


def captured() -> tuple[Row, ...]:
    """The payloads that real encoders wrote."""
    return tuple(
        Row(
            id=f"wire-{name}",
            form=None if form == NONE else form,
            flags=_words(flags),
            faults=_words(faults),
            payload=bytes.fromhex(payload),
            comment=comment,
        )
        for name, form, flags, faults, payload, comment in _lines("captured.tsv")
    )
