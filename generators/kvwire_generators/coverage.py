"""``COVERAGE.md``: function × feature × boundary of the hash tests; an empty cell says why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from kvwire.vectors.model import HashFile
from kvwire_generators.hash import features, foreign

NAME = "COVERAGE.md"
_HEAD = """# What the hash vectors cover

Written by `tox -e generate`. A number is a number of tests of that function with that boundary; a letter says why
there is none. Columns are groups of tests: `v1` is `v1_block_key` over text, `v1 keys` the same function behind digest
tokens, `root` the root key, `key` `v2_sha256`, `64` `v2_sha256_64`, `low64` `v2_sha256_low64`.
"""
_KEYS = ("v1_block_key, digest tokens, 4-byte keys", "v1_block_key, digest tokens, 8-byte keys")
_FULL = ("v2_sha256/u32", "v2_sha256/u64")
_CUT = ("v2_sha256_64/u32", "v2_sha256_64/u64")
_LOW = ("v2_sha256_low64/u32", "v2_sha256_low64/u64")
_V2 = (*_FULL, *_CUT, *_LOW)
_TEXT = "v1_block_key, text"
_ROOT = "v2_sha256/root"

COLUMNS: dict[str, str] = {
    _TEXT: "v1",
    _KEYS[0]: "v1 keys /u32",
    _KEYS[1]: "v1 keys /u64",
    _ROOT: "root",
    _FULL[0]: "key /u32",
    _FULL[1]: "key /u64",
    _CUT[0]: "64 /u32",
    _CUT[1]: "64 /u64",
    _LOW[0]: "low64 /u32",
    _LOW[1]: "low64 /u64",
}
"""Group → heading, for the functions of the registry."""
KINDED = tuple(name for name in foreign.NAMES if name.endswith("/kinds"))
FOREIGN_COLUMNS = {name: name for name in foreign.NAMES}
SALT_COLUMNS = {"salt_id": "salt_id"}
TAG_COLUMNS = {"scope_tag": "scope_tag"}


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why groups have no test of some features or boundaries; ``of`` names features and flags, empty for all."""

    groups: tuple[str, ...]
    of: tuple[str, ...] = ()
    text: str

    def explains(self, group: str, feature: str, flag: str) -> bool:
        """Whether this cell is one of them."""
        return group in self.groups and (not self.of or feature in self.of or flag in self.of)


_HASH_PARENTS = (
    "parent-small",
    "parent-2e32",
    "parent-rounding",
    "parent-i63-max",
    "parent-2e63",
    "parent-max",
    "parent-0",
)

