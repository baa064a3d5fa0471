"""What publishers and engines are given to do: sound, varied, and no more than they take."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.kit.probing import events, marks, session

from kvwire.attack.probes import live, workload
from kvwire.attack.probes.kit.offers import Offers
from kvwire.attack.probes.kit.session import Limits, Session
from kvwire.attack.witness import Recorder
from kvwire.standard.protocol import Accepted, Cached, Failed, Refused, Start
from kvwire.standard.statement import Statement, Stream
from kvwire.trace.calls import CacheCall, PublishCall, ResidentCall
from kvwire.trace.marks import Trouble


@pytest.mark.network
def test_prompts_evict_reset_and_come_back(recorder: Recorder) -> None:
    with session(recorder, "reference:?capacity=40&block_size=4") as run:
        live.PROBE(run)
        workload.PROMPTS(run)
    kinds = {event.kind for event in events(recorder)}
    assert kinds == {"stored", "removed", "cleared"}
    asked = marks(recorder, CacheCall)
    assert {"lora", "salt", "mm"} <= {key for call in asked for key in call.arguments}
    assert any(call.cached_tokens for call in asked)
    assert any(len(call.tokens) % 4 for call in asked)
    hashes = [value for event in events(recorder) if event.kind == "stored" for value in event.hashes]
    assert len(set(hashes)) < len(hashes)
    resident = marks(recorder, ResidentCall)[-1]
    asked_at = next(at for at, record in enumerate(recorder.records) if record.detail is resident)
    held: set[int] = set()
    for event in events(recorder, end=asked_at):
        held = set() if event.kind == "cleared" else held
        held = held | set(event.hashes) if event.kind == "stored" else held - set(event.hashes)
    # The engine also holds blocks of the multimodal prompt, which it does not announce.
    assert held < {int(value) for value in resident.hashes or ()}


@pytest.mark.parametrize("seed", range(20))
def test_an_engine_gets_no_token_that_it_does_not_know(seed: int) -> None:
    offers = Offers(seed, None, 2, 0, vocabulary=range(10, 13))
    prompts = workload.prompts(offers)
    known = {*offers.vocabulary, *range(workload.ID_OFFSET, workload.ID_OFFSET + 8)}
    assert {token for prompt in prompts for token in prompt.tokens if isinstance(token, int)} <= known
    assert len({tuple(prompt.tokens) for prompt in prompts}) > 5


def test_no_prompt_is_empty() -> None:
    """An engine refuses it, or fails of it; of blocks of one token there is none that is not full."""
    assert all(prompt.tokens for prompt in workload.prompts(Offers(1, None, 1, 0)))


def test_prompts_tell_a_hash_that_heeds_no_order() -> None:
    chains: dict[tuple[tuple[int | str, ...], ...], set[tuple[int | str, ...]]] = {}
    for prompt in workload.prompts(Offers(1, None, 4, 0)):
        if not prompt.features:
            cut = [tuple(prompt.tokens[at : at + 4]) for at in range(0, len(prompt.tokens) - 3, 4)]
            for end, block in enumerate(cut):
                chains.setdefault((*cut[:end], tuple(sorted(block, key=str))), set()).add(block)
    assert max(map(len, chains.values())) == 2


@pytest.mark.network
def test_batches_that_are_offered_are_sound_and_each_another_one(recorder: Recorder) -> None:
    with session(recorder, "reference:?role=publish&algorithm=v1_block_key&block_size=2") as run:
        live.PROBE(run)
        workload.BATCHES(run)
    offered = [call.batch for call in marks(recorder, PublishCall) if call.batch is not None]
    assert len({batch["ts"]["bits"] for batch in offered}) == len(offered)
    stamps = [float(batch["ts"]["float"]) for batch in offered]
    assert stamps == sorted(stamps)
    assert [] in [batch["events"] for batch in offered]
    assert any(len(batch["events"]) > 1 for batch in offered)
    assert_sound(offered, block_size=2)


def assert_sound(batches: list[Any], block_size: int) -> None:
    """Nothing is stored twice, parents are resident, removals take leaves first."""
    resident: set[int] = set()
    parents: dict[int, str] = {}
    for batch in batches:
        for event in batch["events"]:
            hashes = [int(value) for value in event.get("block_hashes", [])]
            if event["type"] == "AllBlocksCleared":
                resident.clear()
            elif event["type"] == "BlockStored":
                parent = event["parent_block_hash"]
                assert parent is None or int(parent) in resident
                assert not resident & set(hashes)
                assert len(event["token_ids"]) == block_size * len(hashes)
                resident |= set(hashes)
                parents |= dict(zip(hashes, [parent, *map(str, hashes)], strict=False))
            else:
                for value in hashes:
                    assert value in resident
                    resident.remove(value)
                    assert str(value) not in {parents[other] for other in resident}
    assert resident


class Picky:
    """A driver that takes single events without a LoRA, or whatever ``takes`` says."""

    can = frozenset({"start", "publish"})

    def __init__(self, takes: Callable[[list[Any]], bool]) -> None:
        self.takes = takes
        self.accepted: list[Any] = []
        self.refused: list[Any] = []

    def publish(self, batch: Any) -> Accepted:
        if not self.takes(batch["events"]):
            self.refused.append(batch)
            raise Refused("adapter: no")
        self.accepted.append(batch)
        return Accepted(accepted=True)


def offered_to(driver: Picky, recorder: Recorder) -> Picky:
    stream = Stream(name="s", endpoint="ipc://nowhere")
    run = Session(recorder=recorder, streams=[stream], statement=Statement(), driver=driver)  # type: ignore[arg-type]
    workload.publish(run, 60)
    return driver


def test_what_is_refused_was_not_offered_and_is_not_offered_again(recorder: Recorder) -> None:
    driver = Picky(lambda events: len(events) == 1 and events[0].get("lora_id") is None)
    offered_to(driver, recorder)
    assert_sound(driver.accepted, block_size=16)
    kinds = {event["type"] for batch in driver.accepted for event in batch["events"]}
    assert kinds == {"BlockStored", "BlockRemoved", "AllBlocksCleared"}
    assert sorted(len(batch["events"]) for batch in driver.refused) == [0, 1, 2]


def test_a_refused_event_among_others_does_not_keep_them_back(recorder: Recorder) -> None:
    driver = Picky(lambda events: all(event["type"] != "BlockRemoved" for event in events))
    offered_to(driver, recorder)
    assert_sound(driver.accepted, block_size=16)
    assert {len(batch["events"]) for batch in driver.accepted} == {0, 1, 2}


def test_an_adapter_that_refuses_everything_is_trouble(recorder: Recorder) -> None:
    with pytest.raises(Refused, match="adapter: no"):
        offered_to(Picky(lambda _: False), recorder)


class Prompted:
    """A driver of an engine that fails, or is refused, where a prompt has one of these features."""

    can = frozenset({"cache"})

    def __init__(self, failure: Exception, *features: str) -> None:
        self.failure = failure
        self.features = set(features)
        self.asked: list[set[str]] = []

    def cache(self, _: Any, **scope: Any) -> Cached:
        self.asked.append({name for name, value in scope.items() if value})
        if not self.features.isdisjoint(self.asked[-1]):
            raise self.failure
        return Cached()


def prompted(driver: Prompted, recorder: Recorder) -> list[set[str]]:
    stream = Stream(name="s", endpoint="ipc://nowhere")
    run = Session(
        recorder=recorder,
        streams=[stream],
        statement=Statement(),
        driver=driver,  # type: ignore[arg-type]
        start=Start(capacity=8),
        limits=Limits(quiet_s=0.0),
    )
    workload.run_prompts(run)
    return driver.asked


@pytest.mark.parametrize(("failure", "troubles"), [(Failed("KeyError: 7"), 1), (Refused("no adapters"), 0)])
def test_a_feature_that_fails_is_tried_once_and_the_others_go_on(
    recorder: Recorder, failure: Exception, troubles: int
) -> None:
    asked = prompted(Prompted(failure, "lora"), recorder)
    assert asked.count({"lora"}) == 1
    assert asked.count({"salt"}) > 3
    assert {"mm"} in asked
    said = [trouble.text for trouble in marks(recorder, Trouble)]
    assert said == ["a prompt with lora: KeyError: 7"] * troubles


def test_an_engine_that_fails_on_a_plain_prompt_ends_the_probe(recorder: Recorder) -> None:
    class Broken(Prompted):
        def cache(self, _: Any, **__: Any) -> Cached:
            raise self.failure

    with pytest.raises(Failed, match="out of blocks"):
        prompted(Broken(Failed("out of blocks")), recorder)


@pytest.mark.parametrize("vocabulary", [range(100_000), range(10_000, 20_000), range(1, 2)])
def test_tokens_are_those_that_the_generator_chooses_one_by_one(vocabulary: range) -> None:
    offers, chance = Offers(7, None, 16, 0, vocabulary), random.Random(7)
    assert offers.tokens(3, 5) == [chance.choice(vocabulary) for _ in range(53)]
    thrown = random.Random(8)
    assert offers.throwaway() == [thrown.choice(vocabulary) for _ in range(16)]
