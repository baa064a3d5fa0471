"""A state machine over engine and publisher, through the adapter protocol: nobody may speak of the reference, nor of an
honest peer. Groups and their sizes, tiers, events that are late, hashes, clocks, rings and queues are drawn with these.

``tox -e machine`` runs it; it gates nothing. Hypothesis finds a session that a judge speaks of, and shrinks it; its
trace is in the folder ``KVWIRE_KEEP`` then, named by the sentences. ``KVWIRE_EXAMPLES`` sessions are tried.
"""

from __future__ import annotations

import dataclasses
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kvwire.attack import run
from kvwire.attack.probes.kit.readiness import handshakes, prime
from kvwire.attack.probes.kit.replay_client import ReplayClients
from kvwire.attack.probes.kit.session import Session
from kvwire.attack.probes.workload import publish
from kvwire.attack.targets import Opened, parse
from kvwire.attack.targets.adapted import AdapterTarget
from kvwire.attack.witness import Recorder
from kvwire.peers.honest.catalog import HONEST
from kvwire.selftest import soak
from kvwire.standard.protocol import Refused, Start
from kvwire.trace import files
from kvwire.trace.records import LIVE, Trace

BLOCK = 4
CAPACITY = 24
RING = 20
SESSION_S = 60.0
PROFILE = "replay"

BRANCHES = st.lists(st.integers(0, 3), min_size=1, max_size=6)
STARTS = st.one_of(st.integers(0, 80), st.sampled_from([2**63, 2**64 - 1]))


def tokens(branches: list[int], extra: int) -> list[int]:
    """A prompt of whole blocks, each one of a few, and some tokens more: many prompts share a prefix."""
    return [100 * branch + at for branch in branches for at in range(BLOCK)] + list(range(1000, 1000 + extra))


class Machine(RuleBasedStateMachine):
    """One session: the target is started, worked and watched; at the end its trace is judged."""

    kinds: ClassVar[tuple[str, ...]] = ("reference:", *(peer.target for peer in HONEST.values() if not peer.api))
    keep: ClassVar[Path] = Path(os.environ.get("KVWIRE_KEEP", "machine"))

    def __init__(self) -> None:
        super().__init__()
        self.recorder = Recorder()
        self.opened: Opened | None = None

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        kind = data.draw(st.sampled_from(self.kinds), label="target")
        self.peer = HONEST.get(kind.partition(":")[2])
        self.role = data.draw(st.sampled_from(["cache", "publish"] if self.peer is None else ["cache"]), label="role")
        target = parse(f"{kind}?role={self.role}")
        assert isinstance(target, AdapterTarget)
        own = Start() if self.peer is None else self.peer.start
        sized = own.block_size or (self.peer is not None and "block_size" in self.peer.peer.get("statement", {}))
        chosen: dict[str, Any] = {} if sized else {"block_size": BLOCK}
        chosen |= {"capacity": own.capacity or CAPACITY, "ring": own.ring or RING}
        self.target = target = dataclasses.replace(target, start=msgspec.structs.replace(target.start, **chosen))
        self.opened = target.open(self.recorder)
        self.session: Session = self.opened.session(self.recorder, deadline=time.monotonic() + SESSION_S)
        assert handshakes(self.session)
        assert prime(self.session)

    @property
    def driver(self) -> Any:
        return self.session.driver

    # the engine

    @precondition(lambda self: self.role == "cache")
    @rule(
        branches=BRANCHES,
        extra=st.integers(0, BLOCK - 1),
        salt=st.sampled_from([None, "a"]),
        lora=st.sampled_from([None, "7"]),
    )
    def prompt(self, branches: list[int], extra: int, salt: str | None, lora: str | None) -> None:
        with suppress(Refused):  # not every engine knows salts and adapters
            self.driver.cache(tokens(branches, extra), salt=salt, lora=lora)

    @precondition(lambda self: self.role == "cache")
    @rule(prompts=st.integers(1, 4))
    def evict(self, prompts: int) -> None:
        for at in range(prompts):
            self.driver.cache(list(range(2000 + 100 * at, 2000 + 100 * at + 8 * BLOCK)))

    @precondition(lambda self: self.role == "cache")
    @rule()
    def reset(self) -> None:
        self.driver.reset()

    @precondition(lambda self: self.role == "cache")
    @rule()
    def ask_the_engine(self) -> None:
        self.session.settle()
        self.driver.resident()

    # the publisher

    @rule()
    def publish_nothing(self) -> None:
        self.driver.publish(self.session.offers.batch())

    @precondition(lambda self: self.role == "publish")
    @rule(count=st.integers(1, 12))
    def publish(self, count: int) -> None:
        publish(self.session, count)

    @precondition(lambda self: self.role == "publish")
    @rule(count=st.integers(2, 30))
    def burst(self, count: int) -> None:
        offers = self.session.offers
        self.driver.burst([offers.batch(offers.root(1)) for _ in range(count)])

    @rule(kind=st.sampled_from(["encode", "send"]))
    def lose_a_batch(self, kind: str) -> None:
        self.driver.fault(kind)

    @rule(starts=st.lists(STARTS, min_size=1, max_size=3))
    def replay(self, starts: list[int]) -> None:
        with ReplayClients(self.session) as replays:
            for number in starts:
                replays.ask(self.session.driven, number)

    @rule()
    def restart(self) -> None:
        self.session.settle()
        stream = self.session.driven.name
        before = {(stream, str(source)): self.recorder.handshakes(stream, source) for source in LIVE}
        self.driver.restart()
        self.session.offers.forget()
        assert handshakes(self.session, before)
        assert prime(self.session)

    # the end

    def teardown(self) -> None:
        try:
            if self.opened is not None:
                self.session.settle()
        finally:
            if self.opened is not None:
                self.opened.close()
            self.recorder.close()
        if self.opened is not None:
            profile = PROFILE if self.peer is None else self.peer.profile
            header = run._header(self.target, self.opened, run.Course(), run.Settings(profile=profile))
            self.judge(Trace(header=header, records=tuple(self.recorder.records)))

    def judge(self, recording: Trace) -> None:
        """Nobody speaks; where somebody does, the trace is kept, in the end that of the smallest such session."""
        profile = recording.header.profile
        spoken = {said.what for said in soak.said(recording, profile) if said.sort in ("FAIL", "WARN")}
        spoken -= frozenset() if self.peer is None else self.peer.breaks
        if spoken:
            self.keep.mkdir(parents=True, exist_ok=True)
            files.write(recording, self.keep / f"{'-'.join(sorted(spoken))}.kvtrace")
        assert not spoken, ", ".join(sorted(spoken))


SETTINGS = settings(
    max_examples=int(os.environ.get("KVWIRE_EXAMPLES", "30")),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
TestMachine = pytest.mark.timeout(0)(pytest.mark.network(Machine.TestCase))
TestMachine.settings = SETTINGS
