"""Words of reports."""

from __future__ import annotations

import re

from kvwire.conclusion.result import NoClaim
from kvwire.conclusion.untried import Why
from kvwire.standard.registry import ControlLevel

_ONE = re.compile(
    r"(?<![\d.,–-])1 ((?:first |end |digest )?(?:hash|batch|block|event|message|removal|store|occasion|request|answer"
    r"|prompt|token|rank|stream|hole|sentence|warning|error|frame|number|restart|gap|stamp|list|byte|value|marker"
    r"|attempt))e?s\b(?: (are|were)\b)?"
)
_VERBS = {"are": " is", "were": " was", None: ""}

NO_CLAIM: dict[NoClaim, str] = {
    "quick": "it is a quick one",
    "only": "some sentences alone were asked for (--only)",
    "interrupted": "it was interrupted",
    "cut": "it did not come to its end",
    "lost": "the connection was lost",
}
WHY: dict[Why, str] = {
    Why.MODE: "left out by a {mode} run",
    Why.ONLY: "left out by --only",
    Why.TIME: "no time was left",
    Why.FULL: "the trace was full",
    Why.INTERRUPTED: "interrupted",
    Why.ENDED: "the target had ended or failed",
    Why.REFUSED: "the probe was refused",
    Why.VERB: "needs a verb that the adapter lacks",
    Why.REPLAY: "needs a replay socket",
    Why.DECLARATION: "needs a declaration",
    Why.ADAPTER: "needs an adapter",
    Why.PROFILE: "not of this profile",
    Why.OURS: "decided by the harness",
    Why.LEGACY: "has no place in this legacy form",
    Why.UNUSED: "not used",
    Why.UNREACHABLE: "the endpoint was not reached",
    Why.LOST: "the connection was lost",
    Why.SILENT: "nothing came",
    Why.UNDECIDED: "could not be decided",
    Why.NOT_SHOWN: "nothing was seen that could have broken it",
}
"""Each reason for which a sentence got no verdict, in words."""


_CLOSING: dict[Why, str] = {
    Why.ONLY: "run without --only",
    Why.TIME: "ask for less at a time (--only), or for longer (--for)",
    Why.FULL: "ask for less at a time (--only)",
    Why.INTERRUPTED: "let it run to its end",
    Why.REPLAY: "name its replay socket: ?replay=tcp://HOST:PORT",
    Why.UNREACHABLE: "is it bound there? mode=bind is for one that dials",
    Why.LOST: "run again while it is up",
    Why.SILENT: "send it prompts while it is listened to",
}


def closing(why: Why, level: ControlLevel, mode: str) -> str:
    """What would give a sentence a verdict that has none, in a run of a mode; empty where the reason says it."""
    if why is Why.MODE:
        return "run without --quick" if mode == "quick" else "run with --thorough"
    if why is not Why.NOT_SHOWN:
        return _CLOSING.get(why, "")
    if level == "driven":
        return f"{'' if mode == 'thorough' else 'run with --thorough, or '}let its engine do such things meanwhile"
    return "listen for longer while it works (--for 60), or drive it (--drive openai:URL, exec:ADAPTER)"


def worded(why: Why, mode: str) -> str:
    """A reason in words, in a run of a mode."""
    return WHY[why].format(mode=mode)


def singular(text: str) -> str:
    """The text with its nouns, and the verbs behind them, in the singular behind the number one."""
    return _ONE.sub(lambda found: f"1 {found[1]}{_VERBS[found[2]]}", text)


def counted(number: int, noun: str) -> str:
    """A number and its noun, of which the plural is given."""
    return singular(f"{number} {noun}")


def short(requirement: str) -> str:
    """An id without its prefix."""
    return requirement.removeprefix("KVW-")
