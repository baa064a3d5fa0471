"""What a rank binds, and what is refused (spec/endpoint.md)."""

from __future__ import annotations

from kvwire.vectors.model import EndpointFile, Group
from kvwire_generators.endpoints.endpoint_refusals import (
    NOTES,
    TCP,
    EndpointTest,
    bound,
    ports,
    refused,
    schemes_and_paths,
)
from kvwire_generators.making import cite, make


def _ranks() -> tuple[EndpointTest, ...]:
    v6, wide = cite("KVW-END-015"), cite("KVW-EXP-002")
    end = ("KVW-END-002",)
    suffix = ("KVW-END-003",)
    return (
        bound("tcp-rank-0", "rank 0 binds what is configured", f"{TCP}:5557", f"{TCP}:5557", *end, world=4),
        bound("tcp-rank-3", "port plus global rank", f"{TCP}:5557", f"{TCP}:5560", *end, rank=3, world=4),
        bound(
            "tcp-rank-9",
            "the rank is global, also on the second host",
            f"{TCP}:5557",
            f"{TCP}:5566",
            *end,
            rank=9,
            world=16,
            per_host=8,
        ),
        bound("tcp-name", "the name of a host", "tcp://localhost:5557", "tcp://localhost:5558", *end, rank=1, world=2),
        bound(
            "tcp-replay",
            "the replay endpoint in the same way",
            f"{TCP}:5557",
            f"{TCP}:5560",
            *end,
            rank=3,
            world=4,
            replay=(f"{TCP}:5657", f"{TCP}:5660"),
        ),
        bound("tcp-port-1", "the lowest port", f"{TCP}:1", f"{TCP}:1", *end),
        bound("tcp-port-65535", "the highest port", f"{TCP}:65535", f"{TCP}:65535", "KVW-END-006"),
        bound(
            "tcp-port-65534-rank-1",
            "the highest port, of rank 1",
            f"{TCP}:65534",
            f"{TCP}:65535",
            "KVW-END-006",
            rank=1,
            world=2,
        ),
        bound("ipc-rank-0", "no suffix for rank 0", "ipc:///run/kv/events", "ipc:///run/kv/events", *suffix, world=4),
        bound(
            "ipc-rank-3",
            "a suffix for every other",
            "ipc:///run/kv/events",
            "ipc:///run/kv/events_dp3",
            *suffix,
            rank=3,
            world=4,
        ),
        bound(
            "ipc-rank-12",
            "a suffix of two digits",
            "ipc:///run/kv/events",
            "ipc:///run/kv/events_dp12",
            *suffix,
            rank=12,
            world=16,
        ),
        bound(
            "ipc-extension",
            "the suffix goes behind the whole path",
            "ipc:///run/kv/events.sock",
            "ipc:///run/kv/events.sock_dp1",
            *suffix,
            rank=1,
            world=2,
        ),
        bound(
            "ipc-replay",
            "the replay endpoint in the same way",
            "ipc:///run/kv/events",
            "ipc:///run/kv/events_dp1",
            *suffix,
            rank=1,
            world=2,
            replay=("ipc:///run/kv/replay", "ipc:///run/kv/replay_dp1"),
        ),
        bound("inproc-rank-0", "no suffix for rank 0", "inproc://events", "inproc://events", *suffix),
        bound(
            "inproc-rank-3",
            "a suffix for every other",
            "inproc://events",
            "inproc://events_dp3",
            *suffix,
            rank=3,
            world=4,
        ),
        bound(
            "mixed",
            "events over ipc, replay over tcp",
            "ipc:///run/kv/events",
            "ipc:///run/kv/events_dp1",
            *suffix,
            *end,
            rank=1,
            world=2,
            replay=(f"{TCP}:5557", f"{TCP}:5558"),
        ),
        bound(
            "ipv6",
            "an IPv6 address",
            "tcp://[::1]:5557",
            "tcp://[::1]:5560",
            "KVW-END-015",
            *end,
            rank=3,
            world=4,
            flags=("ipv6",),
            cites=v6,
        ),
        bound(
            "ipv6-long",
            "a longer one: the last colon is that of the port",
            "tcp://[2001:db8::5557]:5557",
            "tcp://[2001:db8::5557]:5558",
            "KVW-END-015",
            *end,
            rank=1,
            world=2,
            flags=("ipv6",),
            cites=v6,
        ),
        bound(
            "wildcard",
            "every interface",
            "tcp://*:5557",
            "tcp://*:5558",
            *end,
            rank=1,
            world=2,
            flags=("wide",),
            cites=wide,
        ),
        bound(
            "wildcard-zeros",
            "every interface",
            "tcp://0.0.0.0:5557",
            "tcp://0.0.0.0:5558",
            *end,
            rank=1,
            world=2,
            flags=("wide",),
            cites=wide,
        ),
    )


