"""Each field of a statement: what it may be, and that everything else is refused with field, value and line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from kvwire.standard import schemas
from kvwire.standard.statement import StatementError, convert, read

EXAMPLES = Path(__file__).parents[2] / "spec" / "examples" / "statement"
STREAM: dict[str, Any] = {"endpoint": "tcp://127.0.0.1:5557"}
MEDIUM: dict[str, Any] = {"medium": "CPU", "residency": "set"}
DEEP: Any = []
for _ in range(90):
    DEEP = [DEEP]

COUNT = ([1, 2**31 - 1], [0, -1, 2**31, 10**20, 1.5, math.nan, "16", "", True, [], {}, DEEP])
INDEX = ([0, 2**31 - 1], [-1, 2**31, 10**20, 0.5, math.nan, "0", "", False, [], {}])
SECONDS = ([1, 0.001, 86_400], [0, -1.0, 86_401, 1e308, math.nan, math.inf, -math.inf, "1", "", True, [], {}])
NAME = (["x"], ["", 0, 1.5, math.nan, True, [], {}])
TEXT = (["", "x"], [0, 1.5, math.nan, True, [], {}])
ENDPOINT = (["ipc:///run/x", "tcp://h:1"], ["", "garbage", "tcp://", "TCP://h:1", 5557, math.nan, True, [], {}])
RESIDENCY = (["set", "refresh", "counted"], ["", "Set", "all", 0, math.nan, True, [], {}])

FIELDS: dict[tuple[str | int, ...], tuple[list[Any], list[Any]]] = {
    ("edition",): (["1"], ["", "2", "99", 1, 1.0, math.nan, None, [], {}]),
    ("profile",): (["core", "ranks+replay"], ["", "cores", "core+", 1, math.nan, True, [], {}]),
    ("implementation",): ([{"name": "x"}], [{}, {"name": ""}, {"name": "x", "y": 1}, "x", 1, []]),
    ("implementation", "name"): NAME,
    ("implementation", "version"): TEXT,
    ("form",): (["map", "array-v", "array-s"], ["", "array", 0, math.nan, True, [], {}]),
    ("algorithm",): NAME,
    ("residency",): RESIDENCY,
    ("salt",): (["none", "tag", "clear"], ["", "yes", 0, math.nan, True, [], {}]),
    ("scope_key",): ([True, False], [0, 1, "", "true", math.nan, [], {}]),
    ("replay_form",): (["replay-topic", "replay-bare", "none"], ["", "bare", 4, math.nan, True, [], {}]),
    ("ring",): COUNT,
    ("queue",): COUNT,
    ("block_size",): COUNT,
    ("default_endpoint",): NAME,
    ("window_memory",): COUNT,
    ("groups",): ([[], [{}]], ["", 0, {}, [0], [{"idx": 0}, {}], [{"x": 1}]]),
    ("groups", 0, "idx"): INDEX,
    ("groups", 0, "kind"): TEXT,
    ("groups", 0, "window"): COUNT,
    ("groups", 0, "block_size"): COUNT,
    ("groups", 0, "residency"): RESIDENCY,
    ("media",): ([[], [MEDIUM]], ["", 0, {}, [{}], [MEDIUM, MEDIUM]]),
    ("media", 0, "medium"): NAME,
    ("media", 0, "residency"): RESIDENCY,
    ("bounds",): ([{}], ["", 0, [], {"x": 1}]),
    ("bounds", "reset_visible_s"): SECONDS,
    ("bounds", "replay_resume_s"): SECONDS,
    ("bounds", "live_delay_s"): SECONDS,
    ("bounds", "stop_s"): SECONDS,
    ("bounds", "publish_ms"): ([1, 0.5, 86_400_000], [0, -1, 86_400_001, math.nan, math.inf, "1", True, [], {}]),
    ("bounds", "replay_clients"): COUNT,
    ("bounds", "replay_waiting"): COUNT,
    ("bounds", "heartbeat_s"): SECONDS,
    ("extensions",): (
        [[], ["end_payload"], ["x-own", "location_updates"]],
        ["", 0, {}, ["own"], [""], [1], ["x-own", "x-own"], [DEEP]],
    ),
    ("streams",): ([[], [STREAM]], ["", 0, {}, [{}], [{**STREAM, "name": "a"}] * 2, [{**STREAM, "x": 1}]]),
    ("streams", 0, "endpoint"): ENDPOINT,
    ("streams", 0, "name"): TEXT,
    ("streams", 0, "replay"): ENDPOINT,
    ("streams", 0, "topic"): TEXT,
    ("streams", 0, "rank"): INDEX,
    ("streams", 0, "mode"): (["connect", "bind"], ["", "dial", 0, math.nan, True, [], {}]),
    ("streams", 0, "algorithm"): NAME,
}
BEYOND: dict[tuple[str | int, ...], list[Any]] = {
    ("profile",): ["cores", "core+"],
    ("groups",): [[{"idx": 0}, {}]],
    ("media",): [[MEDIUM, MEDIUM]],
}
BEYOND[("streams",)] = [[{**STREAM, "name": "a"}] * 2]
"""What no schema can say."""


def statement(place: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """A statement with one value, and what has to stand beside it."""
    whole: dict[str, Any] = {}
    match place:
        case (name,):
            whole[str(name)] = value
        case ("implementation", name):
            whole["implementation"] = {"name": "x", name: value}
        case (table, 0, name):
            beside = {"streams": STREAM, "media": MEDIUM}.get(str(table), {})
            whole[str(table)] = [{**beside, name: value}]
        case (table, name):
            whole[str(table)] = {name: value}
    return whole


def fields_of(schema: dict[str, Any], at: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    """Every place of a schema that has a value."""
    found: set[tuple[str | int, ...]] = set()
    for name, inner in schema.get("properties", {}).items():
        found.add((*at, name))
        for part in (inner, *inner.get("anyOf", ())):
            found |= fields_of(part, (*at, name))
            if isinstance(part.get("items"), dict):
                found |= fields_of(part["items"], (*at, name, 0))
    return found


def test_the_table_has_every_field_of_the_schema() -> None:
    assert fields_of(schemas.load()["statement"]) == set(FIELDS)


@pytest.mark.parametrize("place", FIELDS, ids=lambda place: ".".join(map(str, place)))
def test_a_field_takes_what_the_schema_allows_and_nothing_else(place: tuple[str | int, ...]) -> None:
    good, bad = FIELDS[place]
    for value in good:
        whole = statement(place, value)
        assert schemas.validate("statement", whole) == [], value
        convert(whole, "here")
    for value in bad:
        whole = statement(place, value)
        is_nan = isinstance(value, float) and math.isnan(value)  # which no JSON holds
        assert is_nan or value in BEYOND.get(place, []) or schemas.validate("statement", whole), value
        with pytest.raises(StatementError) as refused:
            convert(whole, "here")
        assert str(place[-1]) in str(refused.value), value


@pytest.mark.parametrize("path", sorted((EXAMPLES / "invalid").glob("*.json")), ids=lambda path: path.stem)
def test_what_the_standard_shows_as_none_is_refused(path: Path) -> None:
    with pytest.raises(StatementError):
        convert(json.loads(path.read_bytes()), "here")


FILE = """edition = "1"
ring = 100

