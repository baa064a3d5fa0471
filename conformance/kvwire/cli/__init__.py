"""The command line: a file per command."""

from kvwire.cli.root import entry, main, run

__all__ = ["entry", "main", "run"]
