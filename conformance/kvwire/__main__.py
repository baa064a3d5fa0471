"""``python -m kvwire``, and the console script."""

from __future__ import annotations

import os
import signal

INTERRUPTED = 130
"""As ``kvwire.judges.verdict.Exit``, which is not imported yet."""


def main() -> None:
    """Import the command line and run it. Who ends that in its first second loses nothing, and sees no traceback."""
    waiting = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in waiting}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(INTERRUPTED))
    from kvwire.cli.root import entry

    for number, handler in before.items():
        signal.signal(number, handler)
    entry()


if __name__ == "__main__":
    main()
