"""Sockets, rooms and recorders that are gone after a test, whatever happens in it, and within a bound."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq
from tests.kit.checked import Checked, checked

from kvwire.attack.witness import Recorder

pytest_plugins = ["pytester"]

OpenSocket = Callable[[int], "zmq.Socket[bytes]"]
END_S = 5.0


MOST_RERUNS = 5
"""How many tests of a whole run may be tried again before that is a failure of its own."""


def pytest_configure() -> None:
    """Ctrl-C and a closed terminal end what tests start, also where they run in the background of a shell or under
    `nohup`, which ignore them for them.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What opens sockets and starts processes is tried again on a machine that is short of time, and said to have been.

    Not what is ``steady``: that no run differs from another is what it shows. Honest publishers under load are the
    business of ``tox -e soak``, which tries nothing again.
    """
    for item in items:
        if item.get_closest_marker("network") is not None and item.get_closest_marker("steady") is None:
            item.add_marker(pytest.mark.flaky(reruns=1))


def reruns(config: pytest.Config) -> int:
    """How many tests were tried again so far; known where the summary is written."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return 0 if reporter is None else len(reporter.stats.get("rerun", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print how many that were."""
    terminalreporter.write_line(f"{reruns(config)} tests were tried again, and {MOST_RERUNS} may be")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Too many are a failure."""
    if exitstatus == pytest.ExitCode.OK and reruns(session.config) > MOST_RERUNS:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def open_socket() -> Iterator[OpenSocket]:
    """Open a socket of the given type; all are closed and their context is ended, or the test fails."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    opened: list[zmq.Socket[bytes]] = []

    def open_one(kind: int) -> zmq.Socket[bytes]:
        opened.append(context.socket(kind))
        opened[-1].set(zmq.LINGER, 0)
        return opened[-1]

    yield open_one
    for socket in opened:
        socket.close(0)
    end = threading.Thread(target=context.term, daemon=True)
    end.start()
    end.join(END_S)
    assert not end.is_alive(), "a socket is still open"


@pytest.fixture
def room() -> Iterator[Path]:
    """A private directory with a path short enough for ipc."""
    with tempfile.TemporaryDirectory(prefix="kvwire-") as path:
        yield Path(path)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """A recorder whose witnesses are ended."""
    recorder = Recorder()
    yield recorder
    recorder.close()


@pytest.fixture
def room_of_the_killed(room: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A peer that is killed leaves its private directory behind: in a room that is removed."""
    monkeypatch.setenv("TMPDIR", str(room))
    return room


@pytest.fixture(scope="session")
def checked_reference(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Checked:
    """One whole run of ``kvwire check`` against the reference, which nobody may change: copy what is to be bent."""
    base = tmp_path_factory.getbasetemp()
    return checked(base if worker_id == "master" else base.parent)
