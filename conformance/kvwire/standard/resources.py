"""Where the standard and the vectors are: the packaged copy, or else the checkout."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


class MissingDataError(FileNotFoundError):
    """Neither the package nor a checkout around it holds the folder."""


def folder(name: str) -> Path:
    """The folder ``spec`` or ``vectors``.

    A wheel carries both under ``kvwire/_data``. An editable install has no such copy beside this file, and the folder
    of the checkout is used.

    Raises:
        MissingDataError: when there is neither.
    """
    package = Path(str(resources.files("kvwire")))
    for candidate in (package / "_data" / name, package.parents[1] / name):
        if candidate.is_dir():
            return candidate
    raise MissingDataError(
        f"the folder {name!r} is neither inside the package {package} nor in a checkout around it; reinstall kvwire"
    )


def spec() -> Path:
    """The folder of the standard."""
    return folder("spec")


def vectors() -> Path:
    """The folder of the golden vectors."""
    return folder("vectors")
