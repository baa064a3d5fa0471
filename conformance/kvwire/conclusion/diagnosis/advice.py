"""What a profile means for a reader: the lines that name a cause, and what to type next."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from kvwire.conclusion.diagnosis.stream_profile import StreamProfile

FEW = 8
"""Fewer blocks do not show what a stream is like."""


def troubles(profile: StreamProfile) -> Iterator[str]:
    """What is likely to keep a consumer from hits, each in a line with its consequence."""
    if not profile.connected and profile.refused:
        yield f"{profile.endpoint}: {profile.refused}"
        return
    if not profile.connected:
        yield (
            f"no ZeroMQ handshake on {profile.endpoint}: nobody binds there, or the publisher dials "
            "(then `mode=bind`, and the harness binds)"
        )
        return
    if not profile.messages:
        yield (
            f"connected, and nothing came in {profile.seconds:.0f} s: events are off, the engine is idle, "
            "or this is another engine's port"
        )
        return
    if profile.topic_given is not None and profile.topics and profile.topics != [profile.topic_given]:
        seen = ", ".join(map(repr, profile.topics))
        yield f"the topic is {seen}, not {profile.topic_given!r}: a subscriber of that hears nothing"
    if profile.malformed:
        yield (
            f"{profile.malformed} of {profile.messages} messages are not topic, number of 8 bytes and payload: "
            "consumers drop them"
        )
    several = len([rank for rank in profile.ranks if rank is not None]) > 1
    if several:
        shown = ", ".join(str(rank) for rank in profile.ranks if rank is not None)
        yield (
            f"ranks {shown} on one endpoint: two senders, or a relay; their numbers interleave, and a consumer sees "
            "holes and restarts"
        )
    if profile.events and "BlockStored" not in profile.events and not profile.part:
        yield f"nothing is stored in {profile.batches} batches: the engine is idle, or does not tell what it caches"
    if profile.lost and not several:
        yield (
            f"{profile.lost} numbers were never heard, {profile.batches} were: what they told is unknown"
            + ("" if profile.replay else ", and there is no replay socket to ask")
        )
    if profile.restarts and not several:
        yield f"numbers fell back {_times(profile.restarts)}: each time a consumer has to forget everything"
    if len(profile.block_sizes) > 1 and len({tuple(group.block_sizes) for group in profile.groups}) > 1:
        shown = ", ".join(f"group {group.idx}: {_listed(group.block_sizes)}" for group in profile.groups)
        yield f"groups have blocks of different sizes ({shown}): a router with one block size sees a part of them"
    elif len(profile.block_sizes) > 1:
        yield f"one group has blocks of several sizes ({_listed(profile.block_sizes)} tokens)"
    if profile.blocks >= FEW and profile.orphans > profile.roots and profile.orphans * 4 > profile.blocks:
        yield (
            f"the parents of {profile.orphans} stores were never heard live: this began amid the stream, or "
            "events are lost; a router that wants whole chains holds nothing of them"
        )
    if profile.twice:
        yield (
            f"blocks are stored that are resident already, {_times(profile.twice)}: who counts copies never drops them"
        )
    forms = sorted(profile.forms.keys() - {"array"} or profile.forms)  # of an array alone it is not known whose it is
    if len(forms) > 1 or "mixed" in forms:
        yield f"events have several forms ({', '.join(forms)}): a strict decoder loses whole batches"
    if profile.other_adapters:
        yield (
            f"extra keys without the name of their adapter, in {profile.other_adapters} stores: hashes and events "
            "speak of different ones"
        )
    if profile.items_alone:
        yield (
            f"items in `mm_keys` and no digest token, in {profile.items_alone} stores: who hashes the tokens takes two "
            "images for one"
        )
    if "salt in clear" in profile.scopes:
        yield "cache salts stand in clear in the events: whoever listens can read them"
    yield from _hashing(profile)


def _hashing(profile: StreamProfile) -> Iterator[str]:
    function = profile.function
    if function is None:
        if profile.hashed >= FEW:
            yield (
                f"no known hash function gives any of {profile.hashed} hashes: a seed for this process, a salt or an "
                "adapter that the wire does not show, or a function of its own; take the hashes from the events"
            )
        return
    if function.mistake:
        yield f"the hashes are those of a known mistake, {function.function}: {function.mistake}"
    if function.seed is not None:
        yield (
            f"the engine hashes with PYTHONHASHSEED={function.seed}: a consumer that computes hashes needs the same "
            "seed, and so does every other engine of the fleet"
        )
    if function.finer is not None:
        yield (
            f"a block is named by the hash of its last {function.finer} tokens: hash {function.finer} tokens at a "
            "time, not a block"
        )
    found = [one.function for one in profile.functions]
    labels = sorted(label for label in profile.labels if not any(name.startswith(label) for name in found))
    if labels:
        yield f"events say {_listed(labels)}, and the hashes are those of {function.function}"
    if function.blocks < function.tried:
        others = [f"{one.blocks} are those of {one.function}" for one in profile.functions[1:3] if not one.mistake]
        also = f": {' and '.join(others)}; the function changed on the way, or several hash" if others else ""
        other = f"{function.tried - function.blocks} of {function.tried} hashes"
        yield f"{other} are not those of {function.function}{also}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _listed(values: Sequence[object] | dict[str, int]) -> str:
    return ", ".join(map(str, values))


def listeners(endpoint: str) -> str:
    """Who can listen to an endpoint, as far as its text tells; empty where it does not."""
    if endpoint.startswith("ipc://"):
        return "whoever may open the file (this host only)"
    host = endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    return "processes of this host, if it is bound to this address only" if loopback else "whoever reaches this address"


def following(target: str, profiles: Sequence[StreamProfile]) -> Iterator[str]:
    """What to type next."""
    if not target.startswith("zmq:") or not any(profile.batches for profile in profiles):
        return
    place, _, query = target.partition("?")
    options = [part for part in query.split("&") if part]
    given = {part.partition("=")[0] for part in options}
    if "topic" not in given and len(profiles[0].topics) == 1 and profiles[0].topics[0]:
        options.append(f"topic={profiles[0].topics[0]}")
    joined = f"{place}{'?' if options else ''}{'&'.join(options)}"
    yield f"kvwire check '{joined}'"
    if "replay" not in given:
        mark = "&" if options else "?"
        yield f"kvwire check '{joined}{mark}replay=tcp://HOST:PORT'    where it has a replay socket"
