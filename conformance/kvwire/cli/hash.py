"""``kvwire hash``: every function that a stream may use, on the command line, one JSON line per block."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import msgspec

from kvwire.cli.quantities import Whole
from kvwire.cli.screen import say, say_json
from kvwire.hashes.functions import QUALIFIED, TRUE, Block, Function, Scope, State, named
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
    name: str, tokens: list[Token], block_size: int, state: ChainState, *, truncated: bool
) -> Iterator[HashedBlock]:
    """Every block of the tokens, the trailing partial one included."""
    algorithm = _algorithm(name)
    full, rest = hashing.split_blocks(tokens, block_size)
    blocks = [*full, rest] if rest else full
    for index, block in enumerate(blocks):
        state = algorithm.next(state, block)
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
    function: Function, tokens: list[Token], block_size: int, state: State, parent: int | None
) -> Iterator[HashedBlock]:
    """Every full block of the tokens, by a function of others.

    Raises:
        click.UsageError: when the function has no hash for a block.
    """
    for index, tokens_of in enumerate(hashing.split_blocks(tokens, block_size)[0]):
        state = function.step(state, Block(tuple(tokens_of), parent))
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


def _foreign(
    label: str, tokens: list[Token], block_size: int, scope: Scope, parent: int | None, parent_key: str | None
) -> None:
    """The blocks by each function that a label of others may mean, once where they agree."""
    if (
        wide := next((token for token in tokens if isinstance(token, int) and not 0 <= token < 2**32), None)
    ) is not None:
        raise click.UsageError(f"--tokens: {wide} is not in 0…2^32−1")
    found: dict[str, list[HashedBlock]] = {}
    for function in named(label):
        state = function.start(scope)
        if state is None:
            raise click.UsageError(f"{function.name} does not say how a LoRA adapter or a salt enters")
        if function.family == "key-chain" and parent is not None:
            raise click.UsageError(f"--parent: {function.name} chains a key, of which a 64-bit hash is a part")
        if parent_key is not None:
            if function.family != "key-chain":
                raise click.UsageError(f"--parent-key: {function.name} chains the parent's 64-bit hash")
            state = State(scope, _key(parent_key))
        found[function.name] = list(foreign(function, tokens, block_size, state, _unsigned(parent)))
    alike = all(blocks == next(iter(found.values())) for blocks in found.values())
    if not alike:
        say(f"{label} does not say how extra keys enter: both ways follow", err=True)
    for name, blocks in list(found.items())[: 1 if alike else None]:
        for block in blocks:
            say_json(block if alike else msgspec.structs.replace(block, algorithm=name))


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


@click.command("hash")
@click.argument("algorithm", type=click.Choice((*ALGORITHMS, *FOREIGN)), metavar="ALGORITHM")
@click.option("--tokens", required=True, help="Token ids separated by commas; a digest token as 64 hex digits.")
@click.option("--block-size", required=True, type=Whole(min=1), help="Tokens of a block.")
@click.option("--lora-id", type=Whole(), help="LoRA id of the reuse scope, 0…2^64−1.")
@click.option("--salt", help="Cache salt as text; its id is the first 8 bytes of its SHA-256, little-endian.")
@click.option("--salt-id", type=Whole(), help="Cache salt as an id, 0…2^64−1.")
@click.option("--lora-name", help="LoRA name of the reuse scope, which vLLM's functions take.")
@click.option("--parent", type=Whole(), help="64-bit hash of the block before (v1, Dynamo), signed or unsigned.")
@click.option("--parent-key", help="256-bit key of the block before (the others), 64 hex digits.")
def hash_command(
    algorithm: str,
    tokens: str,
    block_size: int,
    lora_id: int | None,
    salt: str | None,
    salt_id: int | None,
    lora_name: str | None,
    parent: int | None,
    parent_key: str | None,
) -> None:
    """Hash tokens block by block; one JSON line per block.

    ALGORITHM is one of v1_block_key, v2_sha256_64/u32, v2_sha256_64/u64, v2_sha256_low64/u32, v2_sha256_low64/u64,
    v2_sha256/u32 and v2_sha256/u64. The bare label v2_sha256_64 does not say how many bytes a token has: it gives the
    hashes of both widths.

    Functions of others, of full blocks: x-vllm-sha256-cbor and x-vllm-sha256 (each also with /bare or /kinds behind
    it), x-sglang-sha256 and x-dynamo-xxh3.
    """
    if salt is not None and salt_id is not None:
        raise click.UsageError("--salt and --salt-id exclude each other")
    try:
        if algorithm in FOREIGN:
            if salt_id is not None:
                raise click.UsageError(f"--salt-id: {algorithm} takes a salt as text: give --salt")
            own = Scope(lora=lora_id, lora_name=lora_name, salt=salt)
            _foreign(algorithm, parse_tokens(tokens), block_size, own, parent, parent_key)
            return
        if lora_name is not None:
            raise click.UsageError(f"--lora-name: {algorithm} takes a LoRA adapter by its id: give --lora-id")
        scope = hashing.salt_id(salt) if salt is not None else salt_id
        if algorithm == BARE:
            why = "does not say whether a token has four bytes or eight: both follow"
            say(f"{BARE} {why}; a consumer settles on the one that reproduces the first root block", err=True)
            _both(
                parse_tokens(tokens), block_size, [_start(name, lora_id, scope, parent, parent_key) for name in WIDTHS]
            )
            return
        state = _start(algorithm, lora_id, scope, parent, parent_key)
        truncated = not algorithm.startswith("v2_sha256/")
        for block in hashed(algorithm, parse_tokens(tokens), block_size, state, truncated=truncated):
            say_json(block)
    except RangeError as error:
        raise click.UsageError(str(error)) from None
