"""Where reports for people go."""

from __future__ import annotations

import os

from rich.console import Console

from kvwire.report.faces import COLUMNS


def screen() -> Console:
    """Standard output; a pipe has no width, and lines that are broken in it are hard to search."""
    console = Console(soft_wrap=False, highlight=False)
    if console.is_terminal or "COLUMNS" in os.environ:
        return console
    return Console(soft_wrap=False, highlight=False, width=COLUMNS)
