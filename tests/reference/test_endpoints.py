"""Rank rules and refusals, as tables."""

import re
from typing import Any

import pytest

from kvwire_reference.endpoints import (
    Cause,
    Endpoint,
    EndpointError,
    RankEndpoints,
    check_endpoints,
    parse,
    rank_endpoint,
)

TCP = "tcp://127.0.0.1:"


def ipc(length: int) -> str:
    return "ipc://" + "/p".ljust(length, "x")


MALFORMED = [
    ("", Cause.EMPTY),
    ("ipc://", Cause.EMPTY),
    ("inproc://", Cause.EMPTY),
    ("tcp://", Cause.EMPTY),
    ("udp://127.0.0.1:5557", Cause.SCHEME),
    ("TCP://127.0.0.1:5557", Cause.SCHEME),
    ("127.0.0.1:5557", Cause.SCHEME),
    ("tcp:/127.0.0.1:5557", Cause.SCHEME),
    ("tcp://127.0.0.1", Cause.PORT_MISSING),
    ("tcp://127.0.0.1:", Cause.PORT_MISSING),
    ("tcp://*", Cause.PORT_MISSING),
    ("tcp://[::1]", Cause.PORT_MISSING),
    ("tcp://[::1]:", Cause.PORT_MISSING),
    ("tcp://127.0.0.1:http", Cause.PORT_TEXT),
    ("tcp://127.0.0.1:*", Cause.PORT_TEXT),
    ("tcp://127.0.0.1:5557/x", Cause.PORT_TEXT),
    ("tcp://127.0.0.1: 5557", Cause.PORT_TEXT),
    ("tcp://127.0.0.1:+5557", Cause.PORT_TEXT),
    ("tcp://127.0.0.1:٥٥٥٧", Cause.PORT_TEXT),
    ("tcp://127.0.0.1:65536", Cause.PORT_RANGE),
    ("tcp://127.0.0.1:-1", Cause.PORT_RANGE),
    ("tcp://127.0.0.1:" + "9" * 5000, Cause.PORT_RANGE),
    ("tcp://[::1", Cause.HOST),
    ("tcp://[::1:5557", Cause.HOST),
    ("tcp://:5557", Cause.HOST),
    ("tcp://::1:5557", Cause.HOST),
    ("tcp://[]:5557", Cause.HOST),
    ("tcp://[fe80::g]:5557", Cause.HOST),
    ("tcp://256.0.0.1:5557", Cause.HOST),
    ("tcp://127.1:5557", Cause.HOST),
    ("tcp://a b:5557", Cause.HOST),
    ("tcp://eth0;127.0.0.1:5557", Cause.HOST),
    ("ipc://*", Cause.PATH),
    ("ipc:///a\0b", Cause.PATH),
    ("inproc://a\0b", Cause.PATH),
]


@pytest.mark.parametrize(("endpoint", "cause"), MALFORMED)
def test_malformed(endpoint: str, cause: Cause) -> None:
    for call in (
        lambda: parse(endpoint),
        lambda: rank_endpoint(endpoint, 0),
        lambda: check_endpoints(endpoint, None, world_size=1, ranks_per_host=1, ephemeral=True, wildcard=True),
        lambda: check_endpoints(TCP + "5", endpoint, world_size=1, ranks_per_host=1, ephemeral=True, wildcard=True),
    ):
        with pytest.raises(EndpointError) as refusal:
            call()
        assert refusal.value.cause is cause
        says_so(refusal.value, endpoint)


def says_so(error: EndpointError, *endpoints: str) -> None:
    """The message names every endpoint, and after the complaint the way out."""
    for endpoint in endpoints:
        assert repr(endpoint) in str(error)
    assert re.search("; (add|bind|give|move|name|rename|use|write) ", str(error))


@pytest.mark.parametrize(
    ("endpoint", "parts"),
    [
        ("tcp://127.0.0.1:5557", Endpoint("tcp", "127.0.0.1", 5557)),
        ("tcp://[::1]:5557", Endpoint("tcp", "[::1]", 5557)),
        ("tcp://[fe80::1%eth0]:1", Endpoint("tcp", "[fe80::1%eth0]", 1)),
        ("tcp://localhost:65535", Endpoint("tcp", "localhost", 65535)),
        ("tcp://eth0:5557", Endpoint("tcp", "eth0", 5557)),
        ("tcp://node-1.example.org:5557", Endpoint("tcp", "node-1.example.org", 5557)),
        ("tcp://*:0", Endpoint("tcp", "*", 0)),
        ("ipc:///run/kv/events", Endpoint("ipc", path="/run/kv/events")),
        ("ipc://@abstract", Endpoint("ipc", path="@abstract")),
        ("inproc://events", Endpoint("inproc", path="events")),
    ],
)
def test_well_formed(endpoint: str, parts: Endpoint) -> None:
    assert parse(endpoint) == parts
    assert str(parts) == endpoint


