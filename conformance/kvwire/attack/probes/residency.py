"""A small cache that is filled, hit, split, evicted and reset: the stream's word against what the engine reuses."""

from __future__ import annotations

from kvwire.attack.probes.kit.attacked import attacked
from kvwire.attack.probes.kit.drained_prompts import DrainedPrompts
from kvwire.attack.probes.kit.readiness import handshakes, prime
from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.attack.probes.workload import Prompt, Runner
from kvwire.standard.protocol import Start

CAPACITY = 32
"""Blocks in the cache, where the engine takes a number."""
PROMPT = 4
"""Blocks of a prompt; a whole number of them, so that the last block is hit too."""
FILLING = 8
ROUNDS = 3


def shared(drained: DrainedPrompts, prompt: list[int]) -> None:
    """The same prompt again, and others that share its beginning: nothing of it has to go."""
    offers = drained.session.offers
    size = offers.block_size
    half = prompt[: PROMPT // 2 * size]
    for tokens in (prompt, prompt, half + offers.tokens(2), prompt, prompt + offers.tokens(1, size // 2), prompt):
        drained.prompt(tokens)
        drained.ask()


def scoped(drained: DrainedPrompts) -> None:
    """The same prompt twice under an adapter, another one twice under a salt: what one scope alone has is announced."""
    session = drained.session
    runner = Runner(session)
    salt = f"tenant-{session.offers.random.getrandbits(64):016x}"
    for lora, salted in (("7", None), (None, salt)):
        prompt = Prompt(tokens=session.offers.tokens(PROMPT), lora=lora, salt=salted)
        for _ in range(2):
            if not drained.over:
                runner.run(prompt)
                drained.drain()
        drained.ask()


def repeated(drained: DrainedPrompts) -> None:
    """One block's tokens again and again: each of these blocks is another one."""
    pattern = drained.session.offers.tokens(1)
    for _ in range(2):
        drained.prompt(pattern * PROMPT)


def evicted(drained: DrainedPrompts, prompt: list[int]) -> None:
    """Others until nothing of the prompt is left, now and then the prompt; then it comes back."""
    offers = drained.session.offers
    kept = offers.tokens(PROMPT)
    before = prompt
    for at in range(ROUNDS):
        filling = offers.tokens(FILLING, at)
        for tokens in (filling, kept, before):
            drained.prompt(tokens)
            drained.ask()
        before = filling
    for _ in range(CAPACITY // FILLING):
        drained.prompt(offers.tokens(FILLING))
    drained.ask()
    for tokens in (prompt, prompt, kept, kept):
        drained.prompt(tokens)
    drained.ask(last=True)


def reset(drained: DrainedPrompts, prompt: list[int]) -> None:
    """A reset between prompts that nobody waits for, and what is left after it."""
    offers = drained.session.offers
    if drained.over or "reset" not in drained.driver.can:
        return
    for _ in range(ROUNDS):
        drained.driver.cache(offers.tokens(PROMPT))
        drained.driver.reset()
        drained.driver.cache(prompt)
    drained.drain()
    drained.ask()
    for _ in range(2):
        drained.prompt(prompt)
    drained.ask()


def restarted(drained: DrainedPrompts, prompt: list[int]) -> None:
    """A new life of the publisher, asked for what the old one had: its engine can have kept it."""
    session = drained.session
    if drained.over or "restart" not in drained.driver.can:
        return
    stream = session.driven.name
    witnesses = session.recorder.witnesses(stream)
    before = {(stream, source.value): session.recorder.handshakes(stream, source) for source in witnesses}
    drained.driver.restart()
    session.offers.forget()
    if not (handshakes(session, before) and prime(session)):
        return
    drained.drain()
    if drained.blind:
        return
    if drained.driver.cache(prompt).cached_tokens:
        drained.prompt(prompt)
        drained.end()
        drained.idle()
        drained.ask()


def attack(session: Session) -> None:
    """All of it."""
    drained = DrainedPrompts(session)
    drained.begin()
    prompt = session.offers.tokens(PROMPT)
    shared(drained, prompt)
    scoped(drained)
    repeated(drained)
    evicted(drained, prompt)
    reset(drained, prompt)
    drained.end()
    restarted(drained, prompt)


def run(session: Session) -> None:
    """On another instance, with a small cache where it takes one; on the only one where no other can be started."""
    if "fresh" not in session.can:
        attack(session)
        return
    with attacked(session, "residency", Start(capacity=CAPACITY), Start()) as own:
        if own is not None:
            attack(own)


PROBE = Probe(
    name="residency",
    run=run,
    needs=frozenset({"cache"}),
    serves="CHN-003 CHN-004 HSH-006 HSH-008 RES-003 RES-005 RES-012 RES-013",
    must_survive=("KVW-RES-003",),
    bounds=f"prompts for a cache of {CAPACITY} blocks; each prompt's effects are awaited for settle_s",
)
