"""The rules of endpoints by their texts alone: the table of spec/endpoint.md, and how errors name what they refuse."""

from __future__ import annotations

import pytest

from kvwire.wire.endpoint_rules import (
    Asked,
    Fault,
    Rule,
    connectable,
    faults,
    is_loopback,
    names,
    of_rank,
    split,
)

HOST = "tcp://127.0.0.1:"
PATH = "ipc:///" + "x" * 106
"""A path of 107 bytes."""

PAIRS = [
    (5557, 5558, 1, None),
    (5557, 5558, 2, Rule.TOO_CLOSE),
    (5558, 5557, 2, Rule.TOO_CLOSE),
    (5557, 5559, 2, None),
    (5557, 5657, 2, None),
    (5557, 5565, 8, None),
    (5557, None, 8, None),
    (5557, 5557, 1, Rule.SAME),
]
WORLDS = [(65535, 1, None), (65535, 2, Rule.RANK_RANGE), (65534, 2, None), (65534, 3, Rule.RANK_RANGE)]
ALONE = [
    ("tcp://127.0.0.1", Rule.NO_PORT),
    ("tcp://127.0.0.1:", Rule.NO_PORT),
    ("tcp://127.0.0.1:http", Rule.NO_PORT),
    ("tcp://127.0.0.1:-1", Rule.NO_PORT),
    ("tcp://[::1]", Rule.NO_PORT),
    ("tcp://[::1]:5557", None),
    ("tcp://127.0.0.1:0", Rule.PORT_RANGE),
    ("tcp://127.0.0.1:65536", Rule.PORT_RANGE),
    ("udp://127.0.0.1:5557", Rule.SCHEME),
    ("127.0.0.1:5557", Rule.SCHEME),
    ("", Rule.EMPTY),
    ("tcp://", Rule.EMPTY),
    ("ipc://", Rule.EMPTY),
    ("inproc://", Rule.EMPTY),
    ("tcp://:5557", Rule.HOST),
    ("tcp://[::1", Rule.HOST),
    ("tcp://[::1:5557", Rule.HOST),
    (PATH, None),
    (PATH + "x", Rule.LONG_PATH),
    ("inproc://x", None),
]


def found(wish: Asked) -> Rule | None:
    """The rule of the one fault."""
    reasons = faults(wish)
    assert len(reasons) <= 1
    return reasons[0].rule if reasons else None


@pytest.mark.parametrize(("publish", "replay", "ranks", "fault"), PAIRS)
def test_pairs(publish: int, replay: int | None, ranks: int, fault: Rule | None) -> None:
    second = "none" if replay is None else f"{HOST}{replay}"
    wish = Asked(endpoint=f"{HOST}{publish}", replay=second, world=ranks, ranks_per_host=ranks)
    assert found(wish) == fault


@pytest.mark.parametrize(("port", "world", "fault"), WORLDS)
def test_worlds(port: int, world: int, fault: Rule | None) -> None:
    assert found(Asked(endpoint=f"{HOST}{port}", world=world)) == fault


@pytest.mark.parametrize(("endpoint", "fault"), ALONE)
def test_endpoints_by_themselves(endpoint: str, fault: Rule | None) -> None:
    assert found(Asked(endpoint=endpoint)) == fault
    assert found(Asked(endpoint="ipc:///room/x", replay=endpoint)) == fault


def test_what_is_identical_whatever_its_scheme() -> None:
    for endpoint in ("ipc:///run/kv/x", "inproc://x", f"{HOST}5557"):
        assert found(Asked(endpoint=endpoint, replay=endpoint)) == Rule.SAME
    assert found(Asked(endpoint="ipc:///x", replay="inproc:///x")) is None


def test_the_suffix_counts() -> None:
    assert found(Asked(endpoint=PATH, rank=1, world=2)) == Rule.LONG_PATH
    assert found(Asked(endpoint=PATH[:-4], rank=1, world=2)) is None
    assert found(Asked(endpoint=PATH[:-4], rank=1, world=11)) == Rule.LONG_PATH
    assert found(Asked(endpoint=PATH, rank=0, world=2)) == Rule.LONG_PATH


@pytest.mark.parametrize(("rank", "world", "fault"), [(-1, 1, Rule.RANK), (2, 2, Rule.RANK), (1, 2, None)])
def test_a_rank_is_one_of_the_worlds(rank: int, world: int, fault: Rule | None) -> None:
    assert found(Asked(endpoint="ipc:///x", rank=rank, world=world)) == fault