@pytest.mark.parametrize(
    ("endpoint", "rank", "expected"),
    [
        (TCP + "5557", 0, TCP + "5557"),
        (TCP + "5557", 7, TCP + "5564"),
        ("tcp://[::1]:5557", 3, "tcp://[::1]:5560"),
        (TCP + "65535", 0, TCP + "65535"),
        (TCP + "0", 7, TCP + "0"),
        ("ipc:///run/kv", 0, "ipc:///run/kv"),
        ("ipc:///run/kv", 7, "ipc:///run/kv_dp7"),
        ("inproc://kv", 0, "inproc://kv"),
        ("inproc://kv", 12, "inproc://kv_dp12"),
        (ipc(107), 0, ipc(107)),
        (ipc(103), 9, ipc(103) + "_dp9"),
        (TCP + "65535", 1, Cause.PORT_OVERFLOW),
        (TCP + "5557", -1, Cause.RANK),
        (ipc(108), 0, Cause.IPC_LENGTH),
        (ipc(104), 9, Cause.IPC_LENGTH),
        (ipc(103), 10, Cause.IPC_LENGTH),
        ("ipc://" + "é" * 54, 0, Cause.IPC_LENGTH),
    ],
)
def test_rank_endpoint(endpoint: str, rank: int, expected: str | Cause) -> None:
    if isinstance(expected, Cause):
        with pytest.raises(EndpointError) as refusal:
            rank_endpoint(endpoint, rank)
        assert refusal.value.cause is expected
        assert repr(endpoint) in str(refusal.value)
    else:
        assert rank_endpoint(endpoint, rank) == expected


