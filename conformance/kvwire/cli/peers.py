"""``kvwire serve``, ``kvwire mutants`` and ``kvwire honest``: the publishers of ours."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from kvwire.attack.endings import SIGNALS, Endings
from kvwire.cli.credentials import KEYS, serving
from kvwire.cli.quantities import Named, Seconds, Whole
from kvwire.cli.screen import say, say_json, screen, wrote
from kvwire.judges.verdict import Exit
from kvwire.standard import registry
from kvwire.standard.registry import LEVELS
from kvwire_reference.hashing import ALGORITHMS

MOST_AGAIN = 0.05
"""The share of mutants that may be heard only when they are run again."""

if TYPE_CHECKING:
    from types import FrameType

    from kvwire.peers.mutant import Mutant
    from kvwire.selftest.honest import Quiet
    from kvwire.selftest.matrix import Row


@click.command()
@click.option("--endpoint", default="tcp://127.0.0.1:5557", show_default=True, help="Where rank 0 publishes.")
@click.option("--replay", default="tcp://127.0.0.1:5657", show_default=True, help="Replay socket, or `none`.")
@click.option("--topic", default="kv-events", show_default=True, help="Topic of every message.")
@click.option("--rank", default=0, show_default=True, type=Whole(min=0), help="Global rank.")
@click.option("--algorithm", default="v2_sha256_64/u32", show_default=True, type=click.Choice(tuple(ALGORITHMS)))
@click.option("--block-size", default=16, show_default=True, type=Whole(min=1), help="Tokens of a block.")
@click.option("--capacity", default=256, show_default=True, type=Whole(min=1), help="Blocks in the cache.")
@click.option("--rate", default=50.0, show_default=True, type=Seconds(min=0.1), metavar="N", help="Prompts a second.")
@KEYS
@click.option("--curve-allow", "allow", type=Named(dir_okay=False), help="Who may connect: a public CURVE key a line.")
@click.option("--wildcard", is_flag=True, help="Permit an endpoint on every interface: prompts become readable there.")
def serve(
    endpoint: str,
    replay: str,
    topic: str,
    rank: int,
    algorithm: str,
    block_size: int,
    capacity: int,
    rate: float,
    keys: Path | None,
    allow: Path | None,
    wildcard: bool,
) -> None:
    """Run the reference publisher with a workload of made-up prompts, until stopped (Ctrl-C)."""
    import random
    import signal
    import time

    from kvwire_reference.cache import CacheConfig, CacheEngine
    from kvwire_reference.endpoints import EndpointError
    from kvwire_reference.publisher import PublisherConfig, ZmqPublisher

    config = PublisherConfig(
        endpoint=endpoint,
        replay_endpoint=None if replay == "none" else replay,
        topic=topic,
        rank=rank,
        world_size=rank + 1,
        wildcard=wildcard,
        curve=serving(keys, allow),
    )
    try:
        publisher = ZmqPublisher(config)
        publisher.start()
    except EndpointError as error:
        raise click.UsageError(str(error)) from None
    stopping = False

    def stop(_: int, __: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    engine = CacheEngine(publisher, CacheConfig(block_size=block_size, capacity=capacity, algorithm=algorithm))
    where = f"zmq:{publisher.endpoint}?topic={topic}" + (
        f"&replay={publisher.replay_endpoint}" if publisher.replay_endpoint else ""
    )
    say(f"kvwire check '{where}'")
    random_ = random.Random(1)
    prefixes = [[random_.randrange(100_000) for _ in range(4 * block_size)] for _ in range(8)]
    try:
        for turn in itertools.count():
            if stopping:
                break
            if turn % 500 == 499:
                engine.reset()
            prompt = random_.choice(prefixes) + [
                random_.randrange(100_000) for _ in range(random_.randrange(4 * block_size))
            ]
            engine.insert(prompt, lora_id=7 if turn % 10 == 3 else None)
            engine.flush()
            time.sleep(1 / rate)  # the pace of the workload, not an oracle
    finally:
        publisher.shutdown()
        for number, handler in before.items():
            signal.signal(number, handler)
    counters = publisher.counters
    say(f"stopped: {counters.offered} batches offered, {counters.sent} sent, {counters.dropped} dropped")


@click.group()
def mutants() -> None:
    """The mutants: the reference with one known fault each."""


@mutants.command("list")
@click.argument("names", nargs=-1, metavar="[ID]...")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option("--reports", "by_report", is_flag=True, help="By public report: which mutants reproduce it.")
def list_command(names: tuple[str, ...], as_json: bool, by_report: bool) -> None:
    """List every mutant, the sentence it breaks, and what else must speak; or those made for these ids and areas."""
    from kvwire.peers.mutants import MUTANTS

    try:
        wanted = registry.load().select(names)
    except registry.UnknownNameError as error:
        raise click.UsageError(str(error)) from None
    chosen = [mutant for mutant in MUTANTS.values() if not names or mutant.primary in wanted]
    if by_report:
        _reports(chosen, as_json)
    elif as_json:
        for mutant in chosen:
            expected = {level: sorted(mutant.expected[level]) for level in LEVELS}
            say_json(
                {
                    "name": mutant.name,
                    "primary": mutant.primary,
                    "change": mutant.change,
                    "reports": mutant.reports,
                    "expected": expected,
                }
            )
    else:
        rows = []
        for mutant in chosen:
            others = sorted({i.removeprefix("KVW-") for level in LEVELS for i in mutant.expected[level]})
            others.remove(mutant.primary.removeprefix("KVW-"))
            rows.append((mutant.name, mutant.primary, mutant.levels[0], mutant.change, " ".join(others)))
        _table(("mutant", "breaks", "seen when", "change", "also"), rows)


def _reports(chosen: Sequence[Mutant], as_json: bool) -> None:
    """The museum: each public report, and the mutants that do what it tells."""
    from kvwire.peers.mutants import MUTANTS

    by_report: dict[str, list[str]] = {}
    for mutant in chosen:
        for report in mutant.reports:
            by_report.setdefault(report, []).append(mutant.name)
    if as_json:
        for report, names in sorted(by_report.items()):
            say_json({"report": report, "mutants": names})
        return
    rows = [
        (report if at == 0 else "", name, MUTANTS[name].primary, MUTANTS[name].change)
        for report, names in sorted(by_report.items())
        for at, name in enumerate(names)
    ]
    _table(("report", "mutant", "breaks", "change"), rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, no_wrap=name in ("mutant", "peer", "breaks", "report", "sentence"), overflow="fold")
    for row in rows:
        table.add_row(*row)
    screen().print(table)


def _known(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Mutants and honest peers of these names, or all."""
    from kvwire.peers.honest.catalog import HONEST
    from kvwire.peers.mutants import MUTANTS

    for name in names:
        if name not in MUTANTS and name not in HONEST:
            raise click.BadParameter(
                f"there is no mutant {name!r}, and no honest peer of that name; `kvwire mutants list` and "
                "`kvwire honest list` show them all"
            )
    return names or (*MUTANTS, *HONEST)


