"""What a stranger is told of a stream: the causes of lookups that never hit, each in a line."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from tests.conclusion.test_notices import trace
from tests.kit.stories import Story, cleared, removed, stored

from kvwire.conclusion.diagnosis import expectation, recognition
from kvwire.conclusion.diagnosis.draft import draft
from kvwire.conclusion.diagnosis.expectation import Expectation, ExpectationError
from kvwire.conclusion.diagnosis.recognition import seeded
from kvwire.conclusion.doctor import Diagnosis, diagnose
from kvwire.hashes.functions import NO_SCOPE, TRUE, Block, Function
from kvwire.hashes.mistakes import BY_NAME
from kvwire.report.doctor import render
from kvwire.standard.statement import convert

PROMPTS = [list(range(start, start + 64)) for start in (3000, 9000, 20_000)]


def hashed(function: Function, tokens: Sequence[int], size: int, finer: int | None = None) -> list[int]:
    """The hashes of a prompt's blocks, signed; of finer blocks where they are hashed, each named by its last."""
    state, parent, found = function.start(NO_SCOPE), None, []
    step = finer or size
    for at in range(0, len(tokens), step):
        assert state is not None
        state = function.step(state, Block(tuple(tokens[at : at + step]), parent))
        parent = state.hash
        assert parent is not None
        if (at + step) % size == 0:
            found.append(parent - 2**64 if parent >= 2**63 else parent)
    return found


def engine(
    function: Function,
    size: int = 16,
    *,
    stream: str = "s",
    finer: int | None = None,
    prompts: Iterable[Any] = PROMPTS,
    **extra: Any,
) -> Story:
    """An engine that announced a few prompts under one function."""
    story = Story(stream=stream)
    story.send(cleared())
    for tokens in prompts:
        story.send(
            {
                **stored("a", size=size),
                "block_hashes": hashed(function, tokens, size, finer),
                "token_ids": tokens,
                **extra,
            }
        )
    return story


def of(*stories: Story, expected: Expectation | None = None, seeds: Sequence[str] = ()) -> Diagnosis:
    return diagnose([(f"t{at}", story.trace()) for at, story in enumerate(stories)], expected, seeds)


def shown(diagnosis: Diagnosis) -> str:
    out = io.StringIO()
    render(diagnosis, Console(file=out, width=400, no_color=True))
    return out.getvalue()


VLLM = BY_NAME["x-vllm-sha256-cbor/bare"]
NAMES = [function.name for function in TRUE if not function.name.endswith(("/kinds", "behind a digest)"))]


@pytest.mark.parametrize("name", NAMES)
def test_every_function_is_told_by_its_hashes_alone(name: str) -> None:
    function = of(engine(BY_NAME[name])).streams[0].function
    assert function is not None
    assert (function.function, function.blocks, function.tried, function.seed) == (name, 12, 12, None)


@pytest.mark.parametrize("seed", ["42", "0", "1337"])
def test_a_seed_that_is_easily_guessed_is_named(seed: str) -> None:
    diagnosis = of(engine(seeded(VLLM, seed)))
    assert diagnosis.streams[0].functions[0].seed == seed
    assert f"the engine hashes with PYTHONHASHSEED={seed}" in shown(diagnosis)
    assert f"{VLLM.name} with PYTHONHASHSEED={seed} (recomputed 12 of 12)" in shown(diagnosis)


def test_a_seed_that_is_given_is_tried_and_another_is_not_found() -> None:
    story = engine(seeded(VLLM, "a secret"))
    assert of(story, seeds=["a secret"]).streams[0].functions[0].seed == "a secret"
    assert of(story).streams[0].function is None
    assert "no known hash function gives any of 12 hashes: a seed for this process" in shown(of(story))


def test_smaller_blocks_that_are_hashed_are_named() -> None:
    diagnosis = of(engine(VLLM, 64, finer=16))
    assert diagnosis.streams[0].functions[0].finer == 16
    assert "a block is named by the hash of its last 16 tokens" in shown(diagnosis)


def test_a_known_mistake_is_named() -> None:
    name = "v2_sha256_64/u32/little-endian-hash"
    diagnosis = of(engine(BY_NAME[name]))
    assert f"the hashes are those of a known mistake, {name}: the first eight bytes" in shown(diagnosis)
    assert diagnosis.streams[0].functions[0].mistake


