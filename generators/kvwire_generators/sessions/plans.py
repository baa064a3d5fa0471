"""What is recorded for ``session/``, and which mutants are not: ``sessions.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from importlib import resources

import msgspec

from kvwire.peers.mutants import MUTANTS
from kvwire.standard.registry import ControlLevel
from kvwire.vectors.sessions import path_of

SMALL = "block_size=2&capacity=12"
FILE = "generators/kvwire_generators/sessions/sessions.toml"
PREFIX = "mutant-"
AT_WORK = "at-work:"
"""The target of publishers in this process that nobody drives; options: `ranks`, `ring`, `queue`, `burst`."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One session: what is run, with which probes and limits, and what is kept of it.

    A mutant is its own ``target``, which takes ``options``, and says what it changes. ``left_out``: why there is no
    such session.
    """

    comment: str = ""
    target: str = ""
    options: str = SMALL
    probes: tuple[str, ...] = ("live", "reset")
    level: ControlLevel = "driven"
    profile: str = "replay"
    requirements: tuple[str, ...] = ()
    limits: dict[str, int | float] = {}
    left_out: str = ""


def plans() -> dict[str, Plan]:
    """Every recorded session by name, and every mutant that has none, with the reason."""
    raw = tomllib.loads(
        resources.files("kvwire_generators.sessions").joinpath("sessions.toml").read_text(encoding="utf-8")
    )
    found = msgspec.convert(raw, dict[str, Plan])
    return {
        name: plan if plan.target else msgspec.structs.replace(plan, target=f"mutant:{name.removeprefix(PREFIX)}")
        for name, plan in found.items()
    }


def mutant_of(name: str) -> str | None:
    """The mutant that a session shows."""
    mutant = name.removeprefix(PREFIX)
    return mutant if mutant != name and mutant in MUTANTS else None


def problems(paths: Collection[str]) -> list[str]:
    """Mutants that have neither a session (of these paths) nor a reason, and plans of which there is no session."""
    known = plans()
    found = [
        f"{FILE}: [{PREFIX}{mutant}]: mutant {mutant} of {what.primary} has no session: "
        "add this section, with `left_out` if there can be none"
        for mutant, what in MUTANTS.items()
        if f"{PREFIX}{mutant}" not in known
    ]
    found += [
        f"vectors/{path_of(name)}: the session is missing: run `python -m kvwire_generators record {name}`"
        for name, plan in known.items()
        if not plan.left_out and path_of(name) not in paths
    ]
    found += [
        f"{FILE}: [{name}]: there is no such mutant: correct the name, or remove the section"
        for name in known
        if name.startswith(PREFIX) and mutant_of(name) is None
    ]
    return found


def coverage(count: int) -> str:
    """What ``COVERAGE.md`` says of sessions: how many there are, and why some mutants have none."""
    left_out = [(name, plan.left_out) for name, plan in plans().items() if plan.left_out]
    lines = ["", "## Sessions", "", f"Sessions: {count}. Every mutant has one but these:", ""]
    return "\n".join([*lines, *(f"- `{name.removeprefix(PREFIX)}`: {why}" for name, why in left_out)]) + "\n"
