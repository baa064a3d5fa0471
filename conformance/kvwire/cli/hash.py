"""``kvwire hash``: every function that a stream may use, on the command line, one JSON line per block."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from kvwire.cli.quantities import Whole, Words
from kvwire.cli.screen import say, say_json
from kvwire.conclusion.diagnosis.explanation import Asked, explain, none_of
from kvwire.conclusion.diagnosis.recognition import SEEDABLE, seeded
from kvwire.hashes.functions import QUALIFIED, TRUE, Block, Function, Scope, State, named
from kvwire.hashes.keys import plain_keys
from kvwire.judges.verdict import Exit
from kvwire_reference import hashing
from kvwire_reference.hashing import Algorithm, ChainState, RangeError, Token

SHOWN = 80
"""How many characters of a word are shown that is no token."""
BARE = "v2_sha256_64"
"""The label that does not say how wide a token is: either function of ``WIDTHS``."""
WIDTHS = (f"{BARE}/u32", f"{BARE}/u64")
ALGORITHMS = (*hashing.ALGORITHMS, BARE, "v2_sha256/u32", "v2_sha256/u64")
"""Those of the standard; ``v2_sha256`` is the full key, a label of the pull API and never a wire hash."""
FOREIGN = tuple(dict.fromkeys([*(f.label for f in TRUE if f.foreign), *sorted(QUALIFIED)]))
"""Those of others, by the labels that the judges know."""

Extra = tuple[tuple[Any, ...] | None, ...]
"""The extra keys of each block."""
Segments = tuple[tuple[tuple[bytes, int], ...], ...]
"""The multimodal keys of each block: digest and offset."""


class HashedBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line: the 64-bit hash unsigned and as it stands on the wire (signed), and the full 256-bit key if known.

    ``partial``: the block is not full. It has a hash, and is never announced on the wire. ``algorithm`` is said where
    several were asked for by one label.
    """

    block: int
    tokens: list[int | str]
    unsigned: str | None
    signed: str | None
    key: str | None
    partial: bool
    algorithm: str = ""


def parse_tokens(text: str) -> list[Token]:
    """Token ids separated by commas; a digest token is 64 hex digits.

    Raises:
        click.UsageError: when one is neither.
    """
    if not text.strip():
        raise click.UsageError("--tokens: no token; give them as 1,2,3,4")
    tokens: list[Token] = []
    for words in text.split(","):
        if not words.strip():
            raise click.UsageError(f"--tokens: no token stands behind number {len(tokens)}, where a comma does")
        for word in words.split():
            if re.fullmatch(r"[0-9a-fA-F]{64}", word):
                tokens.append(bytes.fromhex(word))
            elif re.fullmatch(r"-?[0-9]{1,40}", word):
                tokens.append(int(word))
            else:
                shown = word if len(word) <= SHOWN else word[: SHOWN - 1] + "…"
                raise click.UsageError(f"--tokens: {shown!r} is neither an integer nor a digest of 64 hex digits")
    return tokens


def parse_extra(text: str) -> Extra:
    """JSON: a list with a list or null for each block; bytes are ``{"hex": "…"}``.

    Raises:
        click.UsageError: when it is anything else.
    """
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()  # half a surrogate pair is no text
        keys = plain_keys(json.loads(text, object_hook=lambda value: bytes.fromhex(value["hex"])))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise click.UsageError(f"--extra-keys: no JSON of text, integers and lists: {error}") from None
    if not isinstance(keys, tuple) or not all(key is None or isinstance(key, tuple) for key in keys):
        raise click.UsageError("--extra-keys: a list with a list or null for each block, such as '[[\"salt\"], null]'")
    return keys


def parse_mm(texts: Sequence[str]) -> Segments:
    """``BLOCK:DIGEST@OFFSET``, one each, to the keys of each block.

    Raises:
        click.UsageError: when one is something else.
    """
    found: dict[int, list[tuple[bytes, int]]] = {}
    for text in texts:
        if (read := re.fullmatch(r"(\d{1,6}):([0-9a-fA-F]{64})@(\d{1,19})", text)) is None:
            raise click.UsageError(f"--mm: BLOCK:DIGEST@OFFSET with 64 hex digits, not {text!r}")
        found.setdefault(int(read[1]), []).append((bytes.fromhex(read[2]), int(read[3])))
    return tuple(tuple(found.get(at, ())) for at in range(max(found, default=-1) + 1))


