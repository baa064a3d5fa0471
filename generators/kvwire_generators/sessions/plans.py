"""What is recorded for ``session/``: runs of publishers that keep the standard, and of mutants."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from kvwire.peers.mutant import Mutant, Session
from kvwire.peers.mutants import MUTANTS
from kvwire.vectors.sessions import path_of

PREFIX = "mutant-"
AT_WORK = "at-work:"
"""The target of publishers in this process that nobody drives; options: `ranks`, `ring`, `queue`, `burst`."""


class Plan(Session, frozen=True, kw_only=True):
    """One session: what is run, with which probes and limits, what is kept of it, and what it shows."""

    comment: str
    target: str = "reference:"


PLANS: Mapping[str, Plan] = {
    "reference": Plan(
        comment="prompts, empty batches, replay requests of all kinds, a reset, a restart, a stop",
        options="block_size=2&capacity=12&ring=30",
        probes=("live", "batches", "reset", "replay", "restart", "sanity", "stop"),
    ),
    "reference-prompts": Plan(
        comment="prompts with common prefixes, LoRA and salts; blocks are evicted and come back",
        probes=("live", "prompts"),
    ),
    "reference-tags": Plan(
        comment="scope tags stand in the stores of salted chains",
        options="block_size=2&capacity=12&salt=tag",
        probes=("live", "prompts"),
    ),
    "reference-publish": Plan(
        comment="the harness offers every event; nothing is lost",
        options="block_size=2&capacity=12&role=publish",
        probes=("live", "batches", "replay", "sanity"),
    ),
    "reference-v1": Plan(
        comment="the same work under v1_block_key",
        options="block_size=2&capacity=12&algorithm=v1_block_key",
        probes=("live", "reset", "sanity", "stop"),
    ),
    "reference-endpoints": Plan(
        comment="what other instances bind, and what they refuse",
        probes=("live", "places", "endpoints"),
        profile="ranks",
    ),
    "reference-ranks": Plan(
        comment="three other instances, each a rank of its own; one of them ends before the others",
        probes=("live", "ranks"),
        profile="ranks",
    ),
    "reference-rank-outages": Plan(
        comment="three other instances, each a rank of its own: two work while the others are idle, stopped and killed",
        probes=("live", "rank-outages"),
        profile="ranks",
    ),
    "reference-in-use": Plan(
        comment="an instance is started where another one serves already, over ipc and tcp",
        probes=("live", "endpoint-in-use"),
    ),
    "reference-requests": Plan(
        comment="another instance is given prompts with a salt, multimodal content and LoRA ids, one above 2^63",
        probes=("live", "requests"),
    ),
    "reference-residency": Plan(
        comment="a small cache of another instance is filled, hit, split, evicted and reset",
        probes=("live", "residency"),
    ),
    "restart": Plan(
        comment="the publisher is restarted on its endpoints; replay then holds the new life alone",
        probes=("live", "restart", "sanity"),
    ),
    "clear": Plan(
        comment="the cache is reset while the engine is idle; the clear comes by itself", probes=("live", "reset")
    ),
    "two-ranks": Plan(
        comment="two ranks, each with sockets of its own; nobody drives them, and nothing declares more than their "
        "endpoints",
        target=AT_WORK,
        options="ranks=2&ring=5&queue=100",
        probes=("live",),
        level="passive",
        profile="ranks",
    ),
    "multimodal": Plan(
        comment="digest tokens with mm_keys; an item that begins within a block and reaches over the next one",
        options="block_size=4&capacity=12&multimodal=true",
        probes=("live", "prompts"),
        limits={"prompts": 1},
        profile="multimodal",
    ),
    "gap": Plan(
        comment="bursts overflow a queue; what is dropped burns its numbers, and there is no replay to ask",
        target=AT_WORK,
        options="ring=100&queue=2&burst=12",
        probes=("live",),
        level="passive",
        limits={"listen_s": 3},
    ),
    "gap-replay": Plan(
        comment="bursts overflow a queue; replay has the same holes as the live stream",
        target=AT_WORK,
        options="ring=12&queue=2&burst=12",
        probes=("live", "replay"),
        level="replayable",
    ),
    "eviction": Plan(
        comment="replay is asked while batches are evicted: answers begin above what was asked for",
        target=AT_WORK,
        options="ring=5&queue=100",
        probes=("live", "replay"),
        level="replayable",
        limits={"listen_s": 0.7},
    ),
}
"""The sessions of publishers of ours that are no mutants: no judge speaks of them."""


def plans() -> dict[str, Plan]:
    """Every recorded session by name."""
    shown = {
        f"{PREFIX}{name}": Plan(
            comment=mutant.change, target=f"mutant:{name}", **msgspec.structs.asdict(mutant.session)
        )
        for name, mutant in MUTANTS.items()
        if isinstance(mutant.session, Session)
    }
    return {**PLANS, **shown}


def mutant_of(name: str) -> Mutant | None:
    """The mutant that a session shows."""
    return MUTANTS.get(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None


def problems(paths: Collection[str]) -> list[str]:
    """Plans of which there is no session (of these paths)."""
    return [
        f"vectors/{path_of(name)}: the session is missing: run `python -m kvwire_generators record {name}`"
        for name in plans()
        if path_of(name) not in paths
    ]


def coverage(count: int) -> str:
    """What ``COVERAGE.md`` says of sessions: how many there are, and why some mutants have none."""
    lines = ["", "## Sessions", "", f"Sessions: {count}. Every mutant has one but these:", ""]
    lines += [f"- `{name}`: {mutant.session}" for name, mutant in MUTANTS.items() if isinstance(mutant.session, str)]
    return "\n".join(lines) + "\n"
