"""What a rank binds, and what is refused (spec/endpoint.md)."""

from __future__ import annotations

from kvwire.vectors.making import fault, make
from kvwire.vectors.model import EndpointExpected, EndpointFile, EndpointInput, Group, Test

NOTES = {"missing-port": fault("a tcp endpoint has no port", "KVW-END-004")}


def files() -> dict[str, EndpointFile]:
    """The files of ``endpoint/``."""
    tests = (
        Test(
            id="endpoint-tcp-rank-3",
            comment="port plus global rank",
            flags=(),
            requirements=("KVW-END-002",),
            result="valid",
            input=EndpointInput(
                endpoint="tcp://127.0.0.1:5557", replay="tcp://127.0.0.1:5657", rank=3, world=4, ranks_per_host=4
            ),
            expected=EndpointExpected(publish="tcp://127.0.0.1:5560", replay="tcp://127.0.0.1:5660"),
        ),
        Test(
            id="endpoint-no-port",
            comment="no port",
            flags=(),
            requirements=("KVW-END-004", "KVW-END-012"),
            result="invalid",
            input=EndpointInput(endpoint="tcp://127.0.0.1", rank=0, world=1, ranks_per_host=1),
            expected=EndpointExpected(fault="missing-port", names=("tcp://127.0.0.1",)),
        ),
    )
    group = Group(name="binding", comment="An operator configures one endpoint for all ranks.", tests=tests)
    return {"endpoint/binding.json": make("kvwire/vectors/endpoint/1", __name__, [group], NOTES)}
