"""One whole run of ``kvwire check`` against the reference, for every test that only reads it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock

from kvwire.trace import files
from kvwire.trace.records import Trace

KVWIRE = (sys.executable, "-m", "kvwire")
BOUND_S = 100.0


def kvwire(*arguments: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does, on a screen of 140 columns without colours."""
    environment = {**os.environ, "COLUMNS": "140", "NO_COLOR": "1"}
    return subprocess.run(
        (*KVWIRE, *arguments), capture_output=True, text=True, timeout=timeout, env=environment, check=False
    )


class Checked(NamedTuple):
    """What a user has after ``kvwire check --json result.json --record run.kvtrace``."""

    folder: Path

    @property
    def exit(self) -> int:
        """The exit code."""
        return int((self.folder / "exit").read_text())

    @property
    def stdout(self) -> str:
        """What stood on the terminal."""
        return (self.folder / "stdout").read_text()

    @property
    def stderr(self) -> str:
        """What stood on standard error."""
        return (self.folder / "stderr").read_text()

    @property
    def result(self) -> Path:
        """The result stream."""
        return self.folder / "result.json"

    @property
    def recording(self) -> Path:
        """The trace."""
        return self.folder / "run.kvtrace"

    def lines(self) -> list[dict[str, Any]]:
        """The result stream, decoded."""
        return [json.loads(line) for line in self.result.read_bytes().splitlines()]

    def trace(self) -> Trace:
        """The trace, read."""
        return files.read(self.recording)


def checked(shared: Path) -> Checked:
    """The run, made by the first of several test processes that asks for it; the others wait and read.

    ``shared`` is a folder that all of them see.
    """
    run = Checked(shared / "checked-reference")
    with FileLock(shared / "checked-reference.lock"):
        if not (run.folder / "exit").exists():
            run.folder.mkdir(exist_ok=True)
            done = kvwire("check", "--json", str(run.result), "--record", str(run.recording), timeout=BOUND_S)
            (run.folder / "stdout").write_text(done.stdout)
            (run.folder / "stderr").write_text(done.stderr)
            (run.folder / "exit").write_text(str(done.returncode))
    return run
