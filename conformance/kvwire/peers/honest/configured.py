"""The reference in other configurations, and with other clocks: groups, tiers, limits and small rings."""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from kvwire.peers.honest.mark import PROBES, honest
from kvwire.standard.protocol import EngineGroup, EngineTier, Refused, Start
from kvwire_reference.cache import CacheConfig, CacheEngine
from kvwire_reference.groups import LifeCycle
from kvwire_reference.hashing import Token
from kvwire_reference.multimodal import MmItem
from kvwire_reference.outlet import Outlet
from kvwire_reference.publisher import ZmqPublisher
from kvwire_reference.wire import AllBlocksCleared, Batch

FULL = EngineGroup(idx=0, kind="full_attention")
WINDOW = EngineGroup(idx=1, kind="sliding_window", window=8)
HOST = EngineTier(medium="CPU", capacity=40)
SMALL = Start(block_size=4, capacity=40)
"""Blocks as small as the windows are, and few, so that a short run evicts."""
honest(
    "unannounced-window",
    unlike="a second life cycle, of a window, is in the way of reuse and in no event",
    passes="RES-003 RES-012 RES-013 CHN-003",
    start=msgspec.structs.replace(SMALL, groups=(FULL, msgspec.structs.replace(WINDOW, announced=False))),
)(CacheEngine)
honest(
    "window-group",
    unlike="a window group beside full attention, both announced",
    passes="RES-003 RES-012 RES-013 CHN-002 CHN-003",
    start=msgspec.structs.replace(SMALL, groups=(FULL, WINDOW)),
)(CacheEngine)
honest(
    "mamba-group",
    unlike="a group of states beside full attention",
    passes="RES-003 RES-012 RES-013 CHN-003",
    start=msgspec.structs.replace(SMALL, groups=(FULL, EngineGroup(idx=1, kind="mamba"))),
)(CacheEngine)
honest(
    "two-dense-groups",
    unlike="two groups keep whole prefixes",
    passes="RES-003 RES-012 RES-013 CHN-003",
    start=msgspec.structs.replace(SMALL, groups=(FULL, EngineGroup(idx=1, kind="mla_attention"))),
)(CacheEngine)
honest(
    "unannounced-host",
    unlike="host memory of which no event speaks: a block that left the device can be hit",
    passes="RES-003 RES-012 RES-013 CHN-003",
    start=msgspec.structs.replace(SMALL, tiers=(msgspec.structs.replace(HOST, announced=False),)),
)(CacheEngine)
honest(
    "host",
    unlike="host memory behind the device, with events",
    passes="RES-003 RES-012 RES-013 CHN-003",
    start=msgspec.structs.replace(SMALL, tiers=(HOST,)),
)(CacheEngine)
honest(
    "groups-and-host",
    unlike="a window group and host memory, with events of all of them",
    passes="RES-003 RES-012 RES-013 CHN-002 CHN-003",
    start=msgspec.structs.replace(SMALL, groups=(FULL, WINDOW), tiers=(HOST,)),
)(CacheEngine)
honest(
    "netting",
    unlike="what does not outlive an iteration is left out",
    passes="RES-003 RES-012 RES-013 CHN-003",
    start=msgspec.structs.replace(SMALL, netting=True),
)(CacheEngine)
honest(
    "entry-limit",
    unlike="an iteration announces four blocks at most",
    passes="RES-003 RES-007 RES-008 CHN-003",
    start=Start(cap=4),
    probes=(*PROBES, "cap"),
)(CacheEngine)
honest(
    "block-of-one",
    unlike="a block is one token",
    passes="RES-003 RES-012 RES-013 CHN-003 HSH-002",
    start=Start(block_size=1, capacity=64),
)(CacheEngine)
honest(
    "ring-of-one",
    unlike="the newest batch alone is retained",
    open="SEQ-001 SEQ-007 SEQ-008",
    passes="REP-001 REP-003 REP-013",
    replayable="REP-001 REP-003 REP-013",
    start=Start(ring=1),
    probes=(*PROBES, "replay"),
)(CacheEngine)
honest(
    "ring-of-64",
    unlike="64 batches are retained: a busy stream evicts them while they are asked for",
    open="SEQ-001",
    passes="REP-001 REP-003 REP-013 SEQ-007",
    replayable="REP-001 REP-003 REP-013",
    start=Start(ring=64),
    probes=(*PROBES, "replay"),
)(CacheEngine)


