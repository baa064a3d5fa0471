"""In what order judges are shown a stream, and that the facts are a step ahead of them."""

from __future__ import annotations

from tests.kit.stories import Story, cleared, removed, stored

from kvwire.cache.ledger import State
from kvwire.conclusion.judging import records_of
from kvwire.conclusion.showing import show
from kvwire.history.progress import Moment
from kvwire.history.timeline import Batch, Gap, Incarnation
from kvwire.judges.area import Area, Context
from kvwire.standard import registry
from kvwire.trace.calls import ResetCall
from kvwire.trace.records import Record
from kvwire.wire.events import Event


class Diary(Area):
    """Writes down what it is shown."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.seen: list[str] = []

    def on_record(self, index: int, record: Record) -> None:
        self.seen.append("record")

    def on_incarnation(self, incarnation: Incarnation) -> None:
        self.seen.append(f"life {incarnation.index}")

    def on_stimulus(self, moment: Moment) -> None:
        assert not self.muted
        self.seen.append(moment.stimulus.event)

    def on_batch(self, batch: Batch) -> None:
        self.seen.append(f"batch {batch.number}")

    def on_event(self, batch: Batch, event: Event) -> None:
        states = "".join(change.before.value[0] for change in self.facts.changes)
        self.seen.append(f"{event.kind} {states}" if states else event.kind)
        self.parent = self.facts.parent

    def on_gap(self, gap: Gap) -> None:
        self.seen.append(f"gap {gap.first}-{gap.last}")

    def finish(self) -> None:
        self.seen.append("finish")


def diary(story: Story) -> Diary:
    records = records_of(story.trace(), story.info.name)
    context = Context.of(story.trace().header, story.info, records, registry.load())
    area = Diary(context)
    show(context, records, [area])
    return area


def seen(story: Story) -> list[str]:
    return [what for what in diary(story).seen if what != "record"]


def test_records_come_first_then_the_stream_in_order_of_numbers() -> None:
    story = Story().begin(by="a")
    story.drop()
    story.send(stored("a"), by="a")
    assert diary(story).seen == ["record"] * 2 + [
        "life 0",
        "batch 0",
        "cleared",
        "gap 1-1",
        "batch 2",
        "stored u",
        "finish",
    ]


def test_a_stimulus_is_shown_where_the_stream_stood() -> None:
    story = Story().begin()
    story.send(stored("a"))
    story.note(ResetCall())
    story.send(removed("a"), cleared())
    story.note(ResetCall())
    wanted = [
        "life 0",
        "batch 0",
        "cleared",
        "batch 1",
        "stored a",
        "reset",
        "batch 2",
        "removed r",
        "cleared",
        "reset",
    ]
    assert seen(story) == [*wanted, "finish"]


def test_a_stimulus_before_a_gap_is_shown_before_it() -> None:
    story = Story().begin()
    story.note(ResetCall())
    story.drop()
    story.send(stored("a"))
    assert seen(story)[2:5] == ["cleared", "reset", "gap 1-1"]


def test_what_cannot_be_read_is_a_gap_in_its_place() -> None:
    story = Story().begin()
    story.send(stored("a"), {**stored("b", "a"), "block_hashes": "?"}, removed("a"))
    assert seen(story)[2:] == ["cleared", "batch 1", "stored a", "gap 1-1", "stored", "removed u", "finish"]


def test_facts_tell_what_was_known_before_the_event() -> None:
    story = Story().begin()
    story.send(stored("a"))
    story.send(stored("bb", "a"))
    area = diary(story)
    assert area.seen[-2] == "stored ar"
    assert area.parent is State.RESIDENT