def _algorithm(name: str) -> Algorithm:
    if name.startswith("v2_sha256/"):
        return hashing.ALGORITHMS[name.replace("v2_sha256/", "v2_sha256_64/")]
    return hashing.ALGORITHMS[name]


def _start(
    name: str, lora_id: int | None, salt_id: int | None, parent: int | None, parent_key: str | None
) -> ChainState:
    """The state before the first block.

    Raises:
        click.UsageError: when the parent does not fit the algorithm.
    """
    algorithm = _algorithm(name)
    if parent is not None and parent_key is not None:
        raise click.UsageError("--parent and --parent-key exclude each other")
    if parent is not None:
        if not algorithm.mixes:
            raise click.UsageError(
                f"--parent {parent}: {name} chains the parent's full 256-bit key, of which a 64-bit hash is a part; "
                "give --parent-key with 64 hex digits, or all tokens from the first block on"
            )
        return hashing.join(parent, lora_id)
    if parent_key is None:
        return algorithm.root(lora_id, salt_id)
    if algorithm.mixes:
        raise click.UsageError(f"--parent-key: {name} chains the parent's 64-bit hash; give --parent with an integer")
    if lora_id is not None or salt_id is not None:
        raise click.UsageError("--parent-key holds the reuse scope already: leave out --lora-id and --salt")
    return ChainState(None, _key(parent_key))


def hashed(
    name: str, tokens: list[Token], block_size: int, state: ChainState, *, truncated: bool, mm: Segments = ()
) -> Iterator[HashedBlock]:
    """Every block of the tokens, the trailing partial one included."""
    algorithm = _algorithm(name)
    full, rest = hashing.split_blocks(tokens, block_size)
    blocks = [*full, rest] if rest else full
    for index, block in enumerate(blocks):
        state = algorithm.next(state, block, mm[index] if index < len(mm) else ())
        value = state.hash if truncated else None
        yield HashedBlock(
            block=index,
            tokens=[token.hex() if isinstance(token, bytes) else token for token in block],
            unsigned=None if value is None else str(value),
            signed=None if value is None else str(hashing.signed(value)),
            key=None if (algorithm.mixes and not state.fallback) or state.key is None else state.key.hex(),
            partial=len(block) < block_size,
        )


def foreign(
    function: Function,
    tokens: list[Token],
    block_size: int,
    state: State,
    parent: int | None,
    extra: Extra | None = None,
) -> Iterator[HashedBlock]:
    """Every full block of the tokens, by a function of others.

    Raises:
        click.UsageError: when the function has no hash for a block.
    """
    for index, tokens_of in enumerate(hashing.split_blocks(tokens, block_size)[0]):
        keys = msgspec.UNSET if extra is None else extra[index] if index < len(extra) else None
        adapted = state.scope.lora is not None or state.scope.lora_name is not None
        state = function.step(state, Block(tuple(tokens_of), parent, extra=keys, adapted=adapted))
        if state.hash is None:
            raise click.UsageError(
                f"{function.name} has no hash for block {index}: nothing on the wire tells how its digest tokens, or "
                "its adapter, enter"
            )
        parent = state.hash
        yield HashedBlock(
            block=index,
            tokens=[token.hex() if isinstance(token, bytes) else token for token in tokens_of],
            unsigned=str(state.hash),
            signed=str(hashing.signed(state.hash)),
            key=state.key.hex() if state.key else None,
            partial=False,
        )


def _narrow(tokens: list[Token]) -> None:
    wide = next((token for token in tokens if isinstance(token, int) and not 0 <= token < 2**32), None)
    if wide is not None:
        raise click.UsageError(f"--tokens: {wide} is not in 0…2^32−1")


