"""The command line: a file per command.

Nothing is imported before a command runs: the pytest plugin lies here too, and is loaded wherever kvwire is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["entry", "run"]


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    from kvwire.cli.root import run as run_root

    return run_root(arguments)


def entry() -> None:
    """The console script."""
    sys.exit(run())
