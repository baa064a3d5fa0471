"""Which processes of a deployment have a stream.

A stream describes one cache. Tensor-parallel processes hold slices of one cache: the first of them publishes it, and
the others nothing, or a consumer would hear one cache several times over. Data-parallel ranks hold a cache each (the
ranks of attention data parallelism too, whatever else they share): each has a stream of its own. Under pipeline and
context parallelism a block lives in pieces on several processes, and no single one holds the cache that its stream
would describe.

Two caches on one stream could not be told apart either. A draft model, and the cache that an engine builds to
estimate how much memory it needs, stay off the stream of the model that is served: their engine gets a
`NullPublisher`, or a publisher with endpoints of its own.
"""

import msgspec

from kvwire_reference.endpoints import Cause, EndpointError


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """How many processes there are, by what they share: `data` caches of `tensor` slices each.

    Attention data parallelism over n processes is `data` = n. `pipeline` and `context` other than 1 are refused.
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    context: int = 1

    def check(self) -> None:
        """Raise `EndpointError`, naming the topology, where the standard defines no streams [KVW-RNK-006]."""
        for name, size in (("data", self.data), ("tensor", self.tensor)):
            if size < 1:
                raise EndpointError(Cause.TOPOLOGY, f"{name} parallelism of {size} is none; set it to 1 or more")
        for name, size in (("pipeline", self.pipeline), ("context", self.context)):
            if size != 1:
                raise EndpointError(
                    Cause.TOPOLOGY,
                    f"{name} parallelism of {size} cannot be streamed; set it to 1, or switch events off",
                )

    def rank_of(self, process: int) -> int:
        """Return the rank whose cache a process holds, or holds a slice of.

        Processes count from 0, those of one cache in a row. Raises `EndpointError` for one that does not exist.
        """
        if not 0 <= process < self.data * self.tensor:
            raise EndpointError(
                Cause.RANK, f"process {process} is outside 0…{self.data * self.tensor - 1} of {self}; use one of them"
            )
        return process // self.tensor

    def publishes(self, process: int) -> bool:
        """Whether this process has the stream of its rank."""
        return process % self.tensor == 0
