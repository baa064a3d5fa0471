"""Prompts whose events hold more than tokens, on another instance: whether the engine serves them all the same.

What it dies of is not asked of the publisher under test, so that the run goes on without it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kvwire.attack.probes.kit.deployment import elsewhere
from kvwire.attack.probes.kit.session import Instance, Probe, Session
from kvwire.attack.probes.workload import PREFIX_BLOCKS, Prompt, multimodal
from kvwire.standard.protocol import AdapterError, Refused, Unsupported
from kvwire.wire.endpoint_rules import NO_REPLAY

PROCESSES = 4
"""How many adapter processes may break before the rest is left out."""
LORA = "7"
WIDE_LORA = str(2**63 + 7)
"""A LoRA id that fits 64 bits, but for a sign."""


def bag(session: Session, tokens: Sequence[int]) -> list[Prompt]:
    """The same tokens with each feature, a usual value first."""
    salt = f"tenant-{session.offers.random.getrandbits(64):016x}"
    return [
        Prompt(tokens=tokens, salt=salt),
        multimodal(session.offers, tokens),
        Prompt(tokens=tokens, lora=LORA),
        Prompt(tokens=tokens, lora=WIDE_LORA),
    ]


def run(session: Session) -> None:
    """The tokens alone, then one prompt after the other; an instance that broke is replaced."""
    tokens = session.offers.tokens(PREFIX_BLOCKS)
    left = bag(session, tokens)
    for _ in range(PROCESSES):
        if not left or session.left() <= 0:
            return
        with session.fresh() as (instance,):
            try:
                instance.driver.start(msgspec.structs.replace(elsewhere(session.start), replay=NO_REPLAY))
                instance.driver.cache(tokens)
            except (AdapterError, Refused, Unsupported):  # it stands in the record of the call
                return
            while left and session.left() > 0 and _served(session, instance, left.pop(0)):
                pass


def _served(session: Session, instance: Instance, prompt: Prompt) -> bool:
    """Run one prompt; False when the adapter failed. What it failed of is remembered, a LoRA id that is wide excepted.

    Others are served then.
    """
    try:
        instance.driver.cache(prompt.tokens, lora=prompt.lora, salt=prompt.salt, mm=prompt.mm)
    except (Refused, Unsupported):
        return True
    except AdapterError:
        if prompt.lora != WIDE_LORA:
            session.unserved |= prompt.features
        return False
    return True


PROBE = Probe(
    name="requests",
    run=run,
    needs=frozenset({"start", "stop", "fresh", "cache"}),
    serves="LIV-007",
    bounds="four prompts, each as the driver bounds it",
)