def test_the_search_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognition, "SEARCH", 64)
    tokens = [list(range(start, start + 16)) for start in range(0, 4096, 16)]
    profile = of(engine(seeded(VLLM, "unguessable"), prompts=tokens)).streams[0]
    assert profile.hashed == 256
    assert profile.functions == []


def test_two_workers_with_different_seeds_are_told_apart_by_the_first_block() -> None:
    diagnosis = of(engine(VLLM, stream="a"), engine(seeded(VLLM, "42"), stream="b"))
    (agreement,) = diagnosis.agreements
    assert (agreement.shared, agreement.alike) == (12, 0)
    assert agreement.parting is not None
    assert agreement.parting.tokens == 16
    assert agreement.parting.why == ["another seed: 1:a has none, 2:b runs with PYTHONHASHSEED=42"]
    assert "they part within the first 16 tokens (3000, 3001, 3002, 3003, …)" in shown(diagnosis)


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (
            engine(BY_NAME["v2_sha256_64/u32"]),
            engine(BY_NAME["v2_sha256_64/u64"]),
            "tokens are hashed as eight bytes each",
        ),
        (
            engine(BY_NAME["v2_sha256_64/u32"]),
            engine(BY_NAME["v2_sha256_low64/u32"]),
            "the last eight bytes of the key",
        ),
        (engine(VLLM), engine(BY_NAME["x-sglang-sha256"]), "another function: 1:s uses x-vllm"),
        (engine(VLLM), engine(VLLM, 32), "another block size: 1:s has 16 tokens, 2:s 32"),
        (engine(VLLM), engine(seeded(VLLM, "unguessable")), "those of 2:s are of no known function, seed or scope"),
        (
            engine(VLLM, lora_id=1, lora_name="a"),
            engine(seeded(VLLM, "42"), lora_id=2, lora_name="b"),
            "another adapter: 1:s has 1, a, 2:s 2, b",
        ),
    ],
)
def test_why_streams_part_is_said(one: Story, other: Story, why: str) -> None:
    (agreement,) = of(one, other).agreements
    assert agreement.parting is not None
    assert why in " | ".join(agreement.parting.why)


def test_blocks_of_other_sizes_are_compared_where_their_borders_coincide() -> None:
    fine, coarse = engine(VLLM, 16), engine(VLLM, 64, finer=16)
    (agreement,) = of(fine, coarse).agreements
    assert (agreement.shared, agreement.alike, agreement.parting) == (3, 3, None)
    assert "hash alike: 3 of 3 shared prefixes have one hash" in shown(of(fine, coarse))


def test_streams_that_share_no_prompt_are_no_judgement() -> None:
    (agreement,) = of(engine(VLLM), engine(seeded(VLLM, "42"), prompts=[list(range(64))])).agreements
    assert agreement.shared == 0
    assert "share no prompt" in agreement.said
    assert agreement.parting is None


@pytest.mark.parametrize(
    ("expected", "field", "said"),
    [
        ({"block_size": 64}, "block_size", "hashes 64 tokens a block, the engine announces 16: no lookup can hit"),
        ({"topic": "kv-events"}, "topic", "subscribes to 'kv-events', the publisher sends 'kv': it hears nothing"),
        ({"algorithm": "v2_sha256_64"}, "algorithm", "the hashes are those of x-vllm-sha256-cbor/bare: no lookup"),
        (
            {"algorithm": "x-vllm-sha256-cbor", "hash_seed": "7"},
            "hash_seed",
            "hashes without a seed, the consumer with 7",
        ),
        ({"media": ["CPU"]}, "media", "3 of 3 stores are in GPU, which the consumer does not count"),
        ({"form": "array-v"}, "form", "decodes array-v events, the stream holds map"),
        ({"kinds": ["full_attention"]}, "kinds", "group 0 is mla_attention, which the consumer does not admit"),
        ({"adapters": "name"}, "adapters", "tells adapters by name, 1 of 1 have none"),
        ({"ranks": 8}, "ranks", "the consumer knows 8 ranks, 1 rank (0) publish: a rank that is not there"),
    ],
)
def test_what_a_consumer_assumes_wrongly_is_said_with_its_consequence(
    expected: dict[str, Any], field: str, said: str
) -> None:
    story = engine(VLLM, kv_cache_spec_kind="mla_attention", lora_id=0)
    diagnosis = of(story, expected=msgspec.convert(expected, Expectation))
    assert [difference.field for difference in diagnosis.differences] == [field]
    assert said in shown(diagnosis)
    assert not diagnosis.clean


