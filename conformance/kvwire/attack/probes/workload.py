"""Work for a publisher: prompts where there is an engine, batches where there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from kvwire.attack.probes.kit.drained_prompts import DrainedPrompts
from kvwire.attack.probes.kit.offers import Event, Offers
from kvwire.attack.probes.kit.session import Probe, Session
from kvwire.attack.probes.kit.tagged_batches import AGAIN_S
from kvwire.attack.probes.live import HEARD
from kvwire.standard.protocol import Failed, Refused
from kvwire.trace.marks import TailDone

ID_OFFSET = 262_144
"""Where the ids of digest tokens begin: the reference's default, above every text token."""
PREFIX_BLOCKS = 4
LONG_BLOCKS = 8
TURNOVER = 1.5
"""How many times the capacity is filled, so that blocks are evicted."""
UNKNOWN_CAPACITY = 512
"""Blocks that are taken for the capacity where it is not known."""

RETAINED = "SEQ-001 REP-001 REP-002 REP-008 REP-013"
"""Sentences that take something to be replayed."""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt: tokens (a digest token as its hex digits), reuse scope, multimodal items."""

    tokens: Sequence[int | str]
    lora: str | None = None
    salt: str | None = None
    mm: tuple[dict[str, Any], ...] = ()

    @property
    def features(self) -> frozenset[str]:
        """What it has besides tokens."""
        return frozenset(name for name in ("lora", "salt", "mm") if getattr(self, name))

    @property
    def scoped(self) -> bool:
        """Whether it has a reuse scope of its own."""
        return self.lora is not None or self.salt is not None


# prompts


def prompts(offers: Offers) -> list[Prompt]:
    """A mixed bag: shared prefixes, whole blocks and broken ones, repeats, reuse scopes, a multimodal item."""
    size = offers.block_size
    prefix = offers.tokens(PREFIX_BLOCKS)
    plain = [prefix + offers.tokens(2, extra) for extra in (0, 0, 1, size - 1)]
    plain += [prefix, prefix[:size], prefix[: max(1, size - 1)], prefix + offers.tokens(1), plain[0] + offers.tokens(1)]
    known = offers.vocabulary
    other = known[(known.index(prefix[-1]) + 1) % len(known)]
    plain.append([*prefix[:-1], other])  # its last block differs in the last token only
    plain.append([*prefix[:-2], prefix[-1], prefix[-2]])  # and here in the order of its tokens
    bag = [Prompt(tokens=tokens) for tokens in plain]
    scoped = plain[0]
    salts = [f"tenant-{offers.random.getrandbits(64):016x}" for _ in range(2)]
    bag += [Prompt(tokens=scoped, salt=salt) for salt in salts]
    bag += [Prompt(tokens=scoped, lora="7"), Prompt(tokens=scoped, lora=str(2**40 + 7), salt=salts[0])]
    # What goes on under a scope names its parent, which tells whose hash that is even where it is announced once.
    scopes = bag[len(plain) :]
    bag += [msgspec.structs.replace(prompt, tokens=[*scoped, *offers.tokens(1)]) for prompt in scopes]
    image = multimodal(offers, prefix)
    bag += [Prompt(tokens=plain[1], salt=salts[0]), bag[0], bag[2], image, with_other_digest(offers, image)]
    secret = offers.tokens(1)  # tokens that run with one salt only, and go on in another store
    bag += [Prompt(tokens=tokens, salt=salts[1]) for tokens in (secret, secret + offers.tokens(1))]
    return bag


def with_other_digest(offers: Offers, prompt: Prompt) -> Prompt:
    """The same prompt with another item of equal length in its place."""
    digest = offers.random.randbytes(32).hex()
    tokens = [digest if isinstance(token, str) else token for token in prompt.tokens]
    return msgspec.structs.replace(prompt, tokens=tokens, mm=tuple({**item, "digest": digest} for item in prompt.mm))


def adapters(bag: Sequence[Prompt]) -> list[Prompt]:
    """The same tokens under two adapters, and more of them below."""
    shared, other = bag[0].tokens, bag[1].tokens
    loras = ("7", str(2**40 + 7))
    return [Prompt(tokens=tokens, lora=lora) for tokens in (shared, other) for lora in loras]


def multimodal(offers: Offers, prefix: Sequence[int]) -> Prompt:
    """A prompt with an item that begins within a block and reaches over the next one."""
    size = offers.block_size
    digest = offers.random.randbytes(32).hex()
    length = size + 1
    before, after = offers.tokens(0, size - 1), offers.tokens(1, 2)
    position = len(prefix) + len(before)
    item = [digest, *range(ID_OFFSET + 1, ID_OFFSET + length)]
    return Prompt(
        tokens=[*prefix, *before, *item, *after],
        mm=({"digest": digest, "runs": [[position, length]]},),
    )


class Runner:
    """Runs prompts; what the adapter refuses once, or its engine dies of, is not asked again."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.refused: set[str] = set(session.unserved)

    def run(self, prompt: Prompt) -> None:
        driver = self.session.driver
        assert driver is not None
        features = prompt.features
        if features & self.refused:
            return
        try:
            driver.cache(prompt.tokens, lora=prompt.lora, salt=prompt.salt, mm=prompt.mm)
        except (Refused, Failed) as error:
            if not features:
                raise
            if isinstance(error, Failed):
                self.session.trouble(
                    f"a prompt with {' and '.join(sorted(features))}: {error}", self.session.driven.name
                )
            self.refused |= features if len(features) == 1 else set()

    def fill(self, blocks: int) -> None:
        """Distinct prompts that together hold so many blocks."""
        offers = self.session.offers
        for index in range(min(-(-blocks // LONG_BLOCKS), self.session.limits.prompts)):
            if self.session.left() <= 0:
                return
            self.run(Prompt(tokens=offers.tokens(LONG_BLOCKS, index % 3)))


def run_prompts(session: Session) -> None:
    """The mixed bag, enough others to evict it, the bag again; after a reset once more."""
    driver = session.driver
    assert driver is not None
    runner = Runner(session)
    bag = prompts(session.offers)

    def work() -> None:
        calm = False
        for prompt in bag:
            # What is seen later than the next prompt began can be that one's. The first prompt and those in a scope of
            # their own are what tells scopes apart: it has to be known for whom their blocks are stored.
            if calm or prompt.scoped:
                session.settle()
            calm = prompt.scoped or prompt is bag[0]
            runner.run(prompt)

    work()
    runner.fill(int(TURNOVER * (session.start.capacity or UNKNOWN_CAPACITY)))
    drained = DrainedPrompts(session)

    def compare() -> None:
        session.settle()
        drained.ask(complete=False)

    work()
    compare()
    if "reset" in driver.can:
        driver.reset()
        work()
    compare()
    for prompt in adapters(bag):
        runner.run(prompt)
    session.settle()


def few_prompts(session: Session) -> None:
    """A handful of prompts."""
    runner = Runner(session)
    for prompt in prompts(session.offers)[:6]:
        runner.run(prompt)


# batches


Maker = Callable[[], Event]


def _steps(offers: Offers) -> tuple[tuple[Maker, ...], ...]:
    """The kinds of batches, in the order in which they come round, as what makes their events."""
    root, extend, remove, again = offers.root, offers.extend, offers.remove, offers.again
    return (
        (lambda: root(3),),
        (lambda: extend(2),),
        (lambda: root(2, lora_id=7),),
        (lambda: extend(1), lambda: root(1)),
        (),
        (lambda: remove(2),),
        (lambda: root(1), lambda: remove(1), lambda: extend(4)),
        (again,),
        (lambda: remove(1), again),
        (lambda: extend(3),),
    )


class _Publishing:
    """Offers batches; what the adapter refuses once is not offered again."""

    def __init__(self, session: Session) -> None:
        assert session.driver is not None
        self.driver = session.driver
        self.offers = session.offers
        self.accepted = 0
        self.refused: dict[Maker | None, Refused] = {}
        self.single = False
        """Whether several events at once were refused, and each of them alone was not."""

    def offer(self, makers: Sequence[Maker]) -> None:
        """Offer one batch, or one for each of its events where the publisher takes no several."""
        key = makers[0] if makers else None
        if len(makers) > 1 and (self.single or not self._offer(makers)):
            before = self.accepted
            for maker in makers:
                self.offer((maker,))
            self.single = self.single or self.accepted == before + len(makers)
        elif len(makers) < 2 and key not in self.refused:
            self._offer(makers)

    def _offer(self, makers: Sequence[Maker]) -> bool:
        try:
            with self.offers.unless_refused():
                self.driver.publish(self.offers.batch(*[make() for make in makers]))
        except Refused as refusal:
            if len(makers) < 2:
                self.refused[makers[0] if makers else None] = refusal
            return False
        self.accepted += 1
        return True


def run_batches(session: Session) -> None:
    """Stores, removals, a clear in the middle, empty batches; each batch is another one.

    Beside an engine of its own the publisher is offered empty batches only: what the engine holds is the engine's.
    """
    if "cache" in session.can:
        driver = session.driver
        assert driver is not None
        for _ in range(session.limits.batches // 3):
            driver.publish(session.offers.batch())
    else:
        publish(session, session.limits.batches)
    session.settle()
    _await_any(session)


def _await_any(session: Session) -> None:
    """Where nothing was heard of what was offered, wait for it until it is certain, and record what was in vain."""
    stream = session.driven.name
    for attempt in session.attempts():
        bound = AGAIN_S if attempt else session.limits.settle_s
        if session.wait(lambda: session.recorder.newest(stream) is not None, bound):
            break
        session.mark(TailDone(outcome="bound", after_s=bound, bound_s=bound), stream)


def publish(session: Session, count: int) -> None:
    """Offer so many batches, with a clear in the middle.

    Raises:
        Refused: when the adapter refused every one.
    """
    offers = session.offers
    publishing = _Publishing(session)
    steps = _steps(offers)
    for index in range(count):
        if session.left() <= 0:
            return
        middle = index == count // 2
        publishing.offer((offers.clear, lambda: offers.root(1)) if middle else steps[index % len(steps)])
    if not publishing.accepted and publishing.refused:
        raise next(iter(publishing.refused.values()))


def some(session: Session) -> None:
    """A little work of whatever kind the adapter can do."""
    if "cache" in session.can:
        few_prompts(session)
    elif "publish" in session.can:
        publish(session, 12)


PROMPTS = Probe(
    name="prompts",
    mode="quick",
    run=run_prompts,
    needs=frozenset({"cache"}),
    serves=f"{HEARD} {RETAINED} RES-003",
    bounds="at most `prompts` prompts; what they cause is awaited for settle_s",
)
BATCHES = Probe(
    name="batches",
    mode="quick",
    run=run_batches,
    needs=frozenset({"publish"}),
    serves=f"{HEARD} {RETAINED} SEQ-002 SEQ-009",
    bounds="`batches` batches; they are awaited for settle_s",
)
