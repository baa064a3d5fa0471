"""The honest but ugly stories as sessions of the vectors: ``python -m tests.generators.stories`` writes them.

A story is synthetic, so that its session is the same whenever it is written; a test compares the two.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import msgspec
from tests.judges.test_honest_but_ugly import ROWS

from kvwire.standard import resources
from kvwire.trace.records import Trace
from kvwire.vectors import sessions
from kvwire.vectors.model import SessionFile

PREFIX = "ugly-"
PROFILE = "replay"


def stories() -> Iterator[tuple[str, SessionFile]]:
    """Every story as a session, by the name of the session."""
    for tell, witnesses in ROWS:
        title = tell.__name__.replace("_", " ")
        comment = inspect.cleandoc(tell.__doc__ or title)
        requirements = dict.fromkeys(f"KVW-{name}" for name in witnesses.split())
        name = PREFIX + tell.__name__.replace("_", "-")
        yield (
            name,
            sessions.make(name, title, comment, ("synthetic", "honest"), requirements, recording(tell().trace())),
        )


def recording(story: Trace) -> Trace:
    """The trace of a story, held to a profile of the standard."""
    return msgspec.structs.replace(story, header=msgspec.structs.replace(story.header, profile=PROFILE))


def main(folder: Path) -> None:
    """Write every story."""
    for name, file in stories():
        path = folder / sessions.path_of(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(sessions.write(file))


if __name__ == "__main__":
    main(resources.vectors())
