"""The functions of other projects that the standard names, and ids of salt texts."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Any, Unpack

import msgspec

from kvwire.hashes.functions import BARE_KEYS, KINDED_KEYS, Block, Function, Scope
from kvwire.hashes.mistakes import BY_NAME
from kvwire.vectors.inputs import expand
from kvwire.vectors.model import HashInput, Note
from kvwire_generators.hash.cases import Case, Where, case, ids

FEATURES: dict[str, dict[str, str]] = {
    "token ids": {
        "token-head-1": "ids of 23 and 24, where CBOR needs a second byte",
        "token-head-2": "ids of 255 and 256",
        "token-head-4": "ids of 65535 and 65536",
        "token-i31-max": "ids of 2^31−1",
        "token-2e31": "ids of 2^31",
        "token-u32-max": "ids of 2^32−1",
    },
    "block size": {
        **{f"size-{n}": f"full blocks of {n} token{'s' * (n > 1)}" for n in (1, 2, 3, 4, 5, 16, 32, 33, 60, 61)},
        "size-23": "full blocks of 23 tokens",
        "size-24": "full blocks of 24 tokens, whose CBOR head is longer",
        **{f"size-{n}": f"full blocks of {n} tokens" for n in (255, 256, 257, 1024, 1025)},
    },
    "chain": {"chain-2": "a block and its child", "chain-3": "three blocks", "chain-64": "64 blocks"},
    "reuse scope": {
        "salt-text": "a salt text",
        "salt-unicode": "a salt text beyond ASCII",
        "salt-child": "a later block of a salted chain",
        "lora-name": "a LoRA name among the extra keys",
        "extra-mm": "a multimodal key among the extra keys",
        "extra-child": "extra keys in a later block",
        "extra-kinds": "each extra key with its kind before it",
    },
    "shape of the hash": {"hash-positive": "below 2^63", "hash-negative": "2^63 or above: negative when signed"},
}
"""Feature → boundary → what it is, for the functions of other projects."""

CBOR, PICKLE = "x-vllm-sha256-cbor", "x-vllm-sha256"
VLLM = tuple(f"{label}{keys}" for label in (CBOR, PICKLE) for keys in (BARE_KEYS, KINDED_KEYS))
SGLANG = "x-sglang-sha256"
DYNAMO = "x-dynamo-xxh3"
NAMES = (*VLLM, SGLANG, DYNAMO)

_OTHERS: dict[str, dict[str, tuple[str, str]]] = {
    f"{CBOR}{BARE_KEYS}": {"pickle": (f"{PICKLE}{BARE_KEYS}", "pickle is hashed, not CBOR")},
    f"{CBOR}{KINDED_KEYS}": {
        "pickle": (f"{PICKLE}{KINDED_KEYS}", "pickle is hashed, not CBOR"),
        "bare-keys": (f"{CBOR}{BARE_KEYS}", "extra keys enter without their kinds"),
    },
    f"{PICKLE}{BARE_KEYS}": {"cbor": (f"{CBOR}{BARE_KEYS}", "CBOR is hashed, not pickle")},
    f"{PICKLE}{KINDED_KEYS}": {
        "cbor": (f"{CBOR}{KINDED_KEYS}", "CBOR is hashed, not pickle"),
        "bare-keys": (f"{PICKLE}{BARE_KEYS}", "extra keys enter without their kinds"),
    },
    SGLANG: {
        "root-key": ("v2_sha256_64/u32", "a root key stands before the first block"),
        "eight-byte-tokens": ("v2_sha256_64/u64/no-root-key", "tokens are hashed as eight bytes each, not as four"),
    },
    DYNAMO: {},
}
"""Functions that an implementation of another is easily taken for: slug → name, and what is wrong."""


def mistakes(name: str) -> dict[str, tuple[Function, str]]:
    """The mistakes of a foreign function by slug, each with what is wrong."""
    own = {f.name.removeprefix(f"{f.label}/"): (f, f.wrong) for f in BY_NAME.values() if f.truth == name}
    return own | {slug: (BY_NAME[other], wrong) for slug, (other, wrong) in _OTHERS[name].items()}


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value


def chain(function: Function, given: HashInput) -> list[int | None]:
    """The hashes of a chain under a function; None where the function says none."""
    state = function.start(Scope(lora_name=given.lora_name, salt=given.salt))
    if state is None:
        return [None]
    tokens, size = expand(given.tokens), given.block_size or 1
    found: list[int | None] = []
    for index, start in enumerate(range(0, len(tokens), size)):
        extra: Any = msgspec.UNSET
        if given.extra_keys is not None:
            extra = _plain(given.extra_keys[index])
        parent = found[-1] if found else None
        state = function.step(state, Block(tokens[start : start + size], parent, extra=extra))
        found.append(state.hash)
    return found


def _heads() -> list[Case]:
    pairs = (
        ("token-head-1", 23, 24),
        ("token-head-2", 255, 256),
        ("token-head-4", 65535, 65536),
        ("token-i31-max", 2**31 - 1, 2**31 - 2),
        ("token-2e31", 2**31, 2**31 + 1),
        ("token-u32-max", 2**32 - 1, 2**32 - 2),
    )
    return [case(flag, f"ids {a} and {b}", flag, (a, b, 0, 1), 4) for flag, a, b in pairs]


def _sizes(*sizes: int) -> list[Case]:
    return [case(f"size-{n}", f"a block of {n}", f"size-{n}", ids(f"size-{n}", n), n) for n in sizes]


def _chains() -> list[Case]:
    return [
        case("chain-2", "two blocks of 16", "chain-2", ids("chain-2", 32), 16),
        case("chain-3", "three blocks of 16", "chain-3", ids("chain-3", 48), 16),
        case("chain-64", "64 blocks of 4", "chain-64", ids("chain-64", 256), 4),
    ]


def _salts(flag: str = "salt-text") -> list[Case]:
    return [
        case("salt-text", "a salt", flag, ids("salt", 16), 16, salt="tenant-a"),
        case("salt-unicode", "a salt beyond ASCII", "salt-unicode", ids("salt", 16), 16, salt="Zürich–東京"),
        case("salt-child", "a salt, second block", "salt-child chain-2", ids("salt", 32), 16, salt="tenant-a"),
        case("salt-chain", "a salt, third block", "salt-child chain-3", ids("salt", 48), 16, salt="tenant-a"),
    ]


def _keyed(slug: str, comment: str, flags: str, extra_keys: tuple[Any, ...], **where: Unpack[Where]) -> Case:
    made = case(slug, comment, flags, ids(slug, 4 * len(extra_keys)), 4, **where)
    return msgspec.structs.replace(made, given=msgspec.structs.replace(made.given, extra_keys=extra_keys))


def _vllm() -> list[Case]:
    known = "known-answer"
    picture = hashlib.sha256(b"picture").hexdigest()
    return [
        case("known-1", "0…15", f"{known} worked-example size-16", tuple(range(16)), 16),
        case("known-2", "16…31 behind it", f"{known} chain-2", tuple(range(32)), 16),
        case("known-salt", "0…15 with salt s1", f"{known} salt-text", tuple(range(16)), 16, salt="s1"),
        *_heads(),
        *_sizes(1, 2, 3, 4, 5, 23, 24, 32, 255, 256, 257),
        *_chains(),
        *_salts(),
        _keyed("lora-name", "a LoRA name", "lora-name", (["adapter-a"],), lora_name="adapter-a"),
        _keyed(
            "lora-name-salt",
            "a LoRA name and a salt, which follows it",
            "lora-name salt-text",
            (["adapter-a", "s1"], ["adapter-a"]),
            lora_name="adapter-a",
            salt="s1",
        ),
        _keyed("extra-mm", "a multimodal key of digest and offset", "extra-mm", ([[picture, 0]],)),
        _keyed("extra-mm-text", "a bare multimodal hash", "extra-mm", ([picture],)),
        _keyed("extra-child", "extra keys in the second block only", "extra-child chain-2", (None, [[picture, 2]])),
        _keyed(
            "extra-kinds",
            "a salt, and in the second block a multimodal key, with their kinds, as since vLLM 0.31",
            "extra-kinds chain-2",
            ([["cache_salt", "s1"]], [["mm", picture, 2]]),
        ),
        _keyed("extra-bytes", "a hash of embedded prompts, 32 bytes", "extra-mm", ([{"hex": picture}],)),
    ]


def _kinds() -> list[Case]:
    picture = hashlib.sha256(b"picture").hexdigest()
    return [
        case("known-salt", "0…15 with salt s1", "known-answer salt-text", tuple(range(16)), 16, salt="s1"),
        *_chains()[:1],
        *_salts(),
        _keyed("mm", "a multimodal key of digest and offset", "extra-mm", ([[picture, 0]],)),
        _keyed("child", "a multimodal key in the second block only", "extra-child chain-2", (None, [[picture, 2]])),
        _keyed(
            "salt-mm",
            "a salt, and in the second block a multimodal key",
            "extra-kinds chain-2",
            (["s1"], [[picture, 2]]),
            salt="s1",
        ),
        _keyed("embeds", "a hash of embedded prompts, 32 bytes", "extra-mm", ([{"hex": picture}],)),
    ]


def _sglang() -> list[Case]:
    return [
        case("known-1", "0…3", "known-answer", tuple(range(4)), 4),
        case("known-2", "4…7 behind it", "known-answer chain-2", tuple(range(8)), 4),
        case("known-3", "8…11 behind them", "known-answer chain-3", tuple(range(12)), 4),
        case("known-salt", "0…3 with salt s1", "known-answer salt-text", tuple(range(4)), 4, salt="s1"),
        *_heads(),
        *_sizes(1, 2, 3, 16, 32, 1024, 1025),
        *_chains(),
        *_salts(),
    ]


def _dynamo() -> list[Case]:
    return [
        case("known-1", "0…3", "known-answer", tuple(range(4)), 4),
        case("known-local-2", "4…7 as a first block: its local hash", "known-answer", tuple(range(4, 8)), 4),
        case("known-local-3", "8…11 as a first block: its local hash", "known-answer", tuple(range(8, 12)), 4),
        case("known-chain", "0…11 in three blocks", "worked-example chain-3", tuple(range(12)), 4),
        *_heads(),
        *_sizes(1, 2, 3, 5, 16, 32, 33, 60, 61, 256, 257, 1024),
        *_chains(),
    ]


CASES: dict[str, Callable[[], list[Case]]] = {
    f"{CBOR}{BARE_KEYS}": _vllm,
    f"{CBOR}{KINDED_KEYS}": _kinds,
    f"{PICKLE}{BARE_KEYS}": _vllm,
    f"{PICKLE}{KINDED_KEYS}": _kinds,
    SGLANG: _sglang,
    DYNAMO: _dynamo,
}
PREFIXES = {
    f"{CBOR}{BARE_KEYS}": "vllm-sha256-cbor",
    f"{CBOR}{KINDED_KEYS}": "vllm-sha256-cbor-kinds",
    f"{PICKLE}{BARE_KEYS}": "vllm-sha256",
    f"{PICKLE}{KINDED_KEYS}": "vllm-sha256-kinds",
    SGLANG: "sglang",
    DYNAMO: "dynamo",
}

# --- salt ids -----------------------------------------------------------------------------------------------------

SALTS = (
    ("known", "tenant-a", "the known answer", "known-answer worked-example"),
    ("empty", "", "the empty text", "text-empty"),
    ("one", "a", "one letter", "text-ascii"),
    ("digits", "123", "digits: the text, not the number", "text-ascii"),
    ("space", " tenant-a ", "spaces count", "text-space"),
    ("newline", "tenant-a\n", "so does a line end", "text-space"),
    ("tab", "tenant-a\t", "so does a tab", "text-space"),
    ("leading", " tenant-a", "a leading space", "text-space"),
    ("crlf", "tenant-a\r\n", "a line end of two bytes", "text-space"),
    ("nul", "tenant\u0000a", "a NUL byte ends nothing", "text-nul"),
    ("latin", "Zürich", "two bytes for ü", "text-utf8-2"),
    ("decomposed", "Zu\u0308rich", "u and a combining diaeresis: not the same text", "text-utf8-2"),
    ("han", "東京", "three bytes for each sign", "text-utf8-3"),
    ("emoji", "🗝", "four bytes, two UTF-16 units", "text-utf8-4"),
    ("bom", "\ufefftenant-a", "a byte order mark is text", "text-utf8-3"),
    ("55", "s" * 55, "55 bytes: one block of SHA-256", "text-block"),
    ("56", "s" * 56, "56 bytes: the length needs a second block", "text-block"),
    ("64", "s" * 64, "64 bytes", "text-block"),
    ("1000", "salt" * 250, "1,000 bytes", "text-long"),
    ("uuid", "123e4567-e89b-12d3-a456-426614174000", "a UUID: its text, not its bytes", "text-ascii"),
    ("high", "tenant-2", "an id of 2^63 or above", "id-high"),
    ("low", "tenant-1", "an id below 2^63", "id-low"),
)
SALT_FEATURES: dict[str, dict[str, str]] = {
    "salt text": {
        "text-empty": "no bytes",
        "text-ascii": "ASCII",
        "text-space": "white space at the ends, which counts",
        "text-nul": "a NUL byte",
        "text-utf8-2": "letters of two bytes",
        "text-utf8-3": "signs of three bytes",
        "text-utf8-4": "signs of four bytes",
        "text-block": "lengths around a block of SHA-256",
        "text-long": "many blocks of SHA-256",
    },
    "shape of the id": {"id-low": "below 2^63", "id-high": "2^63 or above"},
}
SALT_MISTAKES: dict[str, tuple[Callable[[str], int], str]] = {
    "salt-big-endian": (
        lambda text: int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"),
        "the salt id is read big-endian, not little-endian",
    ),
    "salt-last-8": (
        lambda text: int.from_bytes(hashlib.sha256(text.encode()).digest()[-8:], "little"),
        "the last eight bytes are taken, not the first",
    ),
    "salt-utf-16": (
        lambda text: int.from_bytes(hashlib.sha256(text.encode("utf-16-le")).digest()[:8], "little"),
        "the text is hashed as UTF-16, not as UTF-8",
    ),
    "salt-nul-terminated": (
        lambda text: int.from_bytes(hashlib.sha256(text.encode() + b"\0").digest()[:8], "little"),
        "a terminating NUL is hashed, too",
    ),
    "salt-stripped": (
        lambda text: int.from_bytes(hashlib.sha256(text.strip().encode()).digest()[:8], "little"),
        "white space around the text is taken off",
    ),
}
"""Slug → function, and what is wrong."""


SCOPE = b"kvwire-scope-1"
TAGS: tuple[tuple[str, str, bytes | None, str, str], ...] = (
    ("known", "tenant-a", None, "the known answer", "known-answer worked-example text-ascii no-key"),
    ("known-key", "tenant-a", b"k", "the known answer with a deployment key", "known-answer worked-example key-short"),
    ("empty", "", None, "the empty text is a salt", "text-empty no-key"),
    ("empty-key", "", b"k", "the empty text with a key", "text-empty key-short"),
    ("space", " tenant-a ", None, "spaces count", "text-space no-key"),
    ("leading", " tenant-a", None, "a leading space", "text-space no-key"),
    ("trailing", "tenant-a ", b"k", "a space at the end", "text-space key-short"),
    ("newline", "tenant-a\n", None, "a line end", "text-space no-key"),
    ("tab", "\ttenant-a", None, "a tab", "text-space no-key"),
    ("nul", "tenant\0a", None, "a NUL byte ends nothing", "text-nul no-key"),
    ("latin", "Zürich", None, "two bytes for ü", "text-utf8 no-key"),
    ("emoji", "🗝", b"k", "four bytes, two UTF-16 units", "text-utf8 key-short"),
    ("41", "s" * 41, None, "one block of SHA-256 with what stands before it", "text-block no-key"),
    ("42", "s" * 42, None, "the length needs a second block", "text-block no-key"),
    ("1000", "salt" * 250, b"k", "1,000 bytes", "text-long key-short"),
    ("key-63", "tenant-a", b"k" * 63, "a key of 63 bytes", "key-block"),
    ("key-64", "tenant-a", b"k" * 64, "a key of one block", "key-block"),
    ("key-65", "tenant-a", b"k" * 65, "a key of 65 bytes: hashed first", "key-long"),
    ("key-bytes", "tenant-a", bytes(range(256)), "a key of every byte", "key-long"),
)
"""Slug, salt, deployment key, words and flags."""
TAG_FEATURES: dict[str, dict[str, str]] = {
    "salt of a tag": {
        "text-empty": "no bytes",
        "text-ascii": "ASCII",
        "text-space": "white space at the ends, which counts",
        "text-nul": "a NUL byte",
        "text-utf8": "signs of several bytes",
        "text-block": "lengths around a block of SHA-256",
        "text-long": "many blocks of SHA-256",
    },
    "deployment key": {
        "no-key": "none",
        "key-short": "shorter than a block of SHA-256",
        "key-block": "lengths around a block of SHA-256",
        "key-long": "longer than a block, so that its digest is the key",
    },
}


def _tag(message: bytes, key: bytes | None) -> str:
    digest = hashlib.sha256(message) if key is None else hmac.new(key, message, hashlib.sha256)
    return digest.hexdigest()[:16]


TAG_MISTAKES: dict[str, tuple[Callable[[str, bytes | None], str], str]] = {
    "tag-bare": (lambda text, key: _tag(text.encode(), key), "the salt is hashed without what stands before it"),
    "tag-without-nul": (lambda text, key: _tag(SCOPE + text.encode(), key), "the NUL byte before the salt is left out"),
    "tag-key-left-out": (lambda text, _: _tag(SCOPE + b"\0" + text.encode(), None), "the deployment key is left out"),
    "tag-key-before": (
        lambda text, key: _tag((key or b"") + SCOPE + b"\0" + text.encode(), None),
        "the deployment key is put before the message, which is no HMAC",
    ),
    "tag-last-8": (
        lambda text, key: (
            (hmac.new(key, SCOPE + b"\0" + text.encode(), hashlib.sha256).hexdigest()[-16:])
            if key is not None
            else hashlib.sha256(SCOPE + b"\0" + text.encode()).hexdigest()[-16:]
        ),
        "the last eight bytes are taken, not the first",
    ),
    "tag-utf-16": (
        lambda text, key: _tag(SCOPE + b"\0" + text.encode("utf-16-le"), key),
        "the salt is hashed as UTF-16, not as UTF-8",
    ),
    "tag-stripped": (
        lambda text, key: _tag(SCOPE + b"\0" + text.strip().encode(), key),
        "white space around the salt is taken off",
    ),
}
"""Slug → function, and what is wrong."""


def boundary_notes(features: dict[str, dict[str, str]]) -> dict[str, Note]:
    """The notes of the boundaries of these features."""
    return {
        flag: Note(kind="boundary", feature=feature, description=description)
        for feature, flags in features.items()
        for flag, description in flags.items()
    }