@honest(
    "says-all",
    unlike="every event has `hash_algo` and `v`",
    passes="HSH-003 HSH-004 EVT-018",
)
class SaysAll(CacheEngine):
    def __init__(self, outlet: Outlet, config: CacheConfig) -> None:
        super().__init__(outlet, msgspec.structs.replace(config, announce_algorithm=True, announce_edition=True))


HYBRID = (LifeCycle(0, None, None, 4), LifeCycle(1, 32, None, 16), LifeCycle(2, None, "mamba", 64))
"""The sizes 16, 64 and 256 of hybrid models, divided by four."""
FINE = 4
"""How many blocks of the first group make one of the size that is declared for the stream."""


@honest(
    "hybrid",
    unlike="blocks of 4, 16 and 64 tokens in three groups: full attention, a sliding window and states",
    passes="RES-003 RES-012 RES-013 CHN-002 CHN-003 HSH-008",
    statement={
        "block_size": 16,
        "groups": [
            {"idx": 0, "kind": "full_attention", "block_size": 4},
            {"idx": 1, "kind": "sliding_window", "window": 32, "block_size": 16},
            {"idx": 2, "kind": "mamba", "block_size": 64},
        ],
    },
)
class Hybrid(CacheEngine):
    def __init__(self, outlet: Outlet, config: CacheConfig) -> None:
        if config.host is not None or len(config.life_cycles) > 1:
            raise Refused("this engine has its own groups, and no tiers")
        changed = {"block_size": 4, "capacity": FINE * config.capacity, "life_cycles": HYBRID, "groups": (0, 1, 2)}
        super().__init__(outlet, msgspec.structs.replace(config, **changed))


class LateEngine(CacheEngine):
    """Publishes by a thread of its own, some time after the call has returned: a batch counts as offered then."""

    late_s: ClassVar[float]

    def __init__(self, outlet: Outlet, config: CacheConfig) -> None:
        super().__init__(outlet, config)
        self._calls = threading.RLock()
        threading.Thread(target=self._publish_late, daemon=True).start()

    def insert(
        self,
        tokens: Sequence[Token],
        *,
        lora_id: int | None = None,
        salt: str | None = None,
        mm: Sequence[MmItem] = (),
        computed: int | None = None,
    ) -> int:
        with self._calls:
            return super().insert(tokens, lora_id=lora_id, salt=salt, mm=mm, computed=computed)

    def reset(self) -> None:
        with self._calls:
            super().reset()

    def flush(self) -> Batch | None:
        """What a call caused is not published by the call."""
        return None

    def _publish_late(self) -> None:
        while True:
            time.sleep(self.late_s)
            with self._calls:
                super().flush()


@honest(
    "late-100-ms",
    unlike="events leave up to 0.1 s after the call that caused them",
    passes="RES-003 RES-006",
    start=SMALL,
    statement={"bounds": {"reset_visible_s": 0.7}},
)
class Late100Ms(LateEngine):
    late_s = 0.1


@honest(
    "late-1-s",
    unlike="events leave up to 1 s after the call that caused them",
    passes="RES-006",
    start=SMALL,
    statement={"bounds": {"reset_visible_s": 2.0}},
)
class Late1S(LateEngine):
    late_s = 1.0


class CoarseClock(ZmqPublisher):
    """Tells its lives apart by an epoch, since its clock does not."""

    tick_s: ClassVar[float]

    def __init__(self, *arguments: Any) -> None:
        self._epoch = str(uuid.uuid4())
        super().__init__(*arguments)

    def publish(self, batch: Batch) -> bool:
        ts = math.floor(batch.ts / self.tick_s) * self.tick_s if math.isfinite(batch.ts) else batch.ts
        events = tuple(
            msgspec.structs.replace(event, epoch=self._epoch) if isinstance(event, AllBlocksCleared) else event
            for event in batch.events
        )
        return super().publish(msgspec.structs.replace(batch, ts=ts, events=events))


@honest(
    "second-clock",
    unlike="`ts` has a resolution of one second, and lives have an epoch",
    passes="BAT-003 BAT-004 SEQ-007 SEQ-020",
    passive="BAT-003 BAT-004",
)
class SecondsOnly(CoarseClock):
    tick_s = 1.0


@honest(
    "hour-clock",
    unlike="`ts` stands still for an hour, and lives have an epoch",
    passes="BAT-003 BAT-004 SEQ-007 SEQ-020",
    passive="BAT-003 BAT-004",
)
class HoursOnly(CoarseClock):
    tick_s = 3600.0