def _foreign(
    label: str,
    tokens: list[Token],
    block_size: int,
    scope: Scope,
    parent: int | None,
    parent_key: str | None,
    extra: Extra | None,
    seed: str | None,
) -> None:
    """The blocks by each function that a label of others may mean, once where they agree."""
    _narrow(tokens)
    functions = named(label)
    found: dict[str, list[HashedBlock]] = {}
    for function in functions:
        try:
            found[function.name] = _hashed(function, tokens, block_size, scope, parent, parent_key, extra, seed)
        except click.UsageError as error:
            if function is functions[-1] and not found:
                raise
            say(f"{function.name} cannot be: {error.message}", err=True)
    alike = all(blocks == next(iter(found.values())) for blocks in found.values())
    if not alike:
        say(f"{label} does not say how extra keys enter: both ways follow", err=True)
    for name, blocks in list(found.items())[: 1 if alike else None]:
        for block in blocks:
            say_json(block if alike else msgspec.structs.replace(block, algorithm=name))


def _hashed(
    function: Function,
    tokens: list[Token],
    block_size: int,
    scope: Scope,
    parent: int | None,
    parent_key: str | None,
    extra: Extra | None,
    seed: str | None,
) -> list[HashedBlock]:
    if function not in SEEDABLE and (seed is not None or extra is not None):
        given = "--seed" if seed is not None else "--extra-keys"
        raise click.UsageError(f"{given}: only vLLM's functions take it, {function.name} does not")
    function = function if seed is None else seeded(function, seed)
    state = function.start(scope)
    if state is None:
        raise click.UsageError(f"{function.name} does not say how a LoRA adapter or a salt enters")
    if function.family == "key-chain" and parent is not None:
        raise click.UsageError(f"--parent: {function.name} chains a key, of which a 64-bit hash is a part")
    if parent_key is not None:
        if function.family != "key-chain":
            raise click.UsageError(f"--parent-key: {function.name} chains the parent's 64-bit hash")
        state = State(scope, _key(parent_key))
    return list(foreign(function, tokens, block_size, state, _unsigned(parent), extra))


def _unsigned(parent: int | None) -> int | None:
    return None if parent is None else parent % 2**64


def _key(text: str) -> bytes:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise click.UsageError(f"--parent-key: 64 hex digits, not {text!r}")
    return bytes.fromhex(text)


def _both(tokens: list[Token], block_size: int, starts: list[ChainState]) -> None:
    """The blocks by either function of the bare label; what four bytes do not hold has only the other."""
    for name, state in zip(WIDTHS, starts, strict=True):
        try:
            for block in list(hashed(name, tokens, block_size, state, truncated=True)):
                say_json(msgspec.structs.replace(block, algorithm=name))
        except RangeError as error:
            if name == WIDTHS[-1]:
                raise
            say(f"{name} cannot be: {error}", err=True)


def _explain(text: str, asked: Asked) -> Exit:
    """Say where a hash comes from."""
    try:
        value = int(text, 0)
    except ValueError:
        value = -(2**64)
    if not -(2**63) <= value < 2**64:
        raise click.UsageError(f"--explain: a 64-bit integer, signed or not, or 0x…, not {text!r}")
    _narrow(list(asked.tokens))
    found = explain(value, asked)
    say(f"{value % 2**64} (signed {hashing.signed(value % 2**64)}):")
    for line in [way.said for way in found.ways] or none_of(found, asked):
        say(f"  {line}")
    return Exit.CONFORMANT if found.ways else Exit.NOT_CONFORMANT


