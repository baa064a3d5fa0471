"""How endpoint tests are written down, and those of ports, schemes and paths that are refused (spec/endpoint.md)."""

from __future__ import annotations

from kvwire.vectors.model import Cite, EndpointExpected, EndpointInput, Note, Test
from kvwire_generators.making import fault

EndpointTest = Test[EndpointInput, EndpointExpected]

NOTES: dict[str, Note] = {
    "missing-port": fault("a tcp endpoint has no port", "KVW-END-004"),
    "non-numeric-port": fault("the port of a tcp endpoint is not a decimal number", "KVW-END-004"),
    "port-out-of-range": fault("the port of a tcp endpoint is above 65535", "KVW-END-005"),
    "ephemeral-not-asked": fault("the port is 0, and no ephemeral port was asked for", "KVW-END-005"),
    "port-plus-rank-overflow": fault("port plus the highest global rank exceeds 65535", "KVW-END-006"),
    "unknown-scheme": fault("the scheme is not tcp, ipc or inproc", "KVW-END-007"),
    "empty-endpoint": fault("the endpoint is empty, or nothing stands after its scheme", "KVW-END-008"),
    "malformed-host": fault("a tcp endpoint has no host, or one whose bracket is not closed", "KVW-END-016"),
    "rank-out-of-range": fault("the rank is not one of the world's: no endpoint offends", "KVW-END-017"),
    "overlapping-ranges": fault("the ports of the ranks of one host overlap", "KVW-END-009"),
    "identical-endpoints": fault("the replay endpoint is the publish endpoint of a rank of its host", "KVW-END-010"),
    "ipc-path-too-long": fault(
        "the path has more than 107 bytes after the suffix of the highest global rank", "KVW-END-011"
    ),
    "wide": Note(kind="property", description="reachable from other hosts", requirements=("KVW-EXP-002",)),
    "ipv6": Note(kind="property", description="an IPv6 address in brackets", requirements=("KVW-END-015",)),
}
TCP = "tcp://127.0.0.1"
NAMED = ("KVW-END-012",)
"""What a refusal keeps besides, if an endpoint offends."""


def _input(endpoint: str, replay: str | None, rank: int, world: int, per_host: int | None) -> EndpointInput:
    return EndpointInput(
        endpoint=endpoint, replay=replay, rank=rank, world=world, ranks_per_host=world if per_host is None else per_host
    )


def bound(
    slug: str,
    comment: str,
    endpoint: str,
    publish: str,
    *requirements: str,
    replay: tuple[str, str] | None = None,
    rank: int = 0,
    world: int = 1,
    per_host: int | None = None,
    flags: tuple[str, ...] = (),
    cites: Cite | None = None,
) -> EndpointTest:
    """A configuration that binds; ``replay`` is the endpoint as configured and as bound."""
    configured, there = replay if replay is not None else (None, None)
    return EndpointTest(
        id=f"endpoint-{slug}",
        comment=comment,
        flags=flags,
        requirements=tuple(sorted({"KVW-END-001", *requirements})),
        result="valid" if cites is None else "acceptable",
        cites=cites,
        input=_input(endpoint, configured, rank, world, per_host),
        expected=EndpointExpected(publish=publish, replay=there),
    )


def refused(
    slug: str,
    comment: str,
    name: str,
    endpoint: str,
    *,
    replay: str | None = None,
    names: tuple[str, ...] | None = None,
    rank: int = 0,
    world: int = 1,
    per_host: int | None = None,
    flags: tuple[str, ...] = (),
) -> EndpointTest:
    """A configuration that is refused; ``names`` are the endpoints of which the error names one."""
    return EndpointTest(
        id=f"endpoint-{slug}",
        comment=comment,
        flags=flags,
        requirements=tuple(sorted({*NOTES[name].requirements, *(() if names == () else NAMED), "KVW-END-013"})),
        result="invalid",
        input=_input(endpoint, replay, rank, world, per_host),
        expected=EndpointExpected(fault=name, names=(endpoint,) if names is None else names),
    )


def ports() -> tuple[EndpointTest, ...]:
    """Ports that are refused."""
    text = "non-numeric-port"
    return (
        refused("port-missing", "no port", "missing-port", TCP),
        refused("port-empty", "a colon and nothing behind it", "missing-port", f"{TCP}:"),
        refused("port-missing-ipv6", "an IPv6 address without a port", "missing-port", "tcp://[::1]"),
        refused("port-name", "the name of a service", text, f"{TCP}:http"),
        refused("port-hex", "hexadecimal", text, f"{TCP}:0x15b5"),
        refused("port-plus", "a sign", text, f"{TCP}:+5557"),
        refused("port-space", "a space", text, f"{TCP}: 5557"),
        refused("port-fraction", "a fraction", text, f"{TCP}:5557.0"),
        refused("port-underscore", "a digit separator", text, f"{TCP}:5_557"),
        refused("port-digits", "decimal digits of another script", text, f"{TCP}:٥٥٥٧"),
        refused("port-slash", "a path behind it", text, f"{TCP}:5557/kv"),
        refused("port-0", "port 0", "ephemeral-not-asked", f"{TCP}:0"),
        refused("port-65536", "one too many", "port-out-of-range", f"{TCP}:65536"),
        refused("port-70000", "which is 4464 modulo 2^16", "port-out-of-range", f"{TCP}:70000"),
        refused("port-huge", "twenty digits", "port-out-of-range", f"{TCP}:99999999999999999999"),
        refused("port-overflow", "65535 and two ranks", "port-plus-rank-overflow", f"{TCP}:65535", world=2),
        refused(
            "port-overflow-rank-1",
            "the same, asked of rank 1",
            "port-plus-rank-overflow",
            f"{TCP}:65535",
            rank=1,
            world=2,
        ),
        refused("port-overflow-3", "65534 and three ranks", "port-plus-rank-overflow", f"{TCP}:65534", world=3),
        refused(
            "port-overflow-hosts",
            "the highest rank is global",
            "port-plus-rank-overflow",
            f"{TCP}:65530",
            world=16,
            per_host=4,
        ),
        refused(
            "port-overflow-replay",
            "the replay port",
            "port-plus-rank-overflow",
            f"{TCP}:5557",
            replay=f"{TCP}:65535",
            names=(f"{TCP}:65535",),
            world=2,
        ),
        refused("replay-port-missing", "no replay port", "missing-port", f"{TCP}:5557", replay=TCP, names=(TCP,)),
    )


