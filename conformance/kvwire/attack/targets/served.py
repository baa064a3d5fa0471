"""A peer of ours that is driven by an API: a child process that says how it is checked."""

from __future__ import annotations

import dataclasses
import os
import select
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from kvwire.attack.targets import listening, openai
from kvwire.attack.targets.target import Opened
from kvwire.attack.witness import Recorder
from kvwire.standard.protocol import AdapterError

BEGIN_S = 20.0
END_S = 5.0
WORDS = 5
"""``kvwire check TARGET --drive API``"""


@dataclass(frozen=True)
class ServedTarget:
    """A command that serves streams and an API, and prints the line that checks them; it ends with its input."""

    text: str
    command: tuple[str, ...]
    env: Mapping[str, str]

    def open(self, recorder: Recorder) -> Opened:
        """Start it, and reach what it serves."""
        process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **self.env},
            process_group=0,
        )
        try:
            target, drive = self._told(process)
            opened = openai.drive(listening.endpoint(target), drive).open(recorder)
        except BaseException:
            _end(process)
            raise

        def close() -> None:
            opened.close()
            _end(process)

        return dataclasses.replace(opened, alive=lambda: process.poll() is None, close=close)

    def _told(self, process: subprocess.Popen[bytes]) -> tuple[str, str]:
        """The target that it serves, and what drives it."""
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], BEGIN_S)
        words = shlex.split(process.stdout.readline().decode()) if ready else []
        if len(words) != WORDS:
            raise AdapterError(f"{self.text}: it did not say within {BEGIN_S:g} s how it is checked")
        return words[2], words[4]


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(END_S)
