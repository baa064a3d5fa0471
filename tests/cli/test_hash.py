"""``kvwire hash``: the standard's algorithms for people without our code."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner
from tests.kit.hashed import chain, states

from kvwire.cli.hash import FOREIGN
from kvwire.cli.root import main
from kvwire.hashes.functions import TRUE, Function, Scope, named
from kvwire.hashes.mistakes import BY_NAME, MISTAKES


def lines(*arguments: str) -> list[dict[str, object]]:
    done = CliRunner().invoke(main, ["hash", *arguments])
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.output.splitlines()]


def refusal(*arguments: str) -> str:
    done = CliRunner().invoke(main, ["hash", *arguments])
    assert done.exit_code == 2
    return done.output


def test_the_known_answer_of_v1() -> None:
    (block,) = lines("v1_block_key", "--tokens", "1,2,3,4", "--block-size", "4")
    assert block == {
        "block": 0,
        "tokens": [1, 2, 3, 4],
        "unsigned": "924206229973855",
        "signed": "924206229973855",
        "key": None,
        "partial": False,
    }


def test_a_trailing_partial_block_is_said_to_be_one() -> None:
    first, rest = lines("v1_block_key", "--tokens", "1,2,3,4,5,6", "--block-size", "4")
    assert (first["partial"], rest["partial"]) == (False, True)
    assert rest["unsigned"] == "6875034662206558884"


def test_v2_shows_the_wire_form_and_the_full_key() -> None:
    first, second = lines("v2_sha256_64/u32", "--tokens", "1,2,3,4,5,6,7,8", "--block-size", "4")
    assert first["unsigned"] == "16443243144690205867"
    assert first["signed"] == "-2003500929019345749"
    assert first["key"] == "e432228522a304ab556d66e6e40979ad05575f28b19b554264dd3c6277aaf073"
    (chained,) = lines(
        "v2_sha256_64/u32", "--tokens", "5,6,7,8", "--block-size", "4", "--parent-key", str(first["key"])
    )
    assert chained["unsigned"] == second["unsigned"] == "8460888372051954880"


def test_scopes() -> None:
    by_text, by_id = (
        lines("v2_sha256_64/u32", "--tokens", "1,2,3,4", "--block-size", "4", *salt)
        for salt in (("--salt", "tenant-a"), ("--salt-id", "16248643848220682112"))
    )
    assert by_text == by_id
    (lora,) = lines("v1_block_key", "--tokens", "1,2,3,4", "--block-size", "4", "--lora-id", "123")
    assert lora["unsigned"] == "15718075209399076427"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("v2_sha256_64/u32", "--tokens", "1,2", "--block-size", "2", "--parent", "5"), "256-bit key"),
        (("v1_block_key", "--tokens", "1,2", "--block-size", "2", "--parent-key", "00"), "64-bit hash"),
        (("v2_sha256_64/u32", "--tokens", "1,2", "--block-size", "2", "--parent-key", "00"), "64 hex digits"),
        (("v1_block_key", "--tokens", "1,x", "--block-size", "2"), "'x' is neither"),
        (("v1_block_key", "--tokens", "", "--block-size", "2"), "no token"),
        (("v1_block_key", "--tokens", "-1", "--block-size", "2"), "-1"),
        (("v2_sha256_64/u32", "--tokens", str(2**31), "--block-size", "1"), str(2**31)),
        (("v1_block_key", "--tokens", "1", "--block-size", "1", "--salt", "a", "--salt-id", "1"), "exclude"),
        (("v3", "--tokens", "1", "--block-size", "1"), "v3"),
        (("x-dynamo-xxh3", "--tokens", "1", "--block-size", "1", "--salt", "a"), "how a LoRA adapter or a salt enters"),
        (("x-dynamo-xxh3", "--tokens", "1", "--block-size", "1", "--parent-key", "00"), "64-bit hash"),
        (("x-sglang-sha256", "--tokens", "1", "--block-size", "1", "--parent", "5"), "chains a key"),
        (("x-sglang-sha256", "--tokens", "1", "--block-size", "1", "--salt-id", "5"), "give --salt"),
        (("x-dynamo-xxh3", "--tokens", str(2**32), "--block-size", "1"), "not in 0"),
        (("x-sglang-sha256", "--tokens", "ab" * 32, "--block-size", "1"), "no hash for block 0"),
        (("v1_block_key", "--tokens", "1", "--block-size", "1", "--lora-name", "a"), "give --lora-id"),
    ],
)
def test_what_cannot_be_hashed_is_refused_with_the_reason(arguments: tuple[str, ...], says: str) -> None:
    assert says in refusal(*arguments)


def test_the_bare_label_gives_both_widths_and_says_why() -> None:
    arguments = ("--tokens", "1,2,3,4,5,6,7,8", "--block-size", "4")
    done = CliRunner().invoke(main, ["hash", "v2_sha256_64", *arguments])
    assert done.exit_code == 0
    assert "does not say whether a token has four bytes or eight" in done.stderr
    blocks = [json.loads(line) for line in done.stdout.splitlines()]
    wide = [{**block, "algorithm": f"v2_sha256_64/{w}"} for w in ("u32", "u64") for block in lines_of(w, *arguments)]
    assert blocks == wide


def lines_of(width: str, *arguments: str) -> list[dict[str, object]]:
    return lines(f"v2_sha256_64/{width}", *arguments)


@pytest.mark.parametrize("label", FOREIGN)
def test_the_functions_of_others_give_what_the_judges_recompute(label: str) -> None:
    arguments = (label, "--tokens", "1,2,3,4,5,6,7,8,9", "--block-size", "4")
    found = [block["unsigned"] for block in lines(*arguments)]
    assert found == [str(value) for value in chain(named(label)[0].name, [(1, 2, 3, 4), (5, 6, 7, 8)])]


def test_what_leaves_something_open_is_hashed_in_both_ways() -> None:
    arguments = ("--tokens", "1,2", "--block-size", "2", "--salt", "tenant-a")
    done = CliRunner().invoke(main, ["hash", "x-vllm-sha256-cbor", *arguments])
    assert "does not say how extra keys enter" in done.stderr
    names = [json.loads(line)["algorithm"] for line in done.stdout.splitlines()]
    assert names == ["x-vllm-sha256-cbor/bare", "x-vllm-sha256-cbor/kinds"]
    (bare,) = lines("x-vllm-sha256-cbor/bare", *arguments)
    assert bare["unsigned"] == json.loads(done.stdout.splitlines()[0])["unsigned"]


def test_a_chain_of_others_goes_on_from_a_parent() -> None:
    first, second = lines("x-sglang-sha256", "--tokens", "1,2,3,4", "--block-size", "2")
    tail = ("--tokens", "3,4", "--block-size", "2")
    assert lines("x-sglang-sha256", *tail, "--parent-key", str(first["key"]))[0]["unsigned"] == second["unsigned"]
    first, second = lines("x-dynamo-xxh3", "--tokens", "1,2,3,4", "--block-size", "2")
    assert lines("x-dynamo-xxh3", *tail, "--parent", str(first["signed"]))[0]["unsigned"] == second["unsigned"]


def test_a_token_of_more_than_four_bytes_leaves_one_width() -> None:
    done = CliRunner().invoke(main, ["hash", "v2_sha256_64", "--tokens", str(2**31), "--block-size", "1"])
    assert "v2_sha256_64/u32 cannot be" in done.stderr
    assert [json.loads(line)["algorithm"] for line in done.stdout.splitlines()] == ["v2_sha256_64/u64"]
    assert done.exit_code == 0


TOKENS = ",".join(map(str, range(500, 532)))


def explained(value: object, *arguments: str, tokens: str = TOKENS) -> tuple[int, str]:
    done = CliRunner().invoke(
        main, ["hash", "--explain", str(value), "--tokens", tokens, *arguments], standalone_mode=False
    )
    return int(done.return_value), done.output


@pytest.mark.parametrize("name", [function.name for function in TRUE if not function.name.endswith((")", "/kinds"))])
def test_a_hash_is_explained_by_each_function_that_gives_it(name: str) -> None:
    blocks = [tuple(range(500, 516)), tuple(range(516, 532))]
    value = chain(name, blocks)[1]
    assert explained(value)[1].splitlines()[1] == f"  block 1 of 16 tokens (tokens 16 to 31) by {name}"
    assert explained(hex(value), "--block-size", "16")[0] == 0


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: str(mistake.name))
def test_a_hash_is_explained_by_each_known_mistake(mistake: Function) -> None:
    digest = bytes(range(32))
    scope = Scope(7, None, "tenant-a")
    mm = [((digest, 0),), ()]
    blocks: list[tuple[int | bytes, ...]] = [(digest, *range(501, 516)), tuple(range(516, 532))]
    if not mistake.name.endswith(("hex-digest", "no-fallback")):
        blocks[0] = tuple(range(500, 516))
    if mistake.foreign:
        scope, mm = Scope(), [(), ()]
    pairs = zip(states(mistake, blocks, scope, mm), states(BY_NAME[str(mistake.truth)], blocks, scope, mm), strict=True)
    shown = next(wrong.hash for wrong, right in pairs if wrong.hash is not None and wrong.hash != right.hash)
    tokens = ",".join(token.hex() if isinstance(token, bytes) else str(token) for block in blocks for token in block)
    inputs = [] if scope.bare else ["--lora-id", "7", "--salt", "tenant-a", "--mm", f"0:{digest.hex()}@0"]
    code, said = explained(shown, "--block-size", "16", *inputs, tokens=tokens)
    assert code == 0, said
    assert mistake.wrong in said or "without" in said or "its bytes in the wrong order" in said


@pytest.mark.parametrize(
    ("given", "asked", "said"),
    [
        (("--seed", "42"), (), "by x-vllm-sha256-cbor/bare with PYTHONHASHSEED=42"),
        (("--seed", "own"), ("--seed", "own"), "with PYTHONHASHSEED=own"),
        (("--lora-name", "a"), ("--lora-name", "a"), "(tokens 0 to 15) by x-vllm-sha256-cbor/bare\n"),
        ((), ("--lora-name", "a", "--salt", "x"), "without the LoRA adapter and the salt"),
        (("--salt", "x"), ("--lora-name", "a", "--salt", "x"), "without the LoRA adapter\n"),
        (("--extra-keys", '[[["pic", 3]]]'), ("--extra-keys", '[[["pic", 3]]]'), "by x-vllm-sha256-cbor/bare\n"),
    ],
)
def test_the_inputs_that_give_a_hash_are_named(given: tuple[str, ...], asked: tuple[str, ...], said: str) -> None:
    (first, _) = lines("x-vllm-sha256-cbor/bare", "--tokens", TOKENS, "--block-size", "16", *given)
    assert said in explained(first["signed"], *asked)[1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda value: int.from_bytes(value.to_bytes(8, "big"), "little"), "its bytes in the wrong order"),
        (lambda value: int(float(value)), "rounded to a double, as JavaScript reads integers"),
        (lambda value: value % 2**32, "its lower 32 bits alone"),
        (lambda value: value % 2**63, "without its highest bit"),
    ],
)
def test_what_a_number_lost_on_its_way_is_named(change: Callable[[int], int], said: str) -> None:
    starts = {chain("x-dynamo-xxh3", [tuple(range(n, n + 16))])[0]: n for n in range(20)}
    value = max(starts)
    start = starts[value]
    assert said in explained(change(value), tokens=",".join(map(str, range(start, start + 16))))[1]


def test_a_hash_that_nothing_gives_is_told_with_all_that_was_tried_and_the_way_out() -> None:
    code, said = explained(12345)
    assert code == 1
    assert f"none of {len(TRUE)} functions, {len(MISTAKES)} known mistakes and " in said
    assert "--salt, --lora-name, --extra-keys" in said
    assert "--parent-key" in explained(12345, "--parent", "9")[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--explain", "x", "--tokens", "1"), "a 64-bit integer, signed or not"),
        (("--explain", str(2**64), "--tokens", "1"), "a 64-bit integer"),
        (("v1_block_key", "--explain", "1", "--tokens", "1"), "leave out v1_block_key"),
        (("--tokens", "1"), "give ALGORITHM and --block-size, or --explain HASH"),
        (("--explain", "1", "--tokens", "1", "--extra-keys", "[1]"), "a list or null for each block"),
        (("--explain", "1", "--tokens", "1", "--extra-keys", "{"), "no JSON"),
        (("--explain", "1", "--tokens", "1", "--mm", "0:ab@0"), "64 hex digits"),
        (("v2_sha256_64/u32", "--tokens", "1", "--block-size", "1", "--seed", "4"), "only vLLM's functions take it"),
        (("x-sglang-sha256", "--tokens", "1", "--block-size", "1", "--seed", "4"), "only vLLM's functions take it"),
    ],
)
def test_what_cannot_be_explained_is_refused_with_the_reason(arguments: tuple[str, ...], says: str) -> None:
    assert says in refusal(*arguments)
