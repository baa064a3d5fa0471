"""``kvwire hash``: the standard's algorithms for people without our code."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from tests.kit.hashed import chain

from kvwire.cli.hash import FOREIGN
from kvwire.cli.root import main
from kvwire.hashes.functions import named


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