CASES: list[tuple[str, str | None, dict[str, Any], Cause | None]] = [
    # publish, replay, what else, refusal. First the published table of cases: ranks per host …
    (TCP + "5557", TCP + "5558", {"ranks_per_host": 2, "world_size": 2}, Cause.OVERLAP),
    (TCP + "5557", TCP + "5558", {}, None),
    (TCP + "5557", TCP + "5657", {"ranks_per_host": 2, "world_size": 2}, None),
    (TCP + "5558", TCP + "5557", {"ranks_per_host": 2, "world_size": 2}, Cause.OVERLAP),
    (TCP + "5557", TCP + "5559", {"ranks_per_host": 2, "world_size": 2}, None),
    (TCP + "5557", None, {"ranks_per_host": 8, "world_size": 8}, None),
    (TCP + "5557", TCP + "5565", {"ranks_per_host": 8, "world_size": 8}, None),
    # … and world size
    (TCP + "65535", None, {"world_size": 2}, Cause.PORT_OVERFLOW),
    (TCP + "65535", None, {"world_size": 1}, None),
    (TCP + "65534", None, {"world_size": 2}, None),
    (TCP + "65534", None, {"world_size": 3}, Cause.PORT_OVERFLOW),
    # replay is held to the same rules
    (TCP + "5557", TCP + "65535", {"world_size": 2}, Cause.PORT_OVERFLOW),
    # more ranks than a host has do not make its ports overlap
    (TCP + "5557", TCP + "5559", {"ranks_per_host": 2, "world_size": 16}, None),
    # one host is one text, or a wildcard; two spellings of one address are found out when the second is bound
    ("tcp://localhost:5557", TCP + "5557", {}, None),
    (TCP + "5557", "tcp://*:5558", {"ranks_per_host": 2, "world_size": 2, "wildcard": True}, Cause.OVERLAP),
    ("tcp://0.0.0.0:5557", TCP + "5557", {"wildcard": True}, Cause.OVERLAP),
    ("tcp://[::1]:5557", "tcp://[::1]:5558", {}, None),
    # identical, rank 0 included
    (TCP + "5557", TCP + "5557", {}, Cause.IDENTICAL),
    (TCP + "5557", TCP + "05557", {}, Cause.IDENTICAL),
    ("ipc:///run/kv", "ipc:///run/kv", {}, Cause.IDENTICAL),
    ("ipc:///run/kv", "ipc:///run/./kv", {}, Cause.IDENTICAL),
    ("inproc://kv", "inproc://kv", {}, Cause.IDENTICAL),
    ("ipc:///run/kv", "inproc:///run/kv", {}, None),
    ("ipc:///run/kv", TCP + "5557", {"world_size": 4, "ranks_per_host": 4}, None),
    # one rank's suffix makes it the other's name
    ("ipc:///run/kv", "ipc:///run/kv_dp1", {"world_size": 2, "ranks_per_host": 2}, Cause.IDENTICAL),
    ("ipc:///run/kv_dp1", "ipc:///run/kv", {"world_size": 2, "ranks_per_host": 2}, Cause.IDENTICAL),
    ("ipc:///run/kv", "ipc:///run/kv_dp1", {}, None),
    ("inproc://kv", "inproc://kv_dp3", {"world_size": 3}, None),
    ("inproc://kv", "inproc://kv_dp3", {"world_size": 4, "ranks_per_host": 4}, Cause.IDENTICAL),
    ("inproc://kv", "inproc://kv_dp3", {"world_size": 4, "ranks_per_host": 2}, None),
    # the longest suffix counts, whoever asks
    (ipc(103), None, {"world_size": 10}, None),
    (ipc(103), None, {"world_size": 11}, Cause.IPC_LENGTH),
    (ipc(107), None, {}, None),
    (ipc(108), None, {}, Cause.IPC_LENGTH),
    ("ipc:///run/kv", ipc(108), {}, Cause.IPC_LENGTH),
    ("inproc://" + "x" * 200, None, {"world_size": 2}, None),
    # ephemeral ports
    (TCP + "0", None, {}, Cause.PORT_ZERO),
    (TCP + "5557", TCP + "0", {}, Cause.PORT_ZERO),
    (TCP + "0", TCP + "0", {"ephemeral": True, "world_size": 8, "ranks_per_host": 8}, None),
    (TCP + "5557", TCP + "0", {"ephemeral": True}, None),
    # wildcards
    ("tcp://*:5557", None, {}, Cause.WILDCARD),
    ("tcp://0.0.0.0:5557", None, {}, Cause.WILDCARD),
    ("tcp://[::]:5557", None, {}, Cause.WILDCARD),
    ("tcp://[0:0::0]:5557", None, {}, Cause.WILDCARD),
    ("tcp://[::ffff:0.0.0.0]:5557", None, {}, Cause.WILDCARD),
    (TCP + "5557", "tcp://*:5558", {}, Cause.WILDCARD),
    ("tcp://*:5557", "tcp://*:5558", {"wildcard": True}, None),
    ("tcp://10.0.0.1:5557", None, {}, None),
    # ranks
    (TCP + "5557", None, {"rank": 1}, Cause.RANK),
    (TCP + "5557", None, {"rank": -1}, Cause.RANK),
    (TCP + "5557", None, {"rank": 7, "world_size": 8}, None),
    (TCP + "5557", None, {"world_size": 0}, Cause.RANK),
    (TCP + "5557", None, {"ranks_per_host": 0}, Cause.RANK),
]


@pytest.mark.parametrize(("endpoint", "replay", "more", "cause"), CASES)
def test_check_endpoints(endpoint: str, replay: str | None, more: dict[str, Any], cause: Cause | None) -> None:
    arguments = {"world_size": 1, "ranks_per_host": 1, **more}
    if cause is None:
        rank = arguments.get("rank", 0)
        expected = RankEndpoints(rank_endpoint(endpoint, rank), replay and rank_endpoint(replay, rank))
        assert check_endpoints(endpoint, replay, **arguments) == expected
        return
    with pytest.raises(EndpointError) as refusal:
        check_endpoints(endpoint, replay, **arguments)
    assert refusal.value.cause is cause
    if cause is Cause.RANK:
        assert repr(endpoint) in str(refusal.value)
    elif cause in (Cause.IDENTICAL, Cause.OVERLAP):
        assert replay is not None
        says_so(refusal.value, endpoint, replay)
    else:
        assert any(repr(each) in str(refusal.value) for each in (endpoint, replay))


def test_every_rank_of_an_accepted_deployment_is_apart() -> None:
    bound = [
        each
        for rank in range(8)
        for each in check_endpoints(TCP + "5557", TCP + "5565", world_size=8, ranks_per_host=8, rank=rank)
    ]
    assert len(set(bound)) == 16


def test_every_cause_is_covered() -> None:
    covered = {cause for _, cause in MALFORMED} | {case[3] for case in CASES} | {Cause.TOPOLOGY, Cause.IN_USE}
    assert covered >= set(Cause)
