"""Every command of docs/recordings.md runs as it stands there."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.recordings.test_cluster import DISTRIBUTED
from tests.recordings.test_scrub import CHANGES

from kvwire.judges.verdict import Exit
from kvwire.recordings.units import units
from kvwire.trace import files

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.timeout(400)]
PAGE = Path(__file__).parents[2] / "docs" / "recordings.md"
STAND_INS = {
    "tcp://HOST:5557": "ipc://live",
    "--for 1h": "--batches 300",
    "--rotate 1GB --for 7d": "--rotate 64KiB --batches 900",
    "--record run.mcap": "--record run.mcap --quick --quiet",
}
"""What a test has no host, no week and no gigabyte for."""
ENDS = {"check": {Exit.CONFORMANT}, "judge": {Exit.CONFORMANT, Exit.INCONCLUSIVE}}


def commands() -> list[str]:
    """The lines of the page's examples."""
    return [line for block in blocks("") for line in block.splitlines()]


def blocks(language: str) -> list[str]:
    """What stands in fences of a language."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [block for named, block in found if named == language]


@pytest.fixture
def scheduler() -> Iterator[str]:
    """The address of a cluster that the page's commands started; empty where there is no Dask."""
    if not DISTRIBUTED:
        yield ""
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    (block,) = blocks("sh")
    with contextlib.ExitStack() as stack:
        for line in block.splitlines():
            words = line.replace("8786", port).replace("--nworkers 4", "--nworkers 1").split()
            process = stack.enter_context(subprocess.Popen([sys.executable, "-m", *words], stderr=subprocess.DEVNULL))
            stack.callback(process.send_signal, signal.SIGINT)
        yield f"tcp://127.0.0.1:{port}"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    """A folder in which the reference serves at `ipc://live`."""
    where = ["--endpoint", "ipc://live", "--replay", "ipc://replay"]
    command = [sys.executable, "-m", "kvwire", "serve", *where, "--rate", "800"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield tmp_path
        process.send_signal(signal.SIGINT)
        process.wait(20)


def test_every_command_runs_as_it_stands_there(served: Path, scheduler: str) -> None:
    kvwire = f"{sys.executable} -m kvwire "
    (served / "key").write_bytes(os.urandom(32))
    (served / "recordings").mkdir()
    ran = 0
    for line in commands():
        assert line.startswith("kvwire ")
        if "--cluster" in line and not scheduler:
            continue
        for words, stand_in in [*STAND_INS.items(), ("tcp://SCHEDULER:8786", scheduler)]:
            line = line.replace(words, stand_in)
        verb = line.split()[1]
        done = subprocess.run(
            kvwire + line.removeprefix("kvwire "),
            shell=True,
            cwd=served,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode in ENDS.get(verb, {Exit.CONFORMANT}), (line, done.stdout, done.stderr)
        if verb == "record":
            assert done.stdout + done.stderr == ""
            for path in served.glob("*.mcap*"):
                (served / "recordings" / path.name).write_bytes(path.read_bytes())
        ran += 1
    assert ran > 12
    assert len(units([served / "recordings"])) == 2
    assert files.read(served / "kv.kvtrace") == files.read(served / "kv.mcap")


def test_the_page_has_the_list_of_verdicts_that_scrubbing_may_change() -> None:
    listed = re.findall(r"^\| (KVW-\S+) \| (.+?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name: set(verdicts.split(", ")) for name, verdicts in listed} == CHANGES