def test_right_assumptions_are_no_word() -> None:
    story = engine(VLLM, kv_cache_spec_kind="full_attention")
    right = Expectation(
        block_size=16,
        topic="k",
        ranks=1,
        algorithm="x-vllm-sha256-cbor",
        kinds=("full_attention",),
        media=("GPU",),
        form="map",
    )
    diagnosis = of(story, expected=right)
    assert diagnosis.differences == []
    assert diagnosis.clean
    assert "nothing was found that would keep a consumer from hits" in shown(diagnosis)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("block_size = 0", "line 1: `block_size` is 0: Expected `int` >= 1"),
        ("blocksize = 16", "contains unknown field `blocksize`; the fields are block_size,"),
        ('algorithm = "sha"', "algorithm 'sha' is unknown; one of"),
        ("block_size = ", "not TOML"),
        ("ranks = -1", "`ranks` is -1"),
    ],
)
def test_a_bad_expectation_is_named(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "router.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ExpectationError) as caught:
        expectation.read(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def odd(change: str) -> Story:
    story = Story(replay=change != "lost without replay", declared_topic="x" if change == "topic" else "kv")
    story.send(cleared(), stored("abcdefgh"))
    match change:
        case "twice":
            story.send(stored("abc"))
        case "orphans":
            for name in "klmnopqr":
                story.send(stored(name, parent=f"z{name}"))
        case "sizes":
            story.send(stored("p", size=64, group_idx=1))
        case "salt":
            story.send(stored("p", cache_salt="secret"))
    return story


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("twice", "blocks are stored that are resident already, 3 times"),
        ("orphans", "the parents of 8 stores were never heard live"),
        ("sizes", "groups have blocks of different sizes (group 0: 4, group 1: 64)"),
        ("topic", "the topic is 'kv', not 'x': a subscriber of that hears nothing"),
    ],
)
def test_what_keeps_a_consumer_from_hits_is_a_line(change: str, said: str) -> None:
    assert said in shown(of(odd(change)))


def test_nobody_there_and_nothing_that_came_are_told_apart() -> None:
    nobody = diagnose([("t", trace([]))])
    assert "no ZeroMQ handshake on" in shown(nobody)
    silent = diagnose([("t", trace([(0.0, "s", "up")], end=3.0))])
    assert "connected, and nothing came in 3 s: events are off" in shown(silent)
    assert not nobody.clean
    assert not silent.clean
    story = Story().begin()
    assert "nothing is stored in 1 batch: the engine is idle" in shown(diagnose([("t", story.trace())]))
    story.send(stored("ab"))
    assert "nothing is stored" not in shown(diagnose([("t", story.trace())]))


def test_a_restart_and_a_gap_are_counted_and_copies_are_not() -> None:
    story = Story()
    story.send(cleared(), stored("ab"))
    story.send(stored("c", parent="b"), by="a")
    story.send(removed("c"), by="")
    story.send(stored("d", parent="b"))
    profile = of(story).streams[0]
    assert (profile.batches, profile.lost, profile.restarts, profile.twice) == (3, 1, 0, 0)
    assert (profile.first_number, profile.last_number) == (0, 3)


def test_a_draft_is_a_statement_that_says_what_was_seen() -> None:
    import tomllib

    text = draft(of(engine(VLLM, kv_cache_spec_kind="full_attention")).streams)
    statement = convert(tomllib.loads(text), "draft")
    assert (statement.algorithm, statement.block_size, statement.form) == (VLLM.name, 16, "map")
    assert statement.groups[0].kind == "full_attention"
    assert statement.streams[0].topic == "kv"


def test_a_draft_declares_no_function_that_has_a_seed() -> None:
    assert "algorithm" not in [
        line.partition(" =")[0] for line in draft(of(engine(seeded(VLLM, "42"))).streams).splitlines()
    ]


def test_many_streams_are_a_line_each() -> None:
    many = diagnose([(f"t{at}", engine(VLLM).trace()) for at in range(32)])
    assert len(shown(many).splitlines()) < 80
