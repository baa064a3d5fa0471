"""kvwire: a harness that says, sentence by sentence of the standard, what a KV-cache event publisher keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kvwire.conclusion.result import Result
    from kvwire.standard.statement import Statement

__all__ = ["judge"]


def judge(messages: Iterable[Sequence[bytes]], *, profile: str = "core", statement: Statement | None = None) -> Result:
    """Judge messages of one stream, as a SUB socket received them in order: topic, sequence number, payload.

    What a listener can show is judged and nothing else: `result.summary.verdict`, `result.outcomes` with their
    findings, `result.summary.headline`. A malformed message is a finding and no error. ``statement`` is what the
    publisher declares.

    Raises:
        kvwire.standard.registry.UnknownNameError: when there is no such profile.
    """
    from kvwire.conclusion.messages import judge_messages

    return judge_messages(messages, profile=profile, statement=statement)
