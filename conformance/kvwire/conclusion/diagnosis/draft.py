"""A draft of a conformance statement: what was seen, for the publisher's people to confirm."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from kvwire.conclusion.diagnosis.stream_profile import StreamProfile
from kvwire.hashes.functions import LABELS

ENOUGH = 8
"""So many recomputed blocks are enough to name a function in a draft."""


def draft(profiles: Sequence[StreamProfile]) -> str:
    """TOML that `kvwire check FILE.toml` takes; comments say what it was taken from and what nobody can see."""
    return "\n".join(_lines(profiles)) + "\n"


def _lines(profiles: Sequence[StreamProfile]) -> Iterator[str]:
    heard = [profile for profile in profiles if profile.batches]
    yield "# What was seen on the stream. Confirm each line: what is declared is judged."
    yield 'edition = "1"'
    forms = {form for profile in heard for form in profile.forms}
    if len(forms) == 1 and (form := forms.pop()) in ("map", "array-v", "array-s"):
        yield f"form = {json.dumps(form)}"
    found = {profile.function.function: profile.function for profile in heard if profile.function is not None}
    if len(found) == 1:
        function = next(iter(found.values()))
        if function.function in LABELS and not function.mistake and function.seed is None:
            sign = "" if function.blocks >= ENOUGH else "# "
            counted = f"{function.blocks} of {function.tried} recomputed"
            yield f"{sign}algorithm = {json.dumps(function.function)}  # {counted}"
        else:
            yield '# algorithm = "opaque"  # the hashes have a seed, or are a known mistake: see the diagnosis'
    sizes = {size for profile in heard for size in profile.block_sizes}
    if len(sizes) == 1:
        yield f"block_size = {sizes.pop()}"
    clear = any("salt in clear" in profile.scopes for profile in heard)
    if clear or any(profile.scopes for profile in heard):
        yield f"salt = {json.dumps('clear' if clear else 'tag')}"
    yield "# ring = 10000         # batches retained for replay: not to be seen from outside"
    yield '# residency = "set"    # or refresh, counted'
    groups = {group.idx: group for profile in heard for group in profile.groups}
    if len(groups) > 1 or any(group.kinds for group in groups.values()):
        for idx, group in sorted(groups.items()):
            yield ""
            yield "[[groups]]"
            yield f"idx = {idx}"
            if len(group.kinds) == 1:
                yield f"kind = {json.dumps(group.kinds[0])}"
            if len(group.windows) == 1:
                yield f"window = {group.windows[0]}"
            if len(sizes) != 1 and len(group.block_sizes) == 1:
                yield f"block_size = {group.block_sizes[0]}"
    for profile in profiles:
        yield ""
        yield "[[streams]]"
        yield f"name = {json.dumps(profile.name)}"
        yield f"endpoint = {json.dumps(profile.endpoint)}"
        if profile.replay is not None:
            yield f"replay = {json.dumps(profile.replay)}"
        if len(profile.topics) == 1:
            yield f"topic = {json.dumps(profile.topics[0])}"
        if len(profile.ranks) == 1 and profile.ranks[0] is not None:
            yield f"rank = {profile.ranks[0]}"
