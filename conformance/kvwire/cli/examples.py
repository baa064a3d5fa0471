"""An example under the help of each command that has none in its words."""

from __future__ import annotations

from collections.abc import Iterator

import click

EXAMPLES = {
    "baseline": "kvwire check TARGET --json run.json; kvwire baseline update kvwire.toml run.json",
    "baseline update": "kvwire baseline update kvwire-expected.toml run.json",
    "convert": "kvwire convert kv.mcap -o kv.kvtrace",
    "explain": "kvwire explain SEQ-004",
    "honest": "kvwire check honest:paged",
    "honest list": "kvwire honest list --json",
    "judge": "kvwire judge recordings --workers 4 --json fleet.ndjson",
    "list": "kvwire list SEQ REP-008 --profile replay",
    "mutants": "kvwire check mutant:integer-ts",
    "mutants list": "kvwire mutants list SEQ --reports",
    "mutants matrix": "kvwire mutants matrix integer-ts --keep traces",
    "record": "kvwire record 'zmq:tcp://HOST:5557' -o long.mcap --rotate 1GB --for 7d",
    "scrub": "kvwire scrub kv.mcap -o shared.kvtrace",
    "selftest": "kvwire selftest compare v0.1.0 HEAD",
    "selftest hostile": "kvwire selftest hostile --only publisher --quick",
    "selftest fuzz": "kvwire selftest fuzz --seconds 600 --seed 7",
    "serve": "kvwire serve --endpoint tcp://127.0.0.1:5557 --rate 10",
    "spec": "kvwire spec check",
    "spec build": "kvwire spec build",
    "spec check": "kvwire spec check",
    "spec release": "kvwire spec release",
    "vectors": "kvwire vectors export third_party/kvwire-vectors",
    "vectors export": "kvwire vectors export third_party/kvwire-vectors --only hash",
    "vectors list": "kvwire vectors list hash --ids",
    "vectors session": "kvwire vectors session eviction -o eviction.kvtrace",
    "vectors verify": "kvwire vectors verify --only hash -- python my_hashes.py",
    "verify": "kvwire verify run.json run.kvtrace",
    "watch": "kvwire watch fleet.toml 'zmq:tcp://HOST:5557?ranks=8' --metrics 9464",
}


def commands(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command below a group, with the words that call it."""
    for name, command in group.commands.items():
        words = f"{above} {name}".lstrip()
        yield words, command
        if isinstance(command, click.Group):
            yield from commands(command, words)


def show(group: click.Group) -> None:
    """Put the examples under the help of the commands of a group."""
    for words, command in commands(group):
        if words in EXAMPLES:
            command.epilog = f"\b\nExample: {EXAMPLES[words]}"
