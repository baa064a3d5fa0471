"""``kvwire selftest``: for those who change kvwire, in a checkout."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from kvwire.cli.quantities import Named, Seconds, Whole
from kvwire.cli.screen import say
from kvwire.judges.verdict import Exit
from kvwire.selftest import compare as comparing
from kvwire.selftest.compare import EXAMPLES, CompareError
from kvwire.standard import resources

_FOLDER = Named(exists=True, file_okay=False)


@click.group()
def selftest() -> None:
    """Test the tester (in a checkout)."""


def _home() -> Path:
    """The checkout around this package.

    Raises:
        click.UsageError: when there is none.
    """
    home = resources.vectors().parent
    if not (home / ".git").exists():
        raise click.UsageError("this works in a git checkout of kvwire, with an editable install: pip install -e .")
    return home


@selftest.command()
@click.argument("before", default="HEAD")
@click.argument("after", default=".")
@click.option("--traces", "folders", multiple=True, type=_FOLDER, help="Judge these traces too; repeatable.")
def compare(before: str, after: str, folders: tuple[Path, ...]) -> int:
    """Judge every stored trace by two commits and say where they differ (`.`: the working tree).

    Judged are the session vectors, the stored traces of real implementations, and *.kvtrace below --traces. Ends
    with 1 when a verdict, a count, a finding, a note or a summary is not the same to the byte.

    \b
    kvwire selftest compare                what the uncommitted change does to verdicts
    kvwire selftest compare v0.1.0 HEAD    what everything since has done
    """  # noqa: D301 - click reads the \b
    home = _home()
    stored = [home / "vectors" / "session", *sorted((home / "implementations").glob("*/traces"))]
    try:
        result = comparing.compare(home, before, after, [*stored, *folders])
    except CompareError as error:
        raise click.UsageError(str(error)) from None
    say(f"{result.traces} traces, {result.outcomes} outcomes, judged by {before} and {after}")
    for title, only in ((before, result.only_before), (after, result.only_after)):
        if only:
            fields = ", ".join(f"{field} ×{count}" for field, count in only.items())
            say(f"fields that {title} alone knows, not compared: {fields}")
    if not result.differences:
        say(f"no difference: sha256 {result.digests[0]}")
        return Exit.CONFORMANT
    shown: Counter[str] = Counter()
    for difference in result.differences:
        shown[difference.trace] += 1
        if shown[difference.trace] <= EXAMPLES:
            say(f"{difference.trace}: {difference.line}: {difference.field}: {difference.before} → {difference.after}")
        elif shown[difference.trace] == EXAMPLES + 1:
            say(f"{difference.trace}: … more")
    say(f"{len(result.differences)} differences in {len(shown)} of {result.traces} traces")
    return Exit.NOT_CONFORMANT


@selftest.command()
@click.argument("names", nargs=-1, metavar="[TARGET]...")
@click.option("--seconds", type=Seconds(min=0.1), default=10.0, help="For each target (10).")
@click.option("--seed", type=Whole(), default=1, help="Another seed gives other inputs (1).")
@click.option("--inputs", type=Whole(min=1), help="So many inputs of each target at most, and no more.")
@click.option("--keep", type=Named(file_okay=False), help="Put inputs that were met badly here.")
def fuzz(names: tuple[str, ...], seconds: float, seed: int, inputs: int | None, keep: Path | None) -> int:
    """Feed mutated data to everything that reads what strangers wrote; ends with 1 when something has no clear error.

    TARGET is one of payload, trace, container, compressed, capture, scrub, result, statement, expected-failures,
    expectation, vectors, answers, replay-client, consumer, router and target; all of them if none is named.
    """
    from kvwire.selftest.fuzz import TARGETS, Finding
    from kvwire.selftest.fuzz import fuzz as run

    known = {target.name: target for target in TARGETS}
    if unknown := [name for name in names if name not in known]:
        raise click.UsageError(f"no target {unknown[0]!r}; there are {', '.join(known)}")
    bad = 0
    for name in names or known:
        for found in run(known[name], seed, seconds, at_most=inputs):
            if not isinstance(found, Finding):
                say(f"{name}: {found} inputs")
                continue
            bad += 1
            say(f"{name}, seed {found.seed}, number {found.number}: {found.what} in {found.where}")
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{name}-{found.seed}-{found.number}").write_bytes(found.content)
    return Exit.NOT_CONFORMANT if bad else Exit.CONFORMANT


@selftest.command()
@click.option("--quick", is_flag=True, help="Only those that take little time.")
@click.option("--only", multiple=True, metavar="NAME", help="Only this attack, or all on this sort; repeatable.")
@click.option("--markdown", type=Named(dir_okay=False), help="Write the page there.")
def hostile(*, quick: bool, only: tuple[str, ...], markdown: Path | None) -> int:
    """Attack kvwire and see whether its bounds hold: time, memory of all processes, exit code, what it says.

    NAME is an attack, or what attacks: publisher, replay, adapter, file, statement, argument, signal, output, client.
    Ends with 1 when one bound broke.
    """
    from kvwire.selftest.hostile.catalog import ATTACKS
    from kvwire.selftest.hostile.suite import page, rows, told

    names = {attack.name for attack in ATTACKS} | {attack.on for attack in ATTACKS}
    if unknown := [name for name in only if name not in names]:
        raise click.UsageError(f"no attack {unknown[0]!r}; there are {', '.join(sorted(names))}")
    wanted = [
        attack for attack in ATTACKS if (attack.quick or not quick) and (not only or {attack.name, attack.on} & {*only})
    ]
    found = []
    for row in rows(wanted):
        click.echo(told(row))
        found.append(row)
    if markdown is not None:
        markdown.write_text(page(found), encoding="utf-8")
    broken = sum(bool(row.broken) for row in found)
    click.echo(f"{len(found)} attacks, {broken} broken")
    return Exit.NOT_CONFORMANT if broken else Exit.CONFORMANT