def _pairs() -> tuple[EndpointTest, ...]:
    def fits(
        slug: str, comment: str, publish: int, replay: int, ranks: int, rank: int = 0, world: int | None = None
    ) -> EndpointTest:
        ends = (f"{TCP}:{replay}", f"{TCP}:{replay + rank}")
        return bound(
            slug,
            comment,
            f"{TCP}:{publish}",
            f"{TCP}:{publish + rank}",
            "KVW-END-009",
            replay=ends,
            rank=rank,
            world=world or ranks,
            per_host=ranks,
        )

    def clash(
        slug: str, comment: str, publish: int, replay: int, ranks: int, name: str = "overlapping-ranges", rank: int = 0
    ) -> EndpointTest:
        ends = (f"{TCP}:{publish}", f"{TCP}:{replay}")
        return refused(slug, comment, name, ends[0], replay=ends[1], names=ends, rank=rank, world=ranks, per_host=ranks)

    same = "identical-endpoints"
    return (
        fits("pair-1", "neighbours, one rank a host", 5557, 5558, 1),
        clash("pair-2-near", "neighbours, two ranks: rank 1 publishes where rank 0 replays", 5557, 5558, 2),
        clash("pair-2-near-rank-1", "the same, asked of rank 1", 5557, 5558, 2, rank=1),
        clash("pair-2-below", "the replay port below, two ranks", 5558, 5557, 2),
        fits("pair-2-apart", "two apart, two ranks", 5557, 5559, 2, rank=1),
        fits("pair-2-far", "a hundred apart", 5557, 5657, 2, rank=1),
        fits("pair-2-below-apart", "the replay port two below", 5559, 5557, 2, rank=1),
        fits("pair-8", "eight apart, eight ranks", 5557, 5565, 8, rank=7),
        clash("pair-8-near", "seven apart, eight ranks", 5557, 5564, 8),
        clash("pair-8-below", "the replay port seven below", 5564, 5557, 8),
        fits("pair-two-hosts", "eight apart, sixteen ranks on two hosts", 5557, 5565, 8, rank=9, world=16),
        bound("no-replay-8", "no replay, eight ranks", f"{TCP}:5557", f"{TCP}:5564", "KVW-END-002", rank=7, world=8),
        refused("same-tcp", "one endpoint for both", same, f"{TCP}:5557", replay=f"{TCP}:5557"),
        refused(
            "same-ipc",
            "one path for both: the second socket would take over the file",
            same,
            "ipc:///run/kv/x",
            replay="ipc:///run/kv/x",
        ),
        refused(
            "same-ipc-rank-1",
            "the same, asked of rank 1",
            same,
            "ipc:///run/kv/x",
            replay="ipc:///run/kv/x",
            rank=1,
            world=2,
        ),
        refused("same-inproc", "one name for both", same, "inproc://x", replay="inproc://x"),
        refused(
            "same-ipc-suffix",
            "rank 0 would replay where rank 1 publishes",
            same,
            "ipc:///run/kv/x",
            replay="ipc:///run/kv/x_dp1",
            names=("ipc:///run/kv/x", "ipc:///run/kv/x_dp1"),
            world=2,
        ),
        refused(
            "same-ipc-suffix-publish",
            "rank 1 would replay where rank 0 publishes",
            same,
            "ipc:///run/kv/x_dp1",
            replay="ipc:///run/kv/x",
            names=("ipc:///run/kv/x_dp1", "ipc:///run/kv/x"),
            world=2,
        ),
        bound(
            "same-ipc-suffix-elsewhere",
            "rank 1 publishes on another host",
            "ipc:///run/kv/x",
            "ipc:///run/kv/x",
            "KVW-END-010",
            replay=("ipc:///run/kv/x_dp1", "ipc:///run/kv/x_dp1"),
            world=2,
            per_host=1,
        ),
        clash("pair-4-near", "three apart, four ranks", 5557, 5560, 4),
        clash("pair-8-near-3", "three apart, eight ranks", 5560, 5557, 8),
        fits("pair-3-apart", "three apart, three ranks", 5557, 5560, 3, rank=2),
        refused(
            "pair-wildcard",
            "a wildcard is every host",
            "overlapping-ranges",
            f"{TCP}:5557",
            replay="tcp://*:5558",
            names=(f"{TCP}:5557", "tcp://*:5558"),
            world=2,
            flags=("wide",),
        ),
        bound(
            "pair-two-addresses",
            "two addresses are two hosts, as far as the text tells",
            f"{TCP}:5557",
            f"{TCP}:5558",
            "KVW-END-009",
            replay=("tcp://127.0.0.2:5558", "tcp://127.0.0.2:5559"),
            rank=1,
            world=2,
        ),
        bound(
            "ipc-named-tcp",
            "a path that contains the names of other schemes",
            "ipc:///run/tcp/inproc",
            "ipc:///run/tcp/inproc_dp3",
            "KVW-END-003",
            rank=3,
            world=4,
        ),
    )


def files() -> dict[str, EndpointFile]:
    """The files of ``endpoint/``."""
    groups = (
        Group(name="ranks", comment="One endpoint is configured, each rank derives its own.", tests=_ranks()),
        Group(name="publish and replay", comment="Two ranges of ports on one host.", tests=_pairs()),
        Group(name="ports", comment="Ports that are refused.", tests=ports()),
        Group(name="schemes and paths", comment="What else is refused.", tests=schemes_and_paths()),
    )
    return {"endpoint/binding.json": make("kvwire/vectors/endpoint/1", __name__, groups, NOTES)}
