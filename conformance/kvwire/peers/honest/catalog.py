"""All honest peers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from kvwire.peers import honest
from kvwire.peers.adapter import Peer
from kvwire.peers.honest.mark import Honest, declared
from kvwire.peers.mutants import MUTANTS
from kvwire.standard.prose import Problem
from kvwire.standard.registry import Registry

APART = ("mark", "catalog", "hashers", "__main__")
"""Modules that bring no peer."""


def _load() -> Mapping[str, Honest]:
    for module in iter_modules(honest.__path__):
        if module.name not in APART:
            import_module(f"{honest.__name__}.{module.name}")
    return dict(sorted(declared.items()))


HONEST: Mapping[str, Honest] = _load()
"""Every honest peer by name."""


def peer_of(name: str, **chosen_fields: Any) -> Peer:
    """The peer of one of them; what it sets prevails over what the user chose."""
    return Peer(**{"name": f"honest {name}", **chosen_fields, **HONEST[name].peer})


def problems(peers: Collection[Honest], known: Registry) -> list[Problem]:
    """What is said of honest peers and does not fit the standard."""
    return [
        Problem(f"conformance/{peer.module.replace('.', '/')}.py", 0, "", f"honest peer {peer.name}: {fault}")
        for peer in peers
        for fault in _faults(peer, known)
    ]


def _faults(peer: Honest, known: Registry) -> Iterator[str]:
    for name in sorted({*frozenset[str]().union(*peer.passes.values()), *peer.open, *peer.breaks}):
        if name not in known:
            yield f"there is no {name}"
        elif not known[name].judged:
            yield f"{name} is not judged"
    if peer.name in MUTANTS:
        yield "a mutant has that name"
