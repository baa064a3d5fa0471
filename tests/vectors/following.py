"""Consumers for ``kvwire vectors verify``, one right and several wrong: ``python following.py NAME``.

The right one is the state machine of the verifier in Python; the wrong ones do what consumers in use do.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "vectors" / "verifiers" / "python"))

consumer: Any = importlib.import_module("consumer")
Method = Callable[..., Any]


def stale(right: Method) -> Method:
    """Takes every lower number as stale, and so ignores a restarted engine until it passes the old number."""
    return lambda self, number, payload: right(self, number, payload) if number > self.last else None


def hopeful(right: Method) -> Method:
    """Asks again for holes that nobody can fill."""

    def on_end(self: Any) -> None:
        if self.answer and max(self.answer) - min(self.answer) >= len(self.answer):
            self.ask()
        else:
            right(self)

    return on_end


def trusting(right: Method) -> Method:
    """Keeps what it held across a final hole."""
    return lambda self, sure: right(self, sure) if sure else None


def flat(right: Method) -> Method:
    """Knows one medium: what is anywhere is on the GPU."""
    return lambda self, event: right(self, {**event, "medium": "GPU"} if "block_hashes" in event else event)


WRONG = {
    "stale": (consumer.Follower, "on_live", stale),
    "hopeful": (consumer.Follower, "on_end", hopeful),
    "trusting": (consumer.Table, "drop", trusting),
    "flat": (consumer.Table, "apply", flat),
}


def main(name: str) -> None:
    """Filter standard input as NAME says."""
    if name in WRONG:
        owner, method, wrong = WRONG[name]
        setattr(owner, method, wrong(getattr(owner, method)))
    for question in map(json.loads, sys.stdin):
        answer, _ = consumer.answer({}, question["input"])
        print(json.dumps({"id": question["id"], **answer}))


if __name__ == "__main__":
    main(sys.argv[1])
