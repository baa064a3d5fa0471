"""The hash functions of the standard, written from its text (hashing.md) alone. Standard library only.

``chain`` is the interface: ids are integers, digests and keys bytes, multimodal keys pairs of digest and offset.
"""

from __future__ import annotations

import hashlib
import hmac
import pickle
import struct
from collections.abc import Callable, Sequence
from typing import Any

M32, M64 = 2**32 - 1, 2**64 - 1
Token = int | bytes
Block = tuple[int, bytes | None]
"""The hash of a block, unsigned, and its key if it has one."""


class Skipped(Exception):
    """A function that is not here."""


def step32(x: int, s: int, wrap: int = M32) -> int:
    v = x & M32
    v = (v ^ (v >> 16)) * 0x045D9F3B & M32
    v = (v ^ (v >> 16)) * 0x045D9F3B & M32
    v = ((v ^ (v >> 16)) + 0x9E3779B9) & wrap
    return s ^ ((v + (s << 6) + (s >> 2)) & M64)


def step64(x: int, s: int) -> int:
    v = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & M64
    v = (v ^ (v >> 27)) * 0x94D049BB133111EB & M64
    return s ^ (((v ^ (v >> 31)) + 0x9E3779B9 + (s << 6) + (s >> 2)) & M64)


def v1_block(
    tokens: Sequence[Any],
    parent: int = 0,
    lora: int | None = None,
    salt: int | None = None,
    extra: Sequence[int] | None = None,
    mm: Sequence[tuple[bytes, int]] = (),
    wrap: int = M32,
) -> int:
    s = len(tokens) ^ (parent * 0xBF58476D1CE4E5B9 & M64)
    if parent == 0 and salt is not None:
        s = step64(salt, s)
    for i, token in enumerate(tokens):
        s = step32(token, s, wrap)
        if extra is not None:
            s = step64(extra[i], s)
    if lora is not None:
        s = step64(lora, s)
    for digest, offset in mm:
        for word in struct.unpack("<8I", digest):
            s = step32(word, s, wrap)
        s = step64(offset, s)
    return s


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def salt_id(text: str) -> int:
    return int.from_bytes(sha256(text.encode())[:8], "little")


def scope_tag(text: str, key: str | None) -> str:
    message = b"kvwire-scope-1\0" + text.encode()
    return (hmac.digest(bytes.fromhex(key), message, "sha256") if key else sha256(message))[:8].hex()


def root_key(lora: int | None, salt: int | None) -> bytes:
    mask = (lora is not None) + 2 * (salt is not None)
    return sha256(bytes([mask]), *(value.to_bytes(8, "little") for value in (lora, salt) if value is not None))


def block_key(parent: bytes, tokens: Sequence[Token], width: int) -> bytes:
    return sha256(parent, *(t if isinstance(t, bytes) else t.to_bytes(width, "little") for t in tokens))


def cbor(value: Any) -> bytes:
    """Canonical, of what a block of vLLM is made of: null, integers from 0, bytes, texts, arrays."""
    if value is None:
        return b"\xf6"
    data = value.encode() if isinstance(value, str) else value
    count = value if isinstance(value, int) else len(data)
    first = {int: 0x00, bytes: 0x40, str: 0x60, tuple: 0x80}[type(value)]
    if count < 24:
        head = bytes([first + count])
    else:
        width = next(width for width in (1, 2, 4, 8) if count < 1 << 8 * width)
        head = bytes([first + 23 + width.bit_length()]) + count.to_bytes(width, "big")
    if isinstance(value, tuple):
        return head + b"".join(map(cbor, value))
    return head + data if first else head


def kinded(key: Any) -> Any:
    """An extra key as vLLM hashes it since 0.31: its kind before it."""
    if isinstance(key, tuple):
        return ("mm", *key)
    return ("cache_salt" if isinstance(key, str) else "prompt_embeds", key)


def vllm_key(label: str, parent: bytes | None, tokens: tuple[Token, ...], extra: Any) -> bytes:
    def dump(value: Any) -> bytes:
        return cbor(value) if label.startswith("x-vllm-sha256-cbor") else pickle.dumps(value, protocol=5)

    return sha256(dump((sha256(dump("vllm-none-hash")) if parent is None else parent, tokens, extra or None)))


