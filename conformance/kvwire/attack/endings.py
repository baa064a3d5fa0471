"""Signals that ask a run to end: what was found is kept, whenever they come."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The last one comes when the terminal is closed, or a connection to it is lost."""


class Endings:
    """Inside, SIGINT, SIGTERM and SIGHUP are counted, and one of them raises ``KeyboardInterrupt``.

    So many before it are only noted, and what is under way comes to its end; so are those behind it, and all of them
    once it was held. ``said`` is printed when the first one is noted. Works in the main thread, and says nothing
    elsewhere; a signal that was ignored before stays ignored.
    """

    def __init__(self, patience: int = 0, said: str = "") -> None:
        self.told: list[int] = []
        """Those that came so far."""
        self._patience = patience
        self._said = said
        self._held = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Endings:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._tell)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def hold(self) -> None:
        """From now on signals are only noted: what follows is bounded, and has to be done."""
        self._held = True

    def _tell(self, number: int, _: FrameType | None) -> None:
        self.told.append(number)
        if not self._held and len(self.told) == self._patience + 1:
            raise KeyboardInterrupt
        if self._said and len(self.told) == 1:
            with suppress(OSError):  # the terminal is gone
                os.write(2, self._said.encode())
