"""``kvwire lookup``: what a correct consumer would hold for a prompt."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from kvwire.cli.doctor import heard
from kvwire.cli.hash import parse_tokens
from kvwire.cli.quantities import Seconds, Whole, Words
from kvwire.cli.screen import say_json, screen
from kvwire.conclusion.diagnosis.lookup import BlockLookup, Lookup, lookup
from kvwire.hashes.functions import Scope
from kvwire.judges.verdict import Exit
from kvwire.report.visible import visible
from kvwire.report.words import counted
from kvwire.standard import reading


@click.command("lookup")
@click.argument("name", metavar="TARGET")
@click.option(
    "--tokens", required=True, help="Token ids of the prompt, separated by commas; @FILE reads them from a file."
)
@click.option("--stream", help="Only this stream.")
@click.option("--block-size", type=Whole(min=1), help="Tokens of a block (what the stream announces).")
@click.option("--lora-id", type=Whole(min=0, max=2**64 - 1), help="LoRA id of the prompt.")
@click.option("--lora-name", type=Words(), help="LoRA name of the prompt.")
@click.option(
    "--hash-seed", "seeds", type=Words(), multiple=True, metavar="SEED", help="A PYTHONHASHSEED to try; repeatable."
)
@click.option("--for", "seconds", type=Seconds(min=0.1), default=10.0, help="Seconds to listen (10).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a stream.")
def lookup_command(
    name: str,
    tokens: str,
    stream: str | None,
    block_size: int | None,
    lora_id: int | None,
    lora_name: str | None,
    seeds: tuple[str, ...],
    seconds: float,
    as_json: bool,
) -> int:
    """Look a prompt up as a correct consumer of TARGET would, block by block and medium by medium.

    \b
    kvwire lookup run.kvtrace --tokens 1,2,3,4,5,6,7,8
    kvwire lookup 'zmq:tcp://HOST:5557' --tokens @prompt.txt --lora-name adapter

    TARGET is a recording or a publisher, which is listened to: what it stored before is not known. Exit codes: 0 the
    first block is held somewhere, 1 it is held nowhere, 2 usage, 3 nothing was heard, or the prompt fills no block, 130
    interrupted.
    """  # noqa: D301 - click reads the \b
    prompt = _prompt(tokens)
    trace = heard(name, seconds)
    streams = [info for info in trace.header.streams if stream in (None, info.name)]
    if not streams:
        known = ", ".join(info.name for info in trace.header.streams)
        raise click.UsageError(f"--stream {stream}: no such stream; there are {known}")
    scope = Scope(lora_id, lora_name)
    found = [lookup(trace, info, prompt, block_size=block_size, scope=scope, seeds=seeds) for info in streams]
    for one in found:
        if as_json:
            say_json(one)
        else:
            _show(one, len(prompt))
    if trace.interrupted:
        return Exit.INTERRUPTED
    if not any(one.blocks for one in found):
        return Exit.INCONCLUSIVE
    return Exit.CONFORMANT if any(one.anywhere for one in found) else Exit.NOT_CONFORMANT


def _prompt(text: str) -> list[int]:
    if text.startswith("@"):
        try:
            text = reading.content(Path(text[1:]), 16 * reading.MIB).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise click.UsageError(f"--tokens {text}: {error}") from None
    tokens = [token for token in parse_tokens(text) if isinstance(token, int)]
    if any(not 0 <= token < 2**64 for token in tokens):
        raise click.UsageError("--tokens: a token id is outside 0…2^64−1")
    return tokens


def _show(found: Lookup, tokens: int) -> None:
    console = screen()
    if not found.block_size:
        console.print(Text(f"{visible(found.stream)}: no block was announced", style="bold yellow"))
        return
    full = len(found.blocks)
    if not full:
        short = f"{counted(tokens, 'tokens')}, {found.block_size} a block: no full block to look up"
        console.print(Text(visible(f"{found.stream}: {short}"), style="bold yellow"))
        return
    hits = ", ".join(f"{count} on {medium}" for medium, count in found.hits.items()) or "none"
    sizes = f"{counted(full, 'blocks')} ({tokens} tokens, {found.block_size} a block)"
    said = f"{found.stream}: of {sizes} held from the first on: {hits}"
    console.print(Text(visible(said), style="bold green" if found.anywhere else "bold red"))
    if found.uncertain:
        console.print(Text(visible(f"  {found.uncertain}"), style="yellow"))
    if found.function is None:
        console.print(Text("  no known hash function: blocks are found by the tokens that they were announced with"))
    else:
        seed = "" if found.function.seed is None else f" with PYTHONHASHSEED={found.function.seed}"
        console.print(
            Text(f"  {found.function.function}{seed}, as {found.function.blocks} of {found.function.tried} hashes show")
        )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("block", "tokens from", "hash", "where, and why not"):
        table.add_column(column, overflow="fold", no_wrap=column != "where, and why not")
    for block in found.blocks:
        table.add_row(str(block.index), str(block.first_token), _hash(block), Text(visible(_where(block))))
    console.print(table)


def _hash(block: BlockLookup) -> str:
    if block.announced and block.computed is not None and block.computed not in block.announced:
        return f"{block.announced[0]} (computed: {block.computed})"
    return str(block.announced[0] if block.announced else block.computed if block.computed is not None else "?")


def _where(block: BlockLookup) -> str:
    if not block.held:
        return block.why
    return ", ".join(f"{held.place.medium} group {held.place.group} (number {held.stored})" for held in block.held)
