"""Which processes have a stream, and which deployments have none."""

import pytest

from kvwire_reference.endpoints import Cause, EndpointError
from kvwire_reference.outlet import NullPublisher
from kvwire_reference.publisher import PublisherConfig, ZmqPublisher, publisher_of
from kvwire_reference.topology import Topology

UNSTREAMABLE = [
    (Topology(pipeline=2), "pipeline parallelism of 2 cannot be streamed; set it to 1"),
    (Topology(context=4, data=2), "context parallelism of 4 cannot be streamed; set it to 1"),
    (Topology(pipeline=0), "pipeline parallelism of 0 cannot be streamed"),
    (Topology(tensor=0), "tensor parallelism of 0 is none"),
    (Topology(data=-1), "data parallelism of -1 is none"),
]


@pytest.mark.parametrize(("topology", "words"), UNSTREAMABLE)
def test_a_topology_without_streams_is_refused_on_every_process_by_name(topology: Topology, words: str) -> None:
    config = PublisherConfig(topology=topology, world_size=2)
    for process in (0, 1):
        with pytest.raises(EndpointError, match=words) as refusal:
            publisher_of(config, process)
        assert refusal.value.cause is Cause.TOPOLOGY
    with pytest.raises(EndpointError, match=words):
        ZmqPublisher(config)


def streams(topology: Topology, processes: int) -> list[str | int]:
    """Per process: the endpoint of its stream, or the rank whose stream another process has."""
    config = PublisherConfig(topology=topology)
    made = [publisher_of(config, process) for process in range(processes)]
    for each in made:
        each.shutdown()
    assert all(isinstance(each, ZmqPublisher | NullPublisher) for each in made)
    return [each.endpoint[-4:] if isinstance(each, ZmqPublisher) else each.rank for each in made]


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (Topology(), ["5557"]),
        (Topology(tensor=4), ["5557", 0, 0, 0]),
        (Topology(data=4), ["5557", "5558", "5559", "5560"]),
        (Topology(data=2, tensor=4), ["5557", 0, 0, 0, "5558", 1, 1, 1]),
    ],
)
def test_one_cache_one_stream(topology: Topology, expected: list[str | int]) -> None:
    assert streams(topology, len(expected)) == expected
    with pytest.raises(EndpointError, match="is outside"):
        publisher_of(PublisherConfig(topology=topology), len(expected))


def test_the_ranks_of_a_topology_are_its_world() -> None:
    publisher = publisher_of(PublisherConfig(topology=Topology(data=3, tensor=2)), 4)
    assert isinstance(publisher, ZmqPublisher)
    assert (publisher.rank, publisher.config.world_size) == (2, 3)
    publisher.shutdown()
    with pytest.raises(EndpointError, match="has 3 streams, not 2") as refusal:
        ZmqPublisher(PublisherConfig(topology=Topology(data=3), world_size=2))
    assert refusal.value.cause is Cause.TOPOLOGY
