"""docs/symptoms.md: each symptom is made as a stream, its command is run, and the line that it promises is there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.conclusion.diagnosis.test_diagnosis import VLLM, engine
from tests.conclusion.test_notices import trace
from tests.kit.hashed import chain, event, signed, story, text
from tests.kit.stories import Story, cleared, removed, stored
from tests.report.test_profile import passive

from kvwire import cli
from kvwire.conclusion.diagnosis.recognition import seeded
from kvwire.standard import resources
from kvwire.trace import files
from kvwire.trace.marks import Unreachable
from kvwire.trace.records import Record, Trace

PAGE = Path(__file__).parents[2] / "docs" / "symptoms.md"
if not PAGE.is_file():
    pytest.skip("needs a checkout", allow_module_level=True)

ROW = re.compile(r"^\| ([a-z-]+) \| (.*?) \| `(kvwire .*?)` \| (.*) \|$", re.MULTILINE)
ROWS = [found.groups() for found in ROW.finditer(PAGE.read_text(encoding="utf-8"))]
DIGEST = "ab" * 32


def _elsewhere(story: Story) -> Story:
    story.info = msgspec.structs.replace(story.info, endpoint="tcp://127.0.0.1:5558")
    return story


def _restarted() -> Trace:
    story = Story().told(3)
    story.restart()
    story.told(3)
    return passive(story)


def _holed() -> Trace:
    story = Story().told(4)
    story.send(stored("a"), by="")
    story.send(stored("b"), by="")
    story.send(stored("c"))
    story.send(stored("d"))
    return passive(story)


def _interleaved() -> Trace:
    one, other = passive(Story(rank=0).told(4)), passive(Story(rank=1).told(4))
    records = [record for pair in zip(one.records, other.records, strict=True) for record in pair]
    return Trace(header=one.header, records=tuple(records))


def _dangling() -> Story:
    story = Story()
    story.send(cleared(), stored("a"))
    story.send(removed("a"))
    story.send(stored("b", parent="a"))
    return story


def _parent_left_out() -> Story:
    """A block behind ten others names the fourth as its parent, as the store before it ended there."""
    blocks = text(20)
    hashes = chain("v2_sha256_64/u32", blocks)
    late = event(hashes, blocks, first=10) | {"parent_block_hash": signed(hashes[3])}
    return story([event(hashes[:10], blocks[:10])], [late])


def _kept_silent() -> Story:
    """Three blocks, the first of which is removed, and all three stored again: the other removals are missing."""
    story = Story()
    story.send(cleared())
    story.send(stored([0, 1, 2]))
    story.send(removed([0]))
    story.send(stored([0]), stored([1], parent=0))
    return story


def _one_hash_of_two_adapters() -> Story:
    story = Story()
    story.send(cleared(), stored("a", lora_id=1))
    story.send(removed("a"))
    story.send(stored("a", lora_id=2))
    return story


def _parent_of_another_adapter() -> Story:
    story = Story()
    story.send(cleared(), stored("a", lora_id=1))
    story.send(stored("b", parent="a", lora_id=2))
    return story


def _item_without_key() -> Story:
    story = Story()
    event = stored("ab")
    event["token_ids"] = [1, 2, 3, DIGEST, DIGEST, 5, 6, 7]
    key = {"type": "mm_key", "hash": DIGEST, "start_offset": 0}
    event["mm_keys"] = [[], [key]]
    story.send(cleared(), event)
    return story


def _extra_keys_of_the_first_block() -> Story:
    story = Story()
    story.send(cleared(), stored("abc", lora_name="x", lora_id=1, extra_keys=[["x"]]))
    return story


def _unreachable() -> Trace:
    made = trace([])
    seen = Record(
        t_ns=1, source="harness", stream="s", detail=Unreachable(endpoint="tcp://s:1", bound_s=2.0, of=("live-a",))
    )
    return Trace(header=made.header, records=(*made.records, seen))


def _topic() -> Trace:
    return passive(Story(topic=b"kv@10.0.0.1:8000@m", declared_topic=None).told(3))


SESSIONS = resources.vectors() / "session"
MADE: dict[str, Callable[[], Trace]] = {
    "silent": lambda: trace([(0.0, "s", "up")]),
    "unbound": _unreachable,
    "topic": _topic,
    "form": lambda: passive(engine(VLLM)),
    "block-size": lambda: passive(engine(VLLM, 768, prompts=[list(range(2 * 768))])),
    "kinds": lambda: passive(engine(VLLM, kv_cache_spec_kind="mla_attention")),
    "ranks": lambda: passive(engine(VLLM)),
    "finer": lambda: passive(engine(VLLM, 64, finer=16)),
    "seed": lambda: passive(engine(VLLM)),
    "restart": _restarted,
    "gap": _holed,
    "two-senders": _interleaved,
    "twins": lambda: passive(Story(stream="a").told(4), _elsewhere(Story(stream="b")).told(4)),
    "parent": lambda: passive(_dangling()),
    "other-block": lambda: passive(_parent_left_out()),
    "no-removal": lambda: passive(_kept_silent()),
    "adapter": lambda: passive(_one_hash_of_two_adapters()),
    "other-parent": lambda: passive(_parent_of_another_adapter()),
    "salt": lambda: files.read(SESSIONS / "mutant-ignores-scope.kvtrace"),
    "mm-keys": lambda: passive(_item_without_key()),
    "extra-keys": lambda: passive(_extra_keys_of_the_first_block()),
    "one-number": lambda: trace([]),
}
EXPECTED = {
    "topic": 'topic = "kv@10.0.0.1@m"',
    "form": 'form = "array-v"',
    "block-size": "block_size = 16",
    "kinds": 'kinds = ["full_attention"]',
    "ranks": "ranks = 2",
}


def test_every_row_is_made_and_every_stream_has_a_row() -> None:
    assert [name for name, _, _, _ in ROWS] == list(MADE)
    assert len(ROWS) >= 18


@pytest.mark.parametrize(("name", "command", "line"), [(name, ask, line) for name, _, ask, line in ROWS])
def test_the_line_that_a_symptom_leads_to_is_printed(
    name: str, command: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"TARGET": tmp_path / "target.kvtrace", "OTHER": tmp_path / "other.kvtrace"}
    files.write(MADE[name](), places["TARGET"])
    files.write(passive(engine(seeded(VLLM, "42"))), places["OTHER"])
    if name in EXPECTED:
        (tmp_path / f"{name}.toml").write_text(EXPECTED[name] + "\n", encoding="utf-8")
    words = [
        str(places.get(word, tmp_path / word if word.endswith(".toml") else word)) for word in shlex.split(command)
    ]
    cli.run(words[1:])
    printed = " ".join(capsys.readouterr().out.split())
    assert line in printed, printed


def test_no_symptom_is_found_in_a_stream_that_has_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "good.kvtrace"
    files.write(passive(engine(VLLM)), path)
    cli.run(["doctor", str(path)])
    cli.run(["judge", str(path)])
    printed = " ".join(capsys.readouterr().out.split())
    assert not [line for _, _, _, line in ROWS if line in printed]
