"""What a consumer assumes of a stream, from a TOML file, and what comes of each difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from kvwire.conclusion.diagnosis.stream_profile import StreamProfile
from kvwire.hashes.functions import LABELS, named
from kvwire.standard import reading
from kvwire.standard.statement import Count
from kvwire.wire.events import DENSE_KINDS, WINDOW_KINDS


class ExpectationError(ValueError):
    """A file that cannot be used; the message names the field and the way out."""


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a router, an indexer or a cache manager is configured with. What it leaves out is not compared.

    ``block_size`` in tokens, ``topic`` the prefix that it subscribes to, ``ranks`` how many streams it knows,
    ``algorithm`` a label of the standard (with or without the width of tokens), ``kinds`` the `kv_cache_spec_kind` of
    the groups that it admits, ``media`` those that it counts, ``form`` of the events that it decodes.
    """

    block_size: Count | None = None
    topic: str | None = None
    ranks: Count | None = None
    algorithm: str | None = None
    kinds: tuple[str, ...] | None = None
    media: tuple[str, ...] | None = None
    form: Literal["map", "array-v", "array-s"] | None = None
    hash_seed: str | None = None
    adapters: Literal["id", "name"] | None = None


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One assumption that does not hold, and what comes of it."""

    field: str
    stream: str
    said: str


def read(path: Path) -> Expectation:
    """The expectations of a file.

    Raises:
        ExpectationError: when it cannot be read, names an unknown field, or holds an impossible value.
    """
    try:
        raw, text = reading.toml(path)
    except reading.TomlError as error:
        raise ExpectationError(str(error)) from None
    try:
        made = msgspec.convert(raw, Expectation)
    except msgspec.ValidationError as error:
        fields = ", ".join(Expectation.__struct_fields__)
        raise ExpectationError(f"{path}{reading.complaint(error, raw, text)}; the fields are {fields}") from None
    if made.algorithm is not None and made.algorithm not in LABELS:
        raise ExpectationError(f"{path}: algorithm {made.algorithm!r} is unknown; one of {', '.join(sorted(LABELS))}")
    return made


def differences(expected: Expectation, profiles: Sequence[StreamProfile]) -> tuple[Difference, ...]:
    """Each assumption that does not hold on a stream, with its consequence."""
    found = [
        Difference(field=field, stream=profile.name, said=said)
        for profile in profiles
        if profile.batches
        for field, said in _of(expected, profile)
    ]
    heard = [profile for profile in profiles if profile.batches]
    if expected.ranks is not None and heard and len(ranks := _ranks(heard)) != expected.ranks:
        seen = f"{len(heard)} streams" if not ranks else f"{len(ranks)} ranks ({', '.join(map(str, sorted(ranks)))})"
        lost = len(ranks) > expected.ranks
        said = f"the consumer knows {expected.ranks} ranks, {seen} publish: "
        said += "blocks of the others are never looked up" if lost else "a rank that is not there never has a hit"
        found.append(Difference(field="ranks", stream="", said=said))
    return tuple(found)


def _ranks(profiles: Sequence[StreamProfile]) -> set[int]:
    return {rank for profile in profiles for rank in profile.ranks if rank is not None}


def _of(expected: Expectation, profile: StreamProfile) -> Iterator[tuple[str, str]]:
    sizes = sorted(int(size) for size in profile.block_sizes if size.isdigit())
    if expected.block_size is not None and sizes and sizes != [expected.block_size]:
        seen = " and ".join(map(str, sizes))
        none = expected.block_size not in sizes
        said = f"the consumer hashes {expected.block_size} tokens a block, the engine announces {seen}: "
        yield "block_size", said + ("no lookup can hit" if none else "blocks of the other sizes never hit")
    if expected.topic is not None:
        deaf = [topic for topic in profile.topics if not topic.startswith(expected.topic)]
        if deaf:
            shown = ", ".join(map(repr, deaf))
            said = f"the consumer subscribes to {expected.topic!r}, the publisher sends {shown}: "
            yield "topic", said + ("it hears nothing" if len(deaf) == len(profile.topics) else "it hears a part")
    yield from _hashes(expected, profile)
    if expected.kinds is not None:
        for group in profile.groups:
            if strange := [kind for kind in group.kinds if kind not in expected.kinds]:
                dense = [kind for kind in strange if kind in DENSE_KINDS]
                said = f"group {group.idx} is {' and '.join(strange)}, which the consumer does not admit: "
                yield "kinds", said + ("its blocks never hit" if dense else "its blocks are left out")
            for kind in group.kinds:
                if kind in expected.kinds and kind in WINDOW_KINDS:
                    window = ", ".join(map(str, group.windows)) or "not told"
                    said = f"group {group.idx} is {kind} (window {window}), which the consumer admits: "
                    yield "kinds", said + "it counts blocks as prefixes that the window has left"
    if expected.media is not None and (strange := [name for name in profile.media if name not in expected.media]):
        total = sum(profile.media.values())
        part = sum(profile.media[name] for name in strange)
        said = f"{part} of {total} stores are in {', '.join(strange)}, which the consumer does not count: "
        yield "media", said + "it takes these blocks for absent, or for device memory if it ignores `medium`"
    if expected.form is not None and (strange := [form for form in profile.forms if form != expected.form]):
        said = f"the consumer decodes {expected.form} events, the stream holds {', '.join(strange)}: "
        yield "form", said + "a strict decoder loses each such batch whole"
    if expected.adapters is not None:
        lacks = [one for one in profile.adapters if (one.id if expected.adapters == "id" else one.name) is None]
        if lacks:
            count = f"{len(lacks)} of {len(profile.adapters)}"
            said = f"the consumer tells adapters by {expected.adapters}, {count} have none: "
            yield "adapters", said + "their prompts are looked up as those of no adapter"


def _hashes(expected: Expectation, profile: StreamProfile) -> Iterator[tuple[str, str]]:
    function = profile.function
    if expected.algorithm is not None and profile.hashed:
        wanted = {one.name for one in named(expected.algorithm)}
        if function is None:
            said = f"the consumer computes {expected.algorithm}, which gives 0 of {profile.hashed} hashes: "
            yield "algorithm", said + "no lookup can hit, unless it takes the hashes from the events alone"
        elif function.function not in wanted:
            said = f"the consumer computes {expected.algorithm}, the hashes are those of {function.function}: "
            yield "algorithm", said + "no lookup can hit"
        elif function.finer is not None:
            said = f"a block is named by the hash of its last {function.finer} tokens, not by that of the block: "
            yield "algorithm", said + f"hash {function.finer} tokens at a time, and look up each block's last"
    if function is not None and function.seed != expected.hash_seed and function.function.startswith("x-vllm"):
        theirs = "without a seed" if function.seed is None else f"with PYTHONHASHSEED={function.seed}"
        mine = "without one" if expected.hash_seed is None else f"with {expected.hash_seed}"
        if expected.hash_seed is not None or expected.algorithm is not None:
            yield "hash_seed", f"the engine hashes {theirs}, the consumer {mine}: no lookup can hit"