REASONS: tuple[Reason, ...] = (
    Reason(groups=(_TEXT,), of=("digest token",), text="digest tokens stand in the two groups of v1 keys"),
    Reason(
        groups=(_TEXT,),
        of=("parent-key-zeros", "parent-key-ones", "parent-key-high", "parent-key-low"),
        text="the parent enters as its 64-bit hash",
    ),
    Reason(groups=(_TEXT, *_KEYS), of=("framing",), text="no bytes are joined, or v2 keys have it"),
    Reason(
        groups=(_TEXT,),
        of=("token-over", "token-negative"),
        text="ids enter modulo 2^32; KVW-EVT-010 keeps others off the wire",
    ),
    Reason(
        groups=_KEYS,
        of=("given parent",),
        text="keys cannot be continued from a hash, and these chains begin at a root",
    ),
    Reason(
        groups=_KEYS,
        of=("extra ids", "multimodal keys", "32-bit sum", "hash-zero"),
        text="nothing of the mixing function enters behind a digest token; single tests show it",
    ),
    Reason(
        groups=_KEYS, text="the hash is that of a v2 key, which `64` covers; what is tested here is when it is taken"
    ),
    Reason(groups=(_ROOT,), text="a root key depends on the reuse scope only"),
    Reason(groups=_V2, of=("extra ids", "multimodal keys", "32-bit sum"), text="no part of chained SHA-256"),
    Reason(groups=_V2, of=_HASH_PARENTS, text="the parent enters as its 32-byte key"),
    Reason(groups=_CUT, of=("token-over",), text="at eight bytes every id of the range fits (KVW-EVT-010)"),
    Reason(groups=(*_CUT, *_LOW), of=("hash-zero",), text="no such key is known"),
    Reason(groups=_FULL, of=("shape of the hash",), text="the key is answered, not 64 bits of it"),
    Reason(
        groups=(*_FULL, *_LOW),
        text="the key is that of `64`, whose tests state it; what is tested here is which of it is answered",
    ),
    Reason(
        groups=("x-sglang-sha256", "x-dynamo-xxh3"),
        of=("lora-name", "extra-mm", "extra-child", "extra-kinds"),
        text="it has no extra keys",
    ),
    Reason(groups=("x-dynamo-xxh3",), of=("reuse scope",), text="how its namespaces enter is not described"),
    Reason(groups=KINDED, of=("token ids", "block size", "chain"), text="without extra keys it is `/bare`"),
    Reason(groups=KINDED, of=("lora-name",), text="the path of an adapter enters, which is on no wire"),
    Reason(groups=foreign.NAMES, of=("block size",), text="its encoding changes at other sizes"),
)
"""First match counts."""


def counts(files: Iterable[HashFile]) -> dict[str, Counter[str]]:
    """The number of tests per group and flag."""
    return {
        group.name: Counter(flag for test in group.tests for flag in test.flags)
        for file in files
        for group in file.groups
    }


def holes(files: Iterable[HashFile]) -> list[str]:
    """The cells without a test and without a reason."""
    found = counts(files)
    return [
        f"{group}: {feature}: {flag}"
        for columns, table in _TABLES
        for feature, flags in table.items()
        for flag in flags
        for group in columns
        if not found[group][flag] and _reason(group, feature, flag) is None
    ]


def _reason(group: str, feature: str, flag: str) -> int | None:
    return next((n for n, reason in enumerate(REASONS) if reason.explains(group, feature, flag)), None)


_TABLES: tuple[tuple[Mapping[str, str], Mapping[str, Mapping[str, str]]], ...] = (
    (COLUMNS, features.FEATURES),
    (FOREIGN_COLUMNS, foreign.FEATURES),
    (SALT_COLUMNS, foreign.SALT_FEATURES),
    (TAG_COLUMNS, foreign.TAG_FEATURES),
)
_TITLES = ("Functions of the registry", "Functions of other projects", "Salt ids", "Scope tags")


def write(files: Iterable[HashFile]) -> str:
    """The coverage table as Markdown."""
    held = tuple(files)
    found = counts(held)
    used: list[int] = []
    parts = [_HEAD, f"Tests: {sum(file.count for file in held)}.\n"]
    for title, (columns, table) in zip(_TITLES, _TABLES, strict=True):
        parts.append(f"## {title}\n")
        parts.append(f"| feature | boundary | {' | '.join(columns.values())} |")
        parts.append("|---|---|" + "---|" * len(columns))
        for feature, flags in table.items():
            for flag, description in flags.items():
                cells = []
                for group in columns:
                    if found[group][flag]:
                        cells.append(str(found[group][flag]))
                        continue
                    reason = _reason(group, feature, flag)
                    if reason is not None and reason not in used:
                        used.append(reason)
                    cells.append("?" if reason is None else _letter(used.index(reason)))
                parts.append(f"| {feature} | {description} (`{flag}`) | {' | '.join(cells)} |")
        parts.append("")
    parts.append("## Reasons\n")
    parts += [f"- {_letter(n)}: {REASONS[reason].text}" for n, reason in enumerate(used)]
    return "\n".join(parts) + "\n"


def _letter(number: int) -> str:
    return chr(ord("a") + number)
