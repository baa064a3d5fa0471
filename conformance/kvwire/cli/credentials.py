"""CURVE keys as users give them: in files or in variables of the environment, never on the command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from kvwire.attack.curve import Curve
from kvwire.cli.quantities import Named
from kvwire_reference.curve import CurveKeyError, CurveServer, KeyPair, is_key, read_allowed, read_public

SECRET = "KVWIRE_CURVE_SECRET_KEY"  # noqa: S105 - the name of a variable
SERVER = "KVWIRE_CURVE_SERVER_KEY"
_FILE = Named(dir_okay=False)
KEYS = click.option("--curve-keys", "keys", type=_FILE, help="Our pair of CURVE keys, NAME.key_secret.")


def curve_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of a client; the command gets ``curve``."""

    @wraps(command)
    def gathered(*, keys: Path | None, server: Path | None, **others: Any) -> int:
        try:
            curve = _client(keys, server)
        except CurveKeyError as error:
            raise click.UsageError(str(error)) from None
        return command(curve=curve, **others)

    help_ = "The publisher's public CURVE key, NAME.key."
    return KEYS(click.option("--curve-server", "server", type=_FILE, help=help_)(gathered))


def serving(keys: Path | None, allow: Path | None) -> CurveServer | None:
    """What a publisher of ours serves with; None where no keys are given.

    Raises:
        click.UsageError: when a key is none, or one part is missing.
    """
    try:
        pair = _pair(keys)
        if pair is None and allow is None:
            return None
        if pair is None:
            raise CurveKeyError(f"--curve-allow without keys of our own: --curve-keys, or {SECRET}")
        if allow is None:
            raise CurveKeyError("CURVE without --curve-allow would let in any key: name the file of those who may come")
        return CurveServer(pair, read_allowed(allow))
    except CurveKeyError as error:
        raise click.UsageError(str(error)) from None


def _client(keys: Path | None, server: Path | None) -> Curve | None:
    pair = _pair(keys)
    said = os.environ.pop(SERVER, "").encode()
    if server is not None:
        said = read_public(server)
    elif said and not is_key(said):
        raise CurveKeyError(f"{SERVER}: a public key is 40 characters of Z85")
    if pair is None and not said:
        return None
    if pair is None:
        raise CurveKeyError(f"a server's key without our own: --curve-keys, or {SECRET}")
    if not said:
        raise CurveKeyError(f"keys of our own without the publisher's: --curve-server, or {SERVER}")
    return Curve(server=said.decode(), public=pair.public.decode(), secret=pair.secret.decode())


def _pair(keys: Path | None) -> KeyPair | None:
    """Our pair; what stands in the environment is taken out of it, for children would inherit it."""
    secret = os.environ.pop(SECRET, "").encode()
    if keys is not None:
        return KeyPair.read(keys)
    return KeyPair.of_secret(secret, SECRET) if secret else None
