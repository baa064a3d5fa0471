"""Which files are recordings, and in what form: the ending says it.

``.mcap`` is the container for long recordings, any other ending lines of JSON, compressed where it is ``.gz``. Behind
it stands the number of a part: ``FILE.0001``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

Form = Literal["lines", "lines.gz", "mcap"]
ENDINGS = (".mcap", ".kvtrace", ".kvtrace.gz")
"""What the files of a folder end in that are taken for recordings."""
_PART = re.compile(r"\.\d{4,}$")


def form_of(path: Path) -> Form:
    """The form of a file, by its ending."""
    name = _PART.sub("", path.name)
    return "mcap" if name.endswith(".mcap") else "lines.gz" if name.endswith(".gz") else "lines"


def part_of(path: Path, number: int) -> Path:
    """Where a part of a recording lies that goes into several files; parts are numbered from 1."""
    return path.with_name(f"{path.name}.{number:04d}")


def last_part(path: Path) -> int:
    """The highest number of a part that lies beside the path; 0 where none does."""
    names = (other.name for other in path.absolute().parent.glob("*") if other.name.startswith(f"{path.name}."))
    return max((int(name.rpartition(".")[2]) for name in names if _PART.search(name)), default=0)


def recordings(folder: Path) -> list[Path]:
    """The recordings of a folder and of those below it, sorted."""
    return sorted(path for path in folder.rglob("*") if _PART.sub("", path.name).endswith(ENDINGS) and path.is_file())