@mutants.command("matrix")
@click.argument("names", nargs=-1, metavar="[NAME]...", callback=_known)
@click.option("--json", "json_file", type=Named(dir_okay=False), help="Store every cell there.")
@click.option("--processes", default=2, show_default=True, type=Whole(min=1), help="Runs at a time.")
@click.option("--keep", type=Named(file_okay=False), help="Keep the traces of what is not exact.")
@click.option("--again", default=0, show_default=True, type=Whole(min=0), help="Further runs of what is not.")
@click.option("--without-session", is_flag=True, help="Only those that no small run of the tests hears.")
def matrix_command(
    names: tuple[str, ...], json_file: Path | None, processes: int, keep: Path | None, again: int, without_session: bool
) -> None:
    """Run both control groups, or those named: mutants are heard for what they break, honest peers for nothing.

    Each run is judged at every level of control, and once more from its stored trace, to the same result; that of an
    honest peer also as witnesses have it that missed something. Ends with 1 if anything was not exactly as
    `mutants list` and `honest list` say it must be, or more than a twentieth was so only when run again; with 130
    when it was interrupted, and then tells what was done.
    """
    from kvwire.peers.honest.catalog import HONEST
    from kvwire.peers.mutants import MUTANTS
    from kvwire.selftest import honest, matrix

    broken = tuple(name for name in names if name in MUTANTS)
    quiet = tuple(name for name in names if name in HONEST)
    if without_session:
        broken, quiet = tuple(name for name in broken if isinstance(MUTANTS[name].session, str)), ()
    silent: list[Quiet] = []
    with Endings():
        rows, whole = matrix.measured(broken, processes, _progress, keep, again)
        if whole:
            silent, whole = honest.measured(quiet, processes, _quiet, keep, again)
    done = matrix.matrix_of(rows)
    if json_file is not None:
        stored = {**msgspec.to_builtins(done), "honest": msgspec.to_builtins(silent)}
        wrote([(json_file, msgspec.json.format(msgspec.json.encode(stored), indent=1) + b"\n")])
    if done.rows:
        table = [
            (requirement, *(str(count[cell] or "") for cell in matrix.CELLS), " ".join(primary))
            for requirement, count, primary in matrix.by_requirement(done)
        ]
        _table(("sentence", *matrix.CELLS, "made for it"), table)
    exact = _summary(done.rows, "mutants were heard for what they break, and for nothing else")
    peaceful = _summary(silent, "honest peers passed what they must, and nobody spoke of them")
    retried = [row.mutant for row in done.rows if row.exact and row.runs > 1]
    retried += [row.name for row in silent if row.exact and row.runs > 1]
    most = max(1, round(MOST_AGAIN * (len(done.rows) + len(silent))))
    if again:
        listed = f": {' '.join(retried)}" if retried else ""
        say(f"{len(retried)} of them not at once, but when run again, and {most} may be{listed}")
    if not whole:
        say(f"interrupted: {len(done.rows) + len(silent)} of {len(broken) + len(quiet)} were run")
        raise SystemExit(Exit.INTERRUPTED)
    if done.without:
        say(f"judged, and broken by no mutant: {' '.join(done.without)}")
    if not (exact and peaceful) or len(retried) > most:
        raise SystemExit(Exit.NOT_CONFORMANT)


