"""The mutants: the reference with one small named change each, and the verdicts that each must get, exactly.

The marks of their classes, in the modules ``*_faults``, say what a mutant changes, the sentence that it breaks, what
else must speak and why; CI compares the sets both ways, on the live run and on its stored trace. A crash is not a kill.
At a level where the change cannot be seen nobody may speak.

``python -m kvwire.peers.mutants NAME`` serves one, driven by the adapter protocol.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from kvwire import peers
from kvwire.peers.adapter import Peer, chosen, options, serve
from kvwire.peers.mutant import Mutant, declared
from kvwire.standard.prose import Problem
from kvwire.standard.registry import AREAS, Registry, profile

REPORT = re.compile(r"[A-Za-z0-9_.-]+#\d+")


def _load() -> Mapping[str, Mutant]:
    for module in iter_modules(peers.__path__):
        if module.name.endswith("_faults"):
            import_module(f"{peers.__name__}.{module.name}")
    return dict(sorted(declared.items(), key=lambda item: _order(item[1].primary)))


def _order(requirement: str) -> tuple[int, str]:
    area = requirement.split("-")[1]
    return AREAS.index(area) if area in AREAS else len(AREAS), requirement


MUTANTS: Mapping[str, Mutant] = _load()
"""Every mutant by name, in the order of the areas and of the sentences that they break."""


def killed_by(requirement: str) -> tuple[Mutant, ...]:
    """The mutants whose primary sentence this is."""
    return tuple(mutant for mutant in MUTANTS.values() if mutant.primary == requirement)


def problems(mutants: Collection[Mutant], known: Registry) -> list[Problem]:
    """What is said of mutants and does not fit the standard, and judged sentences that none of them breaks."""
    found = [
        Problem(
            f"conformance/{mutant.module.replace('.', '/')}.py", 0, mutant.primary, f"mutant {mutant.name}: {fault}"
        )
        for mutant in mutants
        for fault in _faults(mutant, known)
    ]
    broken = {mutant.primary for mutant in mutants}
    missing = [
        requirement.id
        for requirement in known.binding("publisher")
        if requirement.judged and requirement.level != "MAY" and requirement.id not in broken
    ]
    return found + [
        Problem(
            "conformance/kvwire/peers",
            0,
            name,
            f"it is judged, and no mutant breaks it: mark one with `@mutant(…, breaks={name.removeprefix('KVW-')!r})`",
        )
        for name in missing
    ]


def _faults(mutant: Mutant, known: Registry) -> Iterator[str]:
    spoken = frozenset[str]().union(*mutant.expected.values())
    others = sorted(spoken - {mutant.primary})
    for name in sorted({mutant.primary, *others}):
        if name not in known:
            yield f"there is no {name}"
        elif not known[name].judged:
            yield f"{name} is not judged"
    if mutant.primary not in spoken:
        yield "at no level does anybody speak of what it breaks"
    if others and not mutant.reason:
        yield f"reason is missing: why does anybody speak of {', '.join(others)}?"
    if len(set(mutant.reports)) < len(mutant.reports):
        yield "it names a report twice"
    for report in mutant.reports:
        if not REPORT.fullmatch(report):
            yield f"{report!r} is no report: write repository#number"


def profile_of(mutant: Mutant) -> str:
    """The profile that a mutant claims and is held to: one that has the sentence that it breaks."""
    if mutant.peer.get("multimodal"):
        return "multimodal+replay"
    return "replay" if mutant.primary in profile("replay").ids else "ranks+replay"


def peer_of(name: str, **chosen_fields: Any) -> Peer:
    """The peer of one mutant; what the mutant sets prevails over what the user chose."""
    mutant = MUTANTS[name]
    statement = {"profile": profile_of(mutant), **mutant.peer.get("statement", {})}
    return Peer(**{"name": f"mutant {name}", **chosen_fields, **mutant.peer, "statement": statement})


def main(argv: list[str] | None = None) -> None:
    """Serve one mutant."""
    parser = argparse.ArgumentParser(description="The reference with one small change.")
    parser.add_argument("name", choices=tuple(MUTANTS), metavar="NAME")
    options(parser)
    arguments = parser.parse_args(argv)
    serve(peer_of(arguments.name, **chosen(arguments)))


if __name__ == "__main__":
    main()