def chain(label: str, blocks: Sequence[tuple[Token, ...]], width: int = 4, **given: Any) -> list[Block]:
    """Hash and key of each block. ``given`` is named and shaped like the ``input`` of a vector, its values converted.

    ``width``: bytes of a token. For ``v1_block_key``, of the keys that hashes are taken from behind a digest token.
    """
    lora, text, salt = given.get("lora_id"), given.get("salt"), given.get("salt_id")
    parent, key, at = given.get("parent") or 0, given.get("parent_key"), 0
    if label.startswith("v") and salt is None and text is not None:
        salt = salt_id(text)
    if label.startswith("v") and key is None and parent == 0:
        key = root_key(lora, salt)
    if label == "x-sglang-sha256" and key is None:
        key = b"" if text is None else sha256(b"sglang-cache-salt-v1\0", text.encode())
    keyed, found = not label.startswith("v1_block_key"), []
    for index, tokens in enumerate(blocks):
        keyed = keyed or any(isinstance(token, bytes) for token in tokens)
        if label.startswith("x-vllm"):
            own = tuple(part for part in (given.get("lora_name"), None if index else text) if part is not None)
            extra = given["extra_keys"][index] if "extra_keys" in given else own
            if label.endswith("/kinds"):
                extra = tuple(map(kinded, extra or ()))
            key = vllm_key(label, key, tokens, extra)
        elif key is not None:
            key = block_key(key, tokens, width)
        if not keyed:
            extra, mm = given.get("extra_ids"), given.get("mm_keys")
            extra = None if extra is None else extra[at : at + len(tokens)]
            wrap = M64 if label == "v1_block_key/no-wrap" else M32
            parent = v1_block(tokens, parent, lora, salt, extra, mm[index] if mm else (), wrap)
        elif key is None:
            raise Skipped(f"no {label} here")
        else:
            last = label.startswith(("x-vllm", "v2_sha256_low64"))
            parent = int.from_bytes(key[-8:] if last else key[:8], "big")
        found.append((parent, key if keyed else None))
        at += len(tokens)
    return found


# --- the hash vectors ------------------------------------------------------------------------------------------------


def listed_tokens(items: list[Any]) -> list[Token]:
    tokens: list[Token] = []
    for item in items:
        if isinstance(item, dict):
            tokens += [item["from"] + index * item["step"] for index in range(item["count"])]
        else:
            tokens.append(bytes.fromhex(item) if isinstance(item, str) else item)
    return tokens


def plain(value: Any) -> Any:
    """Extra keys, out of their projection."""
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"])
    return tuple(map(plain, value)) if isinstance(value, list) else value


CONVERT: dict[str, Callable[[Any], Any]] = {
    "parent": int,
    "lora_id": int,
    "salt_id": int,
    "parent_key": bytes.fromhex,
    "extra_ids": lambda ids: list(map(int, ids)),
    "extra_keys": plain,
    "mm_keys": lambda blocks: [[(bytes.fromhex(key["hash"]), key["start_offset"]) for key in keys] for keys in blocks],
}


def answer(group: dict[str, Any], test: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What a test expects, or the faults of its input."""
    label = group["algorithm"]
    width = 8 if label.endswith("/u64") else group.get("width", 4)
    given = {name: CONVERT[name](value) if name in CONVERT else value for name, value in test.items()}
    tokens, size = listed_tokens(given.pop("tokens", [])), given.pop("block_size", None) or 1
    faults = {
        "digest-length": any(isinstance(token, bytes) and len(token) != 32 for token in tokens),
        "token-range": any(isinstance(token, int) and not 0 <= token < 1 << 8 * width for token in tokens),
        "extra-ids-count": len(given.get("extra_ids", tokens)) != len(tokens),
        "salt-id": {"salt", "salt_id"} <= set(given) and given["salt_id"] != salt_id(given["salt"]),
    }
    if any(faults.values()):
        return {}, [name for name, there in faults.items() if there]
    if label == "v2_sha256/root":
        return {"key": root_key(given.get("lora_id"), given.get("salt_id")).hex()}, []
    if label == "scope_tag":
        return {"tag": scope_tag(given["salt"], given.get("scope_key"))}, []
    blocks = [tuple(tokens[at : at + size]) for at in range(0, len(tokens), size)]
    found = [(salt_id(given["salt"]), None)] if label == "salt_id" else chain(label, blocks, width, **given)
    last, key = found[-1]
    keys = [key.hex() for _, key in found if key]
    chained = keys if label.startswith("v2_sha256/") else [str(block) for block, _ in found]
    signed = last - (last >> 63 << 64)
    return {"unsigned": str(last), "signed": str(signed), "key": key and key.hex(), "chain": chained}, []
