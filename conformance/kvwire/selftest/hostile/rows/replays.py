"""Replay sockets."""

from __future__ import annotations

from collections.abc import Callable

from kvwire.judges.verdict import Exit
from kvwire.selftest.hostile.bench import Attack, Bench, Ran

LISTENING = (Exit.NOT_CONFORMANT, Exit.INCONCLUSIVE, Exit.ERROR)


def _check(kind: str, *, ipc: bool = False) -> Callable[[Bench], Ran]:
    def run(bench: Bench) -> Ran:
        if ipc:
            live, replay = (f"ipc://{bench.folder}/{name}" for name in "pr")
        else:
            live, replay = (f"tcp://127.0.0.1:{bench.port()}" for _ in range(2))
        bench.peer("publisher", kind, live, replay)
        return bench.kvwire("check", f"zmq:{live}?replay={replay}", "--for", 5)

    return run


def _watch(kind: str) -> Attack:
    def run(bench: Bench) -> Ran:
        live, replay = (f"tcp://127.0.0.1:{bench.port()}" for _ in range(2))
        bench.peer("publisher", kind, live, replay, "gaps")
        return bench.kvwire("watch", f"zmq:{live}?replay={replay}", "--for", "8s", "--replay-gaps")

    return Attack(
        name=f"watch-{kind}",
        on="replay",
        does=f"`watch --replay-gaps` of gaps, and `{kind}`",
        run=run,
        exits=(Exit.CONFORMANT, *LISTENING),
        says="replay-asked",
        seconds=60,
    )


def _attack(kind: str, does: str, says: str = "", *, ipc: bool = False, quick: bool = False) -> Attack:
    return Attack(
        name=f"{kind}{'-ipc' if ipc else ''}",
        on="replay",
        does=does,
        run=_check(kind, ipc=ipc),
        exits=LISTENING,
        says=says,
        quick=quick,
        seconds=120,
    )


ATTACKS = (
    _attack("replay-multipart", "an answer is a message of 60 kB frames that never ends", "a message has no end"),
    _attack("replay-multipart", "the same over ipc", "a message has no end", ipc=True, quick=True),
    _attack("replay-endless", "an answer of small batches without end"),
    _attack("replay-large", "an answer of 1 MB batches without end"),
    _attack("replay-repeated", "the same batch without end"),
    _attack("replay-markers", "end markers without end"),
    _attack("replay-mixed", "a batch and an end marker in turn, without end"),
    _attack("replay-drip", "a batch a second, without end"),
    _attack("replay-garbage", "messages of every wrong form"),
    _attack("replay-parts", "a message of 500,000 frames"),
    _attack("replay-silent", "no answer ever"),
    _attack("replay-claim", "a frame of 1 GiB is announced and sent"),
    _watch("replay-endless"),
    _watch("replay-large"),
    _watch("replay-drip"),
)
