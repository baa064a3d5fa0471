"""Every attack in turn, each held to its bounds; and the page that says so."""

from __future__ import annotations

import os
import platform
import signal
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import msgspec
import zmq

from kvwire.selftest.hostile.bench import MB, MEMORY_MB, Attack, Broken, bench, starved

HEAD = f"""\
# Robustness

Written by `kvwire selftest hostile --markdown docs/robustness.md` (`tox -e hostile`). Each row is an attack on the real
command line, in child processes. Time is by the wall clock, from the start of the command to its end; in brackets what
it took of processors, which alone is held against the bound while the machine has more to do than it has processors.
Memory is that of the whole tree, the command and all that it started: the sum of the proportional set sizes (PSS) in
`/proc`, looked at every 30 ms, the largest sum. It may be {MEMORY_MB} MB (10^6 bytes) unless the row argues for more.
A row is kept when time, memory, exit code and the sentence in the output are as they have to be, the output has no
traceback and no escape, and no process, folder or socket file is left behind.
"""
COLUMNS = ("attack", "what it does", "time", "memory", "exit", "says", "")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an attack; ``broken`` says what was not kept."""

    attack: Attack
    seconds: float = 0.0
    cpu: float = 0.0
    megabytes: float = 0.0
    exit: int | None = None
    broken: tuple[str, ...] = ()
    output: str = ""


def held(attack: Attack) -> Row:
    """Carry one attack out."""
    with bench(attack.seconds) as made:
        try:
            ran = attack.run(made)
        except Broken as error:
            return Row(attack=attack, broken=(str(error),))
    broken = []
    if ran.exit is None:
        broken.append("it had to be killed")
    elif ran.exit not in attack.exits:
        broken.append(f"exit code {ran.exit}, not {' or '.join(map(str, attack.exits))}")
    if ran.seconds > attack.seconds and not (starved() and ran.cpu <= attack.seconds):
        broken.append(f"{ran.seconds:.1f} s, more than {attack.seconds:g}")
    if ran.peak > attack.megabytes * MB:
        broken.append(f"{ran.peak / MB:.0f} MB, more than {attack.megabytes}")
    if " ".join(attack.says.split()) not in " ".join(ran.output.split()):  # lines are broken where a terminal ends
        broken.append(f"it did not say {attack.says!r}")
    if "Traceback (most recent call last)" in ran.output:
        broken.append("a traceback")
    if "\x1b" in ran.output:
        broken.append("an escape in the output")
    broken += [f"left behind: {what}" for what in ran.left]
    return Row(
        attack=attack,
        seconds=ran.seconds,
        cpu=ran.cpu,
        megabytes=ran.peak / MB,
        exit=ran.exit,
        broken=tuple(broken),
        output=ran.output,
    )


def rows(attacks: Sequence[Attack]) -> Iterator[Row]:
    """Carry them out, one after the other. What is attacked hears a closed terminal, also under `nohup`."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    return map(held, attacks)


def told(row: Row) -> str:
    """A row as a line."""
    attack = row.attack
    mark = "BROKEN" if row.broken else "kept"
    figures = (
        f"{row.seconds:6.1f} of {attack.seconds:g} s ({row.cpu:.1f} CPU) {row.megabytes:6.0f} of {attack.megabytes} MB"
    )
    line = f"{mark:6} {attack.on:9} {attack.name:32} {figures}  exit {row.exit}  {attack.says!r}"
    return "\n".join([line, *(f"       {why}" for why in row.broken)])


def page(found: Sequence[Row]) -> str:
    """All rows as Markdown, by what is attacked."""
    parts = [HEAD, f"{len(found)} attacks; {_machine()}; load {os.getloadavg()[0]:.0f} at the end.\n"]
    for on in dict.fromkeys(row.attack.on for row in found):
        cells = [COLUMNS, *(_cells(row) for row in found if row.attack.on == on)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [f"| {' | '.join(map(str.ljust, line, widths))} |" for line in cells]
        lines.insert(1, f"| {' | '.join('-' * width for width in widths)} |")
        parts.append(f"## {on}\n\n" + "\n".join(lines) + "\n")
        argued = (row.attack for row in found if row.attack.on == on and row.attack.argued)
        parts += [f"`{attack.name}`: {attack.argued}\n" for attack in argued]
    return "\n".join(parts)


def _cells(row: Row) -> tuple[str, ...]:
    attack = row.attack
    return (
        f"`{attack.name}`",
        attack.does.replace("|", "\\|"),
        f"{row.seconds:.1f} s ({row.cpu:.1f} CPU) ≤ {attack.seconds:g} s",
        f"{row.megabytes:.0f} ≤ {attack.megabytes} MB",
        str(row.exit),
        attack.says.replace("|", "\\|"),
        "**broken**: " + "; ".join(row.broken) if row.broken else "kept",
    )


def _machine() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    packages = [f"{name} {version(name)}" for name in ("kvwire", "msgspec", "pyzmq")]
    return ", ".join(
        [
            f"{os.cpu_count()} cores of {next(names, platform.processor() or 'an unknown processor')}",
            f"{platform.system()} {platform.machine()}",
            f"{platform.python_implementation()} {platform.python_version()}",
            *packages,
            f"libzmq {zmq.zmq_version()}",
        ]
    )