[bounds]
heartbeat_s = 2.5

[[streams]]
endpoint = "tcp://127.0.0.1:5557"
[[streams]]
endpoint = "tcp://127.0.0.1:5558"
rank = 1
"""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("ring = 100", "ring = -5", "line 2: `ring` is -5: Expected `int` >= 1"),
        ("rank = 1", f"rank = {10**20}", f"line 11: `streams[1].rank` is {10**20}: Expected `int` <= 2147483647"),
        ("heartbeat_s = 2.5", "heartbeat_s = nan", "line 5: `bounds.heartbeat_s` is nan"),
        ("heartbeat_s = 2.5", "heart_s = 2.5", "line 5: `bounds`: Object contains unknown field `heart_s`"),
        ('edition = "1"', 'edition = "7"', "line 1: `edition`: edition '7' is unknown; this harness knows edition '1'"),
        ('edition = "1"', 'profile = "x"', "line 1: `profile`: no profile 'x'; there are core"),
        ("ring = 100", 'extensions = ["a"]', "line 2: `extensions[0]`: no extension 'a'; there are end_payload"),
        ("[bounds]", "[bounds", "not TOML"),
        ("ring = 100", f"ring = {'[' * 5000}", "not TOML: it is nested too deeply"),
        ("ring = 100", f"ring = {'9' * 5000}", "not TOML: Exceeds the limit"),
    ],
)
def test_a_file_is_refused_with_the_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    path = tmp_path / "kvwire.toml"
    path.write_text(FILE.replace(old, new), encoding="utf-8")
    with pytest.raises(StatementError) as refused:
        read(path)
    assert says in str(refused.value)
    assert str(refused.value).startswith(f"{path}")


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(StatementError, match="no regular file"):
        read(Path("/dev/zero"))
