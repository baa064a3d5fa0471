"""Parity with the hashes of a second implementation, which was written from the standard's text alone."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.kit.hashed import Blocks, cached, event, extra_of, judged, kinds, recompute, text
from tests.kit.stories import Story

from kvwire.hashes.functions import NO_SCOPE, Scope

SOURCE = Path(__file__).parents[2] / "vectors" / "verifiers" / "python" / "hashing.py"
DIGEST = bytes(range(32))
SALTED, ADAPTED, BOTH = Scope(salt="tenant-a"), Scope(lora=7, lora_name="adapter"), Scope(7, "adapter", "tenant-a")
V2 = [f"v2_sha256_{which}/u{bits}" for which in ("64", "low64") for bits in (32, 64)]
OWN = ["v1_block_key", *V2]
FOREIGN = ["x-vllm-sha256-cbor/bare", "x-vllm-sha256/bare"]
CASES = [
    *[(label, scope) for label in (*OWN, *FOREIGN) for scope in (NO_SCOPE, SALTED, ADAPTED, BOTH)],
    ("x-sglang-sha256", NO_SCOPE),
    ("x-sglang-sha256", SALTED),
]


@pytest.fixture(scope="module")
def second() -> ModuleType:
    """The second hasher, which is a file of the vectors and no module of ours."""
    spec = importlib.util.spec_from_file_location("second_hashing", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def hashes(second: ModuleType, label: str, blocks: Blocks, scope: Scope = NO_SCOPE, **more: Any) -> list[int]:
    """The hashes of a chain, as the second hasher has them."""
    given = {"lora_id": scope.lora, "lora_name": scope.lora_name, "salt": scope.salt}
    known = {name: value for name, value in given.items() if value is not None}
    return [made for made, _ in second.chain(label, blocks, 8 if label.endswith("/u64") else 4, **known, **more)]


def told(found: list[int], blocks: Blocks, scope: Scope = NO_SCOPE, **keys: Any) -> Story:
    """A prompt that is run, and its blocks in two events."""
    told = Story(can=("cache",))
    told.begin()
    cached(told, blocks, scope)
    half = len(blocks) // 2
    for first, last in ((0, half), (half, len(blocks))):
        listed: dict[str, Any] = {
            key: value[first:last] if isinstance(value, list) else value for key, value in keys.items()
        }
        told.send(event(found[:last], blocks[:last], first=first, **listed))
    return told


@pytest.mark.parametrize(("label", "scope"), CASES, ids=lambda value: str(value) if isinstance(value, str) else "")
def test_every_function_matches(second: ModuleType, label: str, scope: Scope) -> None:
    """The engine and the second hasher agree on every block, and on no block that is changed."""
    blocks = text(20)
    keys = {"extra_keys": [extra_of(at, scope) for at in range(20)]} if label in FOREIGN else {}
    found = hashes(second, label, blocks, scope)
    parity, results = recompute(told(found, blocks, scope, **keys))
    assert kinds(results) == "m" * 20
    assert parity.matches[label] == 20
    changed = [value ^ (at == 13) << 40 for at, value in enumerate(found)]
    _, results = recompute(told(changed, blocks, scope, **keys), label)
    claimed = label == "v1_block_key"
    assert kinds(results) == "m" * 13 + ("ww" + "m" * 5 if claimed else "w" + "m" * 6)


@pytest.mark.parametrize("size", [1, 3, 4, 64, 513, 1025])
@pytest.mark.parametrize("label", OWN)
def test_every_size(second: ModuleType, label: str, size: int) -> None:
    blocks = text(8, size)
    assert kinds(recompute(told(hashes(second, label, blocks), blocks), label)[1]) == "m" * 8


@pytest.mark.parametrize("label", OWN)
def test_digest_tokens(second: ModuleType, label: str) -> None:
    blocks: Blocks = [*text(2), (DIGEST, *range(15)), *text(3, seed=2)]
    found = hashes(second, label, blocks)
    _, results = recompute(told(found, blocks, mm_keys=[[] for _ in blocks]), label)
    assert kinds(results) == "m" * 6


def test_multimodal_keys(second: ModuleType) -> None:
    blocks = text(3)
    keys: list[list[tuple[bytes, int]]] = [[], [(DIGEST, 2), (bytes(32), 0)], [(DIGEST, 18)]]
    wire = [[{"type": "mm_key", "hash": key.hex(), "start_offset": at} for key, at in block] for block in keys]
    found = hashes(second, "v1_block_key", blocks, mm_keys=keys)
    assert kinds(recompute(told(found, blocks, mm_keys=wire))[1]) == "mmm"


@pytest.mark.parametrize("label", OWN)
def test_the_judge_passes_the_second_hasher(second: ModuleType, label: str) -> None:
    blocks = text(20)
    said = judged(told(hashes(second, label, blocks), blocks, hash_algo=label))
    assert (said["001"], said["002"]) == ("PASS", "PASS")


def test_the_judge_fails_it_without_the_wrap(second: ModuleType) -> None:
    blocks = text(20)
    wrong = told(hashes(second, "v1_block_key/no-wrap", blocks), blocks, hash_algo="v1_block_key")
    parity, _ = recompute(wrong, "v1_block_key")
    assert parity.mistaken["v1_block_key/no-wrap"].count == 20
    assert judged(wrong)["002"] == "FAIL"
