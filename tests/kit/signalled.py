"""``python -m tests.kit.signalled PHASE TIMES SIGNAL ARGUMENT…``: ``kvwire``, told to end when a phase begins."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from kvwire.attack import run
from kvwire.cli import check, entry, judging
from kvwire.report import faces

P = ParamSpec("P")
R = TypeVar("R")
PHASE, TIMES, NAME, *ARGUMENTS = sys.argv[1:]


def told(phase: str, act: Callable[P, R]) -> Callable[P, R]:
    """The same, after the signals when it is the phase."""

    def first(*arguments: P.args, **named: P.kwargs) -> R:
        if phase == PHASE:
            for _ in range(int(TIMES)):
                os.kill(os.getpid(), signal.Signals[NAME])
        return act(*arguments, **named)

    return first


if __name__ == "__main__":
    run._attack = told("start", run._attack)
    run._probe = told("probes", run._probe)
    run._close = told("closing", run._close)
    check.__dict__["finish"] = told("judging", judging.finish)
    judging.__dict__["print_to"] = told("reporting", faces.print_to)
    sys.argv[1:] = ARGUMENTS
    entry()
