"""Do streams hash one prompt alike, and if not, where do they part and why?

Prefixes are compared by their tokens, however they are cut into blocks; so a stream with blocks of 64 tokens can be
held beside one with blocks of 16 wherever their borders coincide.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import msgspec

from kvwire.conclusion.diagnosis.recognition import Recognised
from kvwire.conclusion.diagnosis.stream_profile import Prefix, Profiler, StreamProfile
from kvwire.hashes.mistakes import BY_NAME, difference

INPUTS = ("lora_id", "lora_name", "salt", "extra", "mm", "block_size")
"""What a store tells of what enters its hashes besides tokens."""


class Parting(msgspec.Struct, frozen=True, kw_only=True):
    """The shortest prefix to which two streams give different hashes: how many tokens, the first of them, both
    hashes, and what explains it, the likeliest first; empty where nothing known does.
    """

    tokens: int
    first: list[int]
    hashes: tuple[int, int]
    why: list[str]


class Agreement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="agreement"):
    """Two streams side by side: how many prefixes each announced, how many both did, and of these how many alike."""

    streams: tuple[str, str]
    prefixes: tuple[int, int]
    shared: int
    alike: int
    parting: Parting | None = None

    @property
    def said(self) -> str:
        """In a line."""
        one, other = self.streams
        if not self.shared:
            many = f"{one} announced {self.prefixes[0]}, {other} {self.prefixes[1]}"
            return f"{one} and {other} share no prompt ({many} prefixes): send both the same prompt, and ask again"
        if self.parting is None:
            return f"{one} and {other} hash alike: {self.alike} of {self.shared} shared prefixes have one hash"
        return f"{one} and {other} hash one prompt differently: {self.alike} of {self.shared} shared prefixes alike"


def compare(profilers: Sequence[Profiler]) -> tuple[Agreement, ...]:
    """Every stream beside the first that it shares a prompt with; beside the first of all where there is none."""
    made: list[Agreement] = []
    profiles = [profiler.made() for profiler in profilers]
    for at in range(1, len(profilers)):
        pairs = (_pair(profilers[before], profilers[at], profiles[before], profiles[at]) for before in range(at))
        found = list(itertools.islice((pair for pair in pairs if pair.shared), 1))
        made += found or [_pair(profilers[0], profilers[at], profiles[0], profiles[at])]
    return tuple(made)


def _pair(one: Profiler, other: Profiler, mine: StreamProfile, theirs: StreamProfile) -> Agreement:
    shared = [text for text in one.prefixes if text in other.prefixes]
    parted = [text for text in shared if one.prefixes[text].keys().isdisjoint(other.prefixes[text].keys())]
    parting = None
    if parted:
        at = min(parted, key=lambda text: text.length)
        a, b = min(
            itertools.product(one.prefixes[at].values(), other.prefixes[at].values()),
            key=lambda pair: sum(getattr(pair[0], field) != getattr(pair[1], field) for field in INPUTS),
        )
        parting = Parting(
            tokens=a.tokens, first=list(a.first), hashes=(a.hash, b.hash), why=list(_why(a, b, mine, theirs))
        )
    return Agreement(
        streams=(mine.name, theirs.name),
        prefixes=(len(one.prefixes), len(other.prefixes)),
        shared=len(shared),
        alike=len(shared) - len(parted),
        parting=parting,
    )


def _why(a: Prefix, b: Prefix, mine: StreamProfile, theirs: StreamProfile) -> Iterator[str]:
    one, other = mine.name, theirs.name
    f, g = mine.function, theirs.function
    if (a.lora_id, a.lora_name) != (b.lora_id, b.lora_name):
        yield f"another adapter: {one} has {_adapter(a)}, {other} {_adapter(b)}"
    if a.salt != b.salt:
        yield f"another salt: {one} has {a.salt or 'none'}, {other} {b.salt or 'none'}"
    if a.mm != b.mm:
        yield f"other multimodal keys: {one} has {a.mm or 'none'}, {other} {b.mm or 'none'}"
    if a.extra != b.extra and "absent" not in (a.extra, b.extra):
        yield f"other extra keys: {one} has {a.extra}, {other} {b.extra}"
    if a.block_size != b.block_size:
        yield f"another block size: {one} has {a.block_size} tokens, {other} {b.block_size}"
    if f is not None and g is not None:
        if f.seed != g.seed:
            yield f"another seed: {_seeded(one, f)}, {_seeded(other, g)}"
        if f.finer != g.finer:
            sizes = f"{f.finer or a.block_size} against {g.finer or b.block_size} tokens"
            yield f"blocks of another size are hashed: {sizes}"
        if f.function != g.function:
            yield f"another function: {one} uses {f.function}, {other} {g.function}{_difference(f, g)}"
    elif f is not None or g is not None:
        (known, told), unknown = ((one, f), other) if f is not None else ((other, g), one)
        assert told is not None
        seeds = " (without PYTHONHASHSEED each process of vLLM before 0.29 has a seed of its own)"
        maybe = seeds if told.function.startswith("x-vllm") else ""
        yield (
            f"the hashes of {known} are those of {told.function}, those of {unknown} are of no known function, seed or "
            f"scope: another seed, a salt that the wire does not show, or a function of its own{maybe}"
        )
    else:
        yield "neither stream's hashes are of a known function, seed and scope: a seed for each process, or a salt"


def _seeded(name: str, function: Recognised) -> str:
    return f"{name} " + ("has none" if function.seed is None else f"runs with PYTHONHASHSEED={function.seed}")


def _adapter(prefix: Prefix) -> str:
    if prefix.lora_id is None and prefix.lora_name is None:
        return "none"
    return ", ".join(str(part) for part in (prefix.lora_id, prefix.lora_name) if part is not None)


def _difference(f: Recognised, g: Recognised) -> str:
    if f.function not in BY_NAME or g.function not in BY_NAME:
        return ""
    said = difference(f.function, g.function)
    return "" if said.startswith("the hash is that of") else f" ({said})"