def _summary(rows: Sequence[Row] | Sequence[Quiet], what: str) -> bool:
    """Say how many of a group are as they must be; whether all are."""
    exact = sum(row.exact for row in rows)
    if rows:
        say(f"{exact} of {len(rows)} {what}")
    if retried := [row.name for row in rows if row.exact and row.runs > 1]:
        say(f"not at once, but when run again: {' '.join(retried)}")
    return exact == len(rows)


def _progress(row: Row) -> None:
    wrong = [
        f"{level}: {requirement} {cell}"
        for level, cells in row.cells.items()
        for requirement, cell in cells.items()
        if cell != "killed"
    ]
    said = "; ".join([*wrong, *row.troubles, *row.amiss]) or "killed"
    say(f"{row.mutant}: {said} ({row.seconds:.1f} s)", err=True)


def _quiet(row: Quiet) -> None:
    say(f"{row.peer}: {'; '.join(row.said) or 'silence'} ({row.seconds:.1f} s)", err=True)


@click.group()
def honest() -> None:
    """The honest peers: publishers that keep the standard and are unlike the reference."""


@honest.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def honest_list(as_json: bool) -> None:
    """List every honest peer, what is unlike the reference, and what it must pass and may leave open."""
    from kvwire.peers.honest.catalog import HONEST

    if as_json:
        for peer in HONEST.values():
            say_json(
                {
                    "name": peer.name,
                    "unlike": peer.unlike,
                    "profile": peer.profile,
                    "passes": {level: sorted(peer.passes[level]) for level in LEVELS},
                    "open": sorted(peer.open),
                    "breaks": sorted(peer.breaks),
                    "reason": peer.reason,
                }
            )
        return
    rows = [
        (peer.name, peer.unlike, *(_short(ids) for ids in (peer.passes["driven"], peer.open, peer.breaks)))
        for peer in HONEST.values()
    ]
    _table(("peer", "unlike the reference", "passes", "may leave open", "breaks"), rows)


def _short(ids: Iterable[str]) -> str:
    return " ".join(sorted(i.removeprefix("KVW-") for i in ids))
