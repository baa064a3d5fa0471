"""Whether the files of the standard can be read at all: in a change that is offered they are a stranger's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from kvwire.standard import reading, registry
from kvwire.standard.prose import Problem

MOST = 4 * reading.MIB
"""How long a file of the standard may be."""
READ = (".md", ".toml", ".json", ".lock")
BUILT = "requirements.json"
"""What ``kvwire spec build`` writes: it may lack or be anything before."""


def unreadable(folder: Path, *, built: bool = True) -> Iterator[Problem]:
    """What cannot be read of the folder of the standard: no regular file, too long, no text, no JSON, no TOML.

    ``built``: the registry, which is made from the rest, has to be as it should, too.
    """
    for path in sorted(folder.rglob("*")):
        if path.suffix not in READ or path.is_dir() or (path.name == BUILT and not built):
            continue
        try:
            _read(path)
        except OSError as error:
            why = error.strerror or str(error)
        except reading.TomlError as error:
            why = str(error).removeprefix(f"{path}: ")
        except UnicodeDecodeError as error:
            why = f"no UTF-8: {error.reason} at byte {error.start}"
        except msgspec.MsgspecError as error:
            why = f"{error}"
        else:
            continue
        name = path.relative_to(folder.parent).as_posix()
        yield Problem(reading.named(name), 0, "", f"it cannot be read: {why}{_mended(path)}")


def _read(path: Path) -> None:
    raw = reading.content(path, MOST)
    raw.decode()
    if path.suffix == ".toml":
        reading.toml(path)
    elif path.name == BUILT:
        registry.decoded(raw)
    elif path.parent.name == "profiles":
        registry.profile_of(raw)
    elif path.suffix == ".json":
        reading.json(msgspec.json.decode, raw)


def _mended(path: Path) -> str:
    return "; `kvwire spec build` writes it" if path.name == BUILT else ""