@pytest.mark.parametrize(
    ("publish", "replay", "ranks", "fault"),
    [
        ("ipc:///x", "ipc:///x_dp1", 2, Rule.SAME),
        ("ipc:///x", "ipc:///x_dp1", 1, None),
        ("ipc:///x_dp1", "ipc:///x", 2, Rule.SAME),
        ("inproc://x", "inproc://x_dp3", 4, Rule.SAME),
        ("inproc://x", "inproc://x_dp4", 4, None),
        (f"{HOST}5557", "tcp://127.0.0.2:5558", 2, None),
        (f"{HOST}5557", "tcp://*:5558", 2, Rule.TOO_CLOSE),
        ("tcp://0.0.0.0:5557", f"{HOST}5557", 1, Rule.TOO_CLOSE),
        (f"{HOST}5557", f"{HOST}5560", 4, Rule.TOO_CLOSE),
        (f"{HOST}5557", "ipc:///x", 4, None),
    ],
)
def test_what_is_one_on_one_host(publish: str, replay: str, ranks: int, fault: Rule | None) -> None:
    assert found(Asked(endpoint=publish, replay=replay, world=4, ranks_per_host=ranks)) == fault


def test_ephemeral_ports_are_not_compared() -> None:
    wish = Asked(endpoint=f"{HOST}0", replay=f"{HOST}0", world=2, ranks_per_host=2, ephemeral=True)
    assert found(wish) is None


def test_an_ephemeral_port_is_asked_for() -> None:
    assert found(Asked(endpoint=f"{HOST}0", ephemeral=True)) is None
    assert Asked(endpoint=f"{HOST}*").undecided
    assert found(Asked(endpoint=f"{HOST}*")) is None


@pytest.mark.parametrize(
    ("endpoint", "parts"),
    [
        ("tcp://127.0.0.1:1", ("tcp", "127.0.0.1", "1")),
        ("tcp://:1", ("tcp", "", "1")),
        ("tcp://[::1]:1", ("tcp", "[::1]", "1")),
        ("tcp://[::1", ("tcp", "[::1", "")),
        ("ipc:///a:1", ("ipc", "/a:1", "")),
        ("nothing", ("", "nothing", "")),
    ],
)
def test_parts(endpoint: str, parts: tuple[str, str, str]) -> None:
    assert split(endpoint) == parts


def test_where_a_rank_binds() -> None:
    assert of_rank("tcp://127.0.0.1:5557", 3) == "tcp://127.0.0.1:5560"
    assert of_rank("tcp://[::1]:5557", 3) == "tcp://[::1]:5560"
    assert of_rank("ipc:///run/kv/events", 3) == "ipc:///run/kv/events_dp3"
    assert of_rank("ipc:///run/kv/events", 0) == "ipc:///run/kv/events"
    assert of_rank("inproc://events", 3) == "inproc://events_dp3"
    assert of_rank("tcp://127.0.0.1:*", 3) == "tcp://127.0.0.1:*"


def test_where_a_client_connects() -> None:
    assert connectable("tcp://*:1") == "tcp://127.0.0.1:1"
    assert connectable("tcp://[::]:1") == "tcp://[::1]:1"
    assert connectable("ipc:///x") == "ipc:///x"
    for nowhere in ("tcp://127.0.0.1:0", "tcp://127.0.0.1:*", "tcp://127.0.0.1:70000"):
        assert connectable(nowhere) is None


@pytest.mark.parametrize(
    ("text", "fault", "named"),
    [
        ("'tcp://h' has no port", Fault(Rule.NO_PORT, ("tcp://h",), ""), True),
        ("no port", Fault(Rule.NO_PORT, ("tcp://h",), ""), False),
        ("endpoint '' is no good", Fault(Rule.EMPTY, ("",), ""), True),
        ("the endpoint is empty", Fault(Rule.EMPTY, ("",), ""), True),
        ("no good", Fault(Rule.EMPTY, ("",), ""), False),
        ("ipc:///x_dp1 is too long", Fault(Rule.LONG_PATH, ("ipc:///x",), ""), True),
        ("tcp://h:65536 is no port", Fault(Rule.RANK_RANGE, ("tcp://h:65535",), ""), True),
        ("tcp://h:65537 is no port", Fault(Rule.RANK_RANGE, ("tcp://h:65535",), ""), False),
        ("tcp://h:3 and tcp://h:4", Fault(Rule.TOO_CLOSE, ("tcp://h:2", "tcp://h:9"), ""), True),
        ("tcp://h:1 and tcp://h:4", Fault(Rule.TOO_CLOSE, ("tcp://h:2", "tcp://h:9"), ""), False),
    ],
)
def test_errors_name_what_they_refuse(text: str, fault: Fault, named: bool) -> None:
    assert names(text, fault, Asked(rank=1, world=2)) == named


def test_loopback() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "[::1]", "localhost", "[::ffff:127.0.0.1]")] == [True] * 4
    assert [is_loopback(host) for host in ("*", "0.0.0.0", "10.0.0.1", "[::]")] == [False] * 4
    assert is_loopback("node-7") is None
