"""What hash tests cover: features, the boundaries of each, and the other flags of hash files."""

from __future__ import annotations

from kvwire.vectors.model import Note

SIZES = (1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 511, 512, 513, 1023, 1024, 1025, 2047, 2048)
"""Block sizes that are tested: common ones, and those around a 4 KiB buffer of eight-byte and four-byte tokens."""

FEATURES: dict[str, dict[str, str]] = {
    "token ids": {
        "token-0": "ids of 0",
        "token-255": "ids of 255 and 256, where a second byte begins",
        "token-65535": "ids of 65535 and 65536, where a third byte begins",
        "token-2e24": "ids of 2^24−1 and 2^24, where a fourth byte begins",
        "token-i31-max": "ids of 2^31−1, the largest under `/u32`",
        "token-2e31": "ids of 2^31 and 2^31+1, negative as 32-bit signed numbers",
        "token-u32-max": "ids of 2^32−1",
        "token-mixed": "the smallest and the largest ids in one block",
        "token-over": "an id beyond the range",
        "token-negative": "an id below 0",
    },
    "block size": {f"size-{size}": f"full blocks of {size} token{'s' * (size > 1)}" for size in SIZES},
    "partial block": {
        "partial-first": "a chain that is one partial block",
        "partial-later": "a partial block behind full ones",
        "partial-one": "a partial block of one token",
        "partial-but-one": "a partial block that lacks one token",
    },
    "chain": {
        "chain-2": "a block and its child",
        "chain-3": "three blocks",
        "chain-8": "eight blocks",
        "chain-64": "64 blocks",
        "chain-256": "256 blocks",
        "chain-of-ones": "a chain of blocks of one token",
        "chain-equal-blocks": "a chain of blocks with equal tokens",
    },
    "given parent": {
        "parent-small": "a parent's hash of 1",
        "parent-2e32": "a parent's hash of 2^32",
        "parent-rounding": "a parent's hash of 2^53+1, which floating point cannot hold",
        "parent-i63-max": "a parent's hash of 2^63−1",
        "parent-2e63": "a parent's hash of 2^63, the first that is negative when signed",
        "parent-max": "a parent's hash of 2^64−1, which is −1 when signed",
        "parent-0": "a parent's hash of 0, given or computed: a first block to the function",
        "parent-key-zeros": "a parent's key of 32 zero bytes",
        "parent-key-ones": "a parent's key of 32 bytes ff",
        "parent-key-high": "a parent's key whose first byte is 80 or above",
        "parent-key-low": "a parent's key whose first byte is below 80",
    },
    "LoRA id": {
        "lora-0": "id 0: present, and not the same as absent",
        "lora-small": "a small id",
        "lora-2e32": "an id of 2^32",
        "lora-rounding": "an id of 2^53+1, which floating point cannot hold",
        "lora-i63-max": "an id of 2^63−1",
        "lora-2e63": "an id of 2^63",
        "lora-max": "an id of 2^64−1",
        "lora-child": "a later block of a chain with a LoRA id",
    },
    "salt id": {
        "salt-0": "id 0: present, and not the same as absent",
        "salt-small": "a small id",
        "salt-2e32": "an id of 2^32",
        "salt-rounding": "an id of 2^53+1, which floating point cannot hold",
        "salt-i63-max": "an id of 2^63−1",
        "salt-2e63": "an id of 2^63",
        "salt-max": "an id of 2^64−1",
        "salt-text": "an id made of a salt text",
        "salt-child": "a later block of a chain with a salt",
    },
    "LoRA and salt": {
        "both-0": "both ids are 0",
        "both-small": "two small ids",
        "both-exchanged": "the ids of `both-small` exchanged",
        "both-equal": "two equal ids",
        "both-0-max": "LoRA id 0, salt id 2^64−1",
        "both-max-0": "LoRA id 2^64−1, salt id 0",
        "both-max": "both ids are 2^64−1",
        "both-child": "a later block of a chain with both",
    },
    "digest token": {
        "digest-start": "the first token of the block",
        "digest-middle": "a token in the middle of the block",
        "digest-end": "the last token of the block",
        "digest-only": "the only token of a block",
        "digest-two": "two digests, with text between them",
        "digest-adjacent": "two digests side by side",
        "digest-all": "nothing but digests",
        "digest-zeros": "a digest of 32 zero bytes",
        "digest-ones": "a digest of 32 bytes ff",
        "digest-before-seam": "the last token before 4 KiB of text tokens are full",
        "digest-at-seam": "the token with which 4 KiB of text tokens would be full",
        "digest-behind-seam": "the first token behind 4 KiB of text tokens",
        "digest-item": "an item of digest and synthetic ids over several blocks",
        "digest-child": "a text block behind a block with a digest",
        "digest-grandchild": "a text block two blocks behind one with a digest",
        "digest-later": "a digest in a block that is not the first",
        "digest-partial": "a digest in a partial block",
        "digest-scope": "a digest in a scope with LoRA and salt",
    },
    "extra ids": {
        "extra-0": "an extra id of 0 for every token: mixed in",
        "extra-small": "small extra ids, some of them 0",
        "extra-2e32": "extra ids of 2^32 and 2^32+1",
        "extra-rounding": "extra ids of 2^53+1",
        "extra-max": "extra ids of 2^64−1",
        "extra-child": "a later block of a chain with extra ids",
        "extra-partial": "a partial block with extra ids",
        "extra-scope": "extra ids in a scope with LoRA and salt",
    },
    "multimodal keys": {
        "mm-offset-0": "one key, of an item that begins in the block",
        "mm-offset-small": "one key with a small offset, of an item that began in an earlier block",
        "mm-offset-2e32": "one key with an offset of 2^32",
        "mm-offset-large": "one key with an offset of 2^53−1",
        "mm-two": "two keys in one block",
        "mm-order": "the keys of `mm-two` the other way round",
        "mm-three-blocks": "an item that spans three blocks: the offset counts its tokens before each",
        "mm-end-and-start": "the end of one item and the start of another in one block",
        "mm-zeros": "a digest of 32 zero bytes",
        "mm-ones": "a digest of 32 bytes ff",
        "mm-child": "a text block behind a block with a key: only its parent's hash tells",
        "mm-partial": "a partial block with a key",
        "mm-scope": "a key in a scope with LoRA and salt",
        "mm-extra": "a key beside extra ids",
    },
    "32-bit sum": {
        "sum-no-wrap": "no sum of the 32-bit step wraps",
        "sum-first-wraps": "the sum of the first token wraps",
        "sum-all-wrap": "every sum wraps",
        "sum-edge": "sums of 2^32−1 and of 2^32",
    },
    "shape of the hash": {
        "hash-positive": "below 2^63",
        "hash-negative": "2^63 or above: negative when signed",
        "hash-leading-zero": "the first byte is 00",
        "hash-two-leading-zeros": "the first two bytes are 00",
        "hash-leading-ff": "the first byte is ff",
        "hash-zero": "all 64 bits are 0",
    },
    "framing": {
        "framing-width": "tokens that look the same to both widths: t, 0 of four bytes is t of eight",
        "framing-digest": "a digest and the eight four-byte tokens that look like it",
    },
}
"""Feature → boundary → what it is. Each boundary is a flag of the tests that cover it."""

BOUNDARIES = {
    flag: Note(kind="boundary", feature=feature, description=description)
    for feature, flags in FEATURES.items()
    for flag, description in flags.items()
}

ORIGINS = {
    "known-answer": Note(
        kind="origin",
        description="the number comes from outside this project, see known-answers.json",
        links=("hashing.md",),
    ),
    "upstream": Note(
        kind="origin",
        description="the tests of the project that defines the function assert the number",
        links=("https://github.com/NVIDIA/TensorRT-LLM",),
    ),
    "worked-example": Note(kind="origin", description="the standard shows every step of it", links=("hashing.md",)),
    "corner": Note(kind="property", description="a definition taken to its edge, rarely met in practice"),
}