@click.command("hash")
@click.argument("algorithm", type=click.Choice((*ALGORITHMS, *FOREIGN)), metavar="ALGORITHM", required=False)
@click.option("--tokens", required=True, help="Ids, or digests of 64 hex digits.")
@click.option("--block-size", type=Whole(min=1), metavar="N", help="Tokens of a block (--explain: usual ones).")
@click.option("--explain", "number", metavar="HASH", help="Which function, mistake and inputs give it.")
@click.option("--lora-id", type=Whole(min=0, max=2**64 - 1), help="LoRA id of the reuse scope.")
@click.option("--salt", type=Words(), help="Cache salt as text; SHA-256 makes its id.")
@click.option("--salt-id", type=Whole(min=0, max=2**64 - 1), help="Cache salt as an id.")
@click.option("--lora-name", type=Words(), help="LoRA name of the scope, for vLLM's functions.")
@click.option("--seed", type=Words(), help="PYTHONHASHSEED, for vLLM's functions.")
@click.option("--extra-keys", type=Words(), help="JSON, keys of each block, for vLLM's functions.")
@click.option("--mm", multiple=True, metavar="BLOCK:DIGEST@OFFSET", help="A multimodal item (v1); repeatable.")
@click.option("--parent", type=Whole(min=-(2**63), max=2**64 - 1), help="64-bit hash of the block before (v1, Dynamo).")
@click.option("--parent-key", help="Key of the block before (others), 64 hex digits.")
def hash_command(
    algorithm: str | None,
    tokens: str,
    block_size: int | None,
    number: str | None,
    lora_id: int | None,
    salt: str | None,
    salt_id: int | None,
    lora_name: str | None,
    seed: str | None,
    extra_keys: str | None,
    mm: tuple[str, ...],
    parent: int | None,
    parent_key: str | None,
) -> int:
    """Hash tokens block by block; one JSON line per block. Or say where a hash comes from.

    \b
    kvwire hash v2_sha256_64/u32 --tokens 1,2,3,4 --block-size 4
    kvwire hash --explain 924206229973855 --tokens 1,2,3,4

    ALGORITHM is one of v1_block_key, v2_sha256_64/u32, v2_sha256_64/u64, v2_sha256_low64/u32, v2_sha256_low64/u64,
    v2_sha256/u32 and v2_sha256/u64. The bare label v2_sha256_64 does not say how many bytes a token has: it gives the
    hashes of both widths.

    Functions of others, of full blocks: x-vllm-sha256-cbor and x-vllm-sha256 (each also with /bare, before vLLM 0.31,
    or /kinds, since, behind it), x-sglang-sha256 and x-dynamo-xxh3.

    Exit codes of --explain: 0 something gives the number, 1 nothing that is known does.
    """  # noqa: D301 - click reads the \b
    if salt is not None and salt_id is not None:
        raise click.UsageError("--salt and --salt-id exclude each other")
    parsed = parse_tokens(tokens)
    extra = None if extra_keys is None else parse_extra(extra_keys)
    segments = parse_mm(mm)
    own = Scope(lora=lora_id, lora_name=lora_name, salt=salt)
    if number is not None:
        if algorithm is not None:
            raise click.UsageError(f"--explain tries every function: leave out {algorithm}")
        if salt_id is not None:
            raise click.UsageError("--salt-id: --explain takes a salt as text: give --salt")
        asked = Asked(
            tokens=tuple(parsed),
            size=block_size,
            parent=_unsigned(parent),
            parent_key=None if parent_key is None else _key(parent_key),
            scope=own,
            extra=extra,
            mm=segments,
            seeds=() if seed is None else (seed,),
        )
        return _explain(number, asked)
    if algorithm is None or block_size is None:
        raise click.UsageError("give ALGORITHM and --block-size, or --explain HASH")
    try:
        if algorithm in FOREIGN:
            if salt_id is not None or mm:
                given, way = ("--mm", "--extra-keys") if mm else ("--salt-id", "a salt as text: give --salt")
                raise click.UsageError(f"{given}: {algorithm} takes {way}")
            _foreign(algorithm, parsed, block_size, own, parent, parent_key, extra, seed)
            return Exit.CONFORMANT
        for given, there in (("--seed", seed), ("--extra-keys", extra)):
            if there is not None:
                raise click.UsageError(f"{given}: only vLLM's functions take it, {algorithm} does not")
        if lora_name is not None:
            raise click.UsageError(f"--lora-name: {algorithm} takes a LoRA adapter by its id: give --lora-id")
        if mm and algorithm != "v1_block_key":
            raise click.UsageError(f"--mm: in {algorithm} a digest token says it all: give it among --tokens")
        scope = hashing.salt_id(salt) if salt is not None else salt_id
        if algorithm == BARE:
            why = "does not say whether a token has four bytes or eight: both follow"
            say(f"{BARE} {why}; a consumer settles on the one that reproduces the first root block", err=True)
            _both(parsed, block_size, [_start(name, lora_id, scope, parent, parent_key) for name in WIDTHS])
            return Exit.CONFORMANT
        state = _start(algorithm, lora_id, scope, parent, parent_key)
        truncated = not algorithm.startswith("v2_sha256/")
        for block in hashed(algorithm, parsed, block_size, state, truncated=truncated, mm=segments):
            say_json(block)
    except RangeError as error:
        raise click.UsageError(str(error)) from None
    return Exit.CONFORMANT