def schemes_and_paths() -> tuple[EndpointTest, ...]:
    """Everything else that is refused, and its edges."""
    path = "/run/" + "k" * 102
    wide = "/run/" + "é" * 51
    return (
        refused("empty", "nothing", "empty-endpoint", ""),
        refused(
            "empty-replay",
            "no replay endpoint but an empty one",
            "empty-endpoint",
            f"{TCP}:5557",
            replay="",
            names=("",),
        ),
        refused("empty-tcp", "a scheme and nothing behind it", "empty-endpoint", "tcp://"),
        refused("empty-ipc", "a scheme and nothing behind it", "empty-endpoint", "ipc://"),
        refused("empty-inproc", "a scheme and nothing behind it", "empty-endpoint", "inproc://"),
        refused("host-missing", "a port and no host", "malformed-host", "tcp://:5557"),
        refused("host-bracket", "a bracket that is not closed", "malformed-host", "tcp://[::1:5557"),
        refused("host-bracket-alone", "the same without a port", "malformed-host", "tcp://[::1"),
        refused(
            "replay-host-missing",
            "no replay host",
            "malformed-host",
            f"{TCP}:5557",
            replay="tcp://:5558",
            names=("tcp://:5558",),
        ),
        refused("rank-negative", "a rank below 0", "rank-out-of-range", f"{TCP}:5557", names=(), rank=-1, world=2),
        refused("rank-world", "as many as there are", "rank-out-of-range", f"{TCP}:5557", names=(), rank=2, world=2),
        refused("scheme-udp", "another scheme", "unknown-scheme", "udp://127.0.0.1:5557"),
        refused("scheme-http", "another scheme", "unknown-scheme", "http://127.0.0.1:5557"),
        refused("scheme-missing", "no scheme", "unknown-scheme", "127.0.0.1:5557"),
        refused("scheme-path", "a bare path", "unknown-scheme", "/run/kv/events"),
        bound("ipc-107", "a path of 107 bytes", f"ipc://{path}", f"ipc://{path}", "KVW-END-011"),
        refused(
            "ipc-107-rank-1",
            "a path of 107 bytes: the suffix makes it 111",
            "ipc-path-too-long",
            f"ipc://{path}",
            rank=1,
            world=2,
        ),
        refused(
            "ipc-107-rank-0-of-a-pair",
            "the same, asked of rank 0, which it would fit",
            "ipc-path-too-long",
            f"ipc://{path}",
            world=2,
        ),
        bound(
            "ipc-103-rank-0-of-10",
            "the suffix of the highest rank makes it 107",
            f"ipc://{path[:103]}",
            f"ipc://{path[:103]}",
            "KVW-END-011",
            world=10,
        ),
        refused(
            "ipc-103-rank-0-of-11",
            "the suffix of the highest rank makes it 108",
            "ipc-path-too-long",
            f"ipc://{path[:103]}",
            world=11,
        ),
        bound(
            "ipc-103-rank-1",
            "the suffix makes it 107",
            f"ipc://{path[:103]}",
            f"ipc://{path[:103]}_dp1",
            "KVW-END-011",
            rank=1,
            world=2,
        ),
        refused(
            "ipc-104-rank-1", "the suffix makes it 108", "ipc-path-too-long", f"ipc://{path[:104]}", rank=1, world=2
        ),
        refused(
            "ipc-103-rank-10",
            "a suffix of five bytes makes it 108",
            "ipc-path-too-long",
            f"ipc://{path[:103]}",
            rank=10,
            world=11,
        ),
        refused(
            "replay-ipc-108",
            "a replay path of 108 bytes beside a good publish endpoint",
            "ipc-path-too-long",
            "ipc:///run/kv/x",
            replay=f"ipc://{path}k",
            names=(f"ipc://{path}k",),
        ),
        refused("ipc-108", "a path of 108 bytes", "ipc-path-too-long", f"ipc://{path}k"),
        bound("ipc-utf-8-107", "107 bytes, 56 letters", f"ipc://{wide}", f"ipc://{wide}", "KVW-END-011"),
        refused("ipc-utf-8-109", "109 bytes, 57 letters", "ipc-path-too-long", f"ipc://{wide}é"),
    )
