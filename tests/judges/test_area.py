"""How a judge is marked, and how its sentence speaks."""

from __future__ import annotations

import pytest
from tests.kit.stories import Story

from kvwire.judges import AREAS, JUDGES, TABLE
from kvwire.judges.area import Area, Context, Say, judge, judges_of, unless, unused
from kvwire.judges.verdict import Reason, Where
from kvwire.standard import registry
from kvwire.standard.statement import Statement
from kvwire.trace.records import StreamInfo


class Some(Area):
    """Two sentences: one about hashes, which the engine chooses, and one about the encoding."""

    @judge("KVW-EVT-009", memory="O(ring)")
    def no_zero(self, say: Say, value: int, *, whole: bool = True) -> None:
        """KVW-EVT-009: quoted."""
        if not whole:
            say.open("not whole")
        elif value:
            say.saw()
        else:
            say.broke("another", "0", Where(record=1))

    @judge("KVW-EVT-003", arrays="exempt", unclaimed=unused)
    def keys_once(self, say: Say) -> None:
        """KVW-EVT-003: quoted."""
        say.saw()


@pytest.fixture
def area() -> Some:
    story = Story()
    return Some(Context.of(story.trace().header, story.info, [], registry.load()))


def counts(area: Some, requirement: str = "KVW-EVT-009") -> tuple[int, int, int]:
    tally = area.tallies[requirement]
    return tally.witnesses, tally.violations, tally.opened


def test_a_judge_speaks_under_its_own_id(area: Some) -> None:
    area.no_zero(1)
    area.no_zero(0)
    area.no_zero(0, whole=False)
    assert counts(area) == (2, 1, 1)
    assert list(area.tallies) == ["KVW-EVT-009"]


def test_a_helper_lets_the_judge_say_what_needs_no_decision(area: Some) -> None:
    area.no_zero.saw(3)
    area.no_zero.note("a remark")
    assert counts(area) == (3, 0, 0)
    assert area.no_zero.tally is area.tallies["KVW-EVT-009"]
    assert area.no_zero.tally.notes == ["a remark"]


def test_what_the_harness_decided_is_not_counted(area: Some) -> None:
    area.muted = frozenset({"engine"})
    area.no_zero(1)
    area.no_zero(0)
    area.no_zero.open("why")
    area.keys_once()
    assert counts(area) == (0, 0, 0)
    assert counts(area, "KVW-EVT-003") == (1, 0, 0)
    area.muted = frozenset()
    area.no_zero(0)
    assert counts(area) == (1, 1, 0)


def test_two_streams_do_not_share_a_voice(area: Some) -> None:
    other = Some(area.context)
    area.no_zero(1)
    assert not other.no_zero.tally.witnesses


def test_the_mark_holds_what_is_known_of_the_sentence() -> None:
    first, second = judges_of(Some)
    assert (first.requirement, first.memory, first.arrays) == ("KVW-EVT-009", "O(ring)", "count")
    assert (second.requirement, second.memory, second.arrays) == ("KVW-EVT-003", None, "exempt")
    assert first.__doc__ == "KVW-EVT-009: quoted."
    stream, statement = StreamInfo(name="s", endpoint="ipc://x"), Statement()
    assert first.unclaimed(stream, statement) is None
    assert second.unclaimed(stream, statement) is Reason.NOT_USED
    claimed = unless(lambda stream, _: stream.topic is not None)
    assert claimed(stream, statement) is Reason.NOT_CLAIMED
    assert claimed(StreamInfo(name="s", endpoint="ipc://x", topic=""), statement) is None


def test_the_table_names_module_and_method_of_every_judge() -> None:
    assert TABLE["KVW-RES-003"] == "residency.reuse.gone_is_announced"
    assert JUDGES["KVW-RES-003"].chapter == "residency"
    assert len(TABLE) == sum(len(list(judges_of(area))) for area in AREAS)
