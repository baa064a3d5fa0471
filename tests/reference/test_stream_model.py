"""The consumer's state machine against a truthful publisher, a lossy link, restarts and answers cut short."""

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvwire_reference.residents import Residents
from kvwire_reference.stream import Stream
from kvwire_reference.wire import Batch, BlockRemoved, BlockStored, Event, encode


def store(block: int) -> BlockStored:
    return BlockStored(
        block_hashes=(block,),
        parent_block_hash=None,
        token_ids=(1,),
        block_size=1,
        lora_id=None,
        medium="GPU",
        lora_name=None,
    )


def held(stream: Stream) -> set[int]:
    return {value for table in stream.residents.tables().values() for value in table}


class Publisher:
    """A truthful publisher: lives, a ring, and what is really resident."""

    def __init__(self, ring: int) -> None:
        self.ring = ring
        self.life = -1
        self.restart()

    def restart(self) -> None:
        self.life += 1
        self.number = 0
        self.retained: list[tuple[int, bytes]] = []
        self.truth: set[int] = set()

    def publish(self, *, remove: bool, burn: bool) -> tuple[int, bytes] | None:
        number, self.number = self.number, self.number + 1
        event: Event
        if remove and self.truth:
            event = BlockRemoved(block_hashes=(min(self.truth),), medium="GPU")
        else:
            event = store(self.life * 1000 + number)
        if burn:
            return None  # dropped inside the publisher; then its events never happened on the wire
        self.truth ^= set(event.block_hashes)
        self.retained = [*self.retained, (number, encode(Batch(float(self.life), (event,), 0)))][-self.ring :]
        return self.retained[-1]

    def answer(self, start: int) -> list[tuple[int, bytes]]:
        return [(number, content) for number, content in self.retained if number >= start]


STEP = st.sampled_from(["publish", "remove", "lose", "burn", "restart", "blink", "deliver", "ask", "cut"])


def play(steps: Iterable[str], publisher: Publisher, stream: Stream) -> None:
    """Let it happen, then let everything arrive and every question be answered."""
    link: list[tuple[int, bytes]] = []  # sent, not yet arrived; a disconnect loses it
    for step in steps:
        match step:
            case "publish" | "remove" | "lose" | "burn":
                sent = publisher.publish(remove=step == "remove", burn=step == "burn")
                if sent is not None and step != "lose":
                    link.append(sent)
            case "restart" | "blink":
                if step == "restart":
                    publisher.restart()
                link.clear()
                stream.disconnected()
            case "deliver":
                deliver(link, stream)
            case _:
                answer_once(publisher, stream, cut=step == "cut")
    deliver(link, stream)
    for _ in range(10):
        answer_once(publisher, stream)


def deliver(link: list[tuple[int, bytes]], stream: Stream) -> None:
    for sent in link:
        stream.live(*sent)
    link.clear()


def answer_once(publisher: Publisher, stream: Stream, *, cut: bool = False) -> None:
    start = stream.ask()
    if start is None:
        return
    answer = publisher.answer(start)
    for number, content in answer[: len(answer) // 2] if cut else answer:
        stream.replayed(number, content)
    if cut:
        stream.unanswered()
    else:
        stream.ended()


@settings(max_examples=200, deadline=None)
@given(st.lists(STEP, max_size=60), st.integers(1, 8))
def test_what_is_held_is_resident(steps: list[str], ring: int) -> None:
    """Whatever is lost, once the newest batch is in: nothing is held that is not resident, and if the consumer
    says that it knows everything, it holds everything.
    """
    publisher, stream = Publisher(ring), Stream(Residents())
    play([*steps, "publish"], publisher, stream)
    assert stream.settled
    assert stream.last == publisher.number - 1
    assert held(stream) <= publisher.truth
    if stream.residents.complete:
        assert held(stream) == publisher.truth


@pytest.mark.parametrize(
    ("steps", "complete", "restarts", "missing"),
    [
        ("ask publish", True, 0, 0),
        ("ask publish burn publish", False, 0, 1),
        ("publish ask lose publish", True, 0, 0),
        ("publish ask restart", True, 1, 0),
        ("publish ask publish publish blink", True, 0, 0),
    ],
)
def test_the_model_reaches_every_end(steps: str, complete: bool, restarts: int, missing: int) -> None:
    publisher, stream = Publisher(8), Stream(Residents())
    play([*steps.split(), "publish"], publisher, stream)
    assert stream.residents.complete == complete
    assert (stream.counters.restarts, stream.counters.missing) == (restarts, missing)
