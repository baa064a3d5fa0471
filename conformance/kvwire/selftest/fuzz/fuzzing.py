"""The loop: a seed and a number give the same input again."""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kvwire.selftest.fuzz.targets import Target

SLOW_S = 20.0
"""Longer than so many seconds (of the process) for one input is a finding."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """An input that was not met as it should be: what happened, in which line of ours, and the input."""

    target: str
    seed: int
    number: int
    what: str
    where: str
    content: bytes


def fuzz(
    target: Target, seed: int, seconds: float, *, first: int = 0, at_most: int | None = None
) -> Iterator[Finding | int]:
    """Run a target for so many seconds: findings as they come, at last the number of inputs. Equal faults come once.

    ``first`` is the number of the first input, ``at_most`` how many there are.
    """
    seeds = target.seeds()
    until, seen, number = time.monotonic() + seconds, set[str](), first
    while time.monotonic() < until and (at_most is None or number - first < at_most):
        chance = random.Random(f"{target.name}-{seed}-{number}")
        content = target.mutate(chance.choice(seeds), chance)
        before = time.process_time()
        what = where = ""
        try:
            target.run(content)
        except target.clear as error:
            if not str(error):
                what, where = f"{type(error).__name__} without a word", target.name
        except Exception as error:  # noqa: BLE001 - every other one is what is looked for
            what = f"{type(error).__name__}: {str(error)[:200]}"
            where = _where(error)
        spent = time.process_time() - before
        if not what and spent > SLOW_S:
            what, where = f"took {spent:.0f} s", target.name
        if what and (fault := f"{what.partition(':')[0]} {where}") not in seen:
            seen.add(fault)
            yield Finding(target=target.name, seed=seed, number=number, what=what, where=where, content=content)
        number += 1
    yield number - first


def _where(error: Exception) -> str:
    """The innermost line of ours."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/kvwire" in frame.filename]
    frame = (ours or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
