"""Which runs are of one life of the publisher, and in which order the lives came.

Runs that share a batch, number and bytes, are kin: of one life; bytes that stand under several numbers, as those of
empty batches do where the clock stands still, show nothing once a disconnect was seen. Runs that hold different bytes
under one number are of different lives if a disconnect can have ended the first of them; without one the publisher used
the number twice, or changed a batch in replay, and that is for the judges. A replay answer belongs to the life that a
witness hears over an unbroken connection, and to one that answers tell of before and behind it: of batches that were
live before, with more than one time, so that no other life has sent them again. What nothing ties or parts is put into
one incarnation with a *seam* where they meet, if a disconnect lies there: a new life may have begun, or not.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from kvwire.history.segments import AnswerRun, Collected, Run, Sighting
from kvwire.wire.framing import stamp_of


class Kin:
    """Runs that are certainly of one life."""

    def __init__(self, run: Run) -> None:
        self.runs: list[Run] = []
        self.payloads: dict[int, Sighting] = {}
        self.first = run.first
        self.last = run.last
        self.add(run)

    def add(self, run: Run) -> None:
        """Add a run; the earliest live sighting of a number counts, else the earliest answer's."""
        self.runs.append(run)
        self.first = min(self.first, run.first)
        self.last = max(self.last, run.last)
        for number, seen in run.payloads.items():
            held = self.payloads.get(number)
            if held is None or (not isinstance(run, AnswerRun) and seen.record < held.record):
                self.payloads[number] = seen

    def compare(self, run: Run, common: Collection[bytes] = ()) -> tuple[int, list[int]]:
        """How many batches are shared, those of ``common`` bytes left aside; for each number with different bytes the
        record that showed the difference.
        """
        shared = 0
        differing: list[int] = []
        for number, seen in run.payloads.items():
            held = self.payloads.get(number)
            if held is not None:
                if held.payload == seen.payload:
                    shared += seen.payload not in common
                else:
                    differing.append(max(held.record, seen.record))
        return shared, differing

    def parted(self, other: Kin) -> bool:
        """Whether a number stands in both with different bytes."""
        few, many = sorted((self.payloads, other.payloads), key=len)
        return any(number in many and many[number].payload != seen.payload for number, seen in few.items())


class Life:
    """One incarnation: kin in order. ``seams`` are the numbers before which a new life may have begun."""

    def __init__(self, kin: Kin) -> None:
        self.kin = [kin]
        self._loose: list[Kin] = []
        """Kin that a disconnect may separate from those before."""

    @property
    def runs(self) -> list[Run]:
        """Every run."""
        return [run for kin in self.kin for run in kin.runs]

    def join(self, kin: Kin, *, loosely: bool) -> None:
        """Add kin that nothing parts from it."""
        self.kin.append(kin)
        if loosely:
            self._loose.append(kin)

    def seams(self) -> frozenset[int]:
        """The numbers before which a new life may have begun."""
        repeated = self._after_repeats()
        if not self._loose:
            return repeated
        part = 0
        of: dict[int, int] = {}
        for kin in self.kin:
            part += kin in self._loose
            of.update(dict.fromkeys(kin.payloads, part))
        numbers = sorted(of)
        return repeated | {after for before, after in itertools.pairwise(numbers) if of[before] != of[after]}

    def _after_repeats(self) -> frozenset[int]:
        """The first number that is new in each run that begins with what its witness had heard before."""
        found: set[int] = set()
        for run in self.runs:
            if run.again:
                earlier = [other for other in self.runs if other.source == run.source and other.first < run.first]
                new = [number for number in run.payloads if not any(number in other.payloads for other in earlier)]
                found.update(sorted(new)[:1])
        return frozenset(found)


def grouped(collected: Collected) -> list[Life]:
    """The lives of a stream, in order."""
    grouping = _Grouping(collected)
    for run in sorted(itertools.chain(*collected.live.values()), key=lambda run: run.first):
        grouping.place(run)
    for answer in collected.answers.values():
        grouping.place_answer(answer)
    return grouping.lives()


class _Grouping:
    def __init__(self, collected: Collected) -> None:
        self.collected = collected
        self.kin: list[Kin] = []
        self.next: dict[Run, Run] = {}
        self._told: dict[tuple[Run, AnswerRun], int | None] = {}
        for runs in collected.live.values():
            self.next.update(itertools.pairwise(runs))

    # kin

    def place(self, run: Run) -> None:
        """Put a live run to its kin."""
        breaks = self.collected.breaks
        self._unite(run, lambda differing: not breaks or max(differing) < breaks[0])

    def place_answer(self, answer: AnswerRun) -> None:
        """Put an answer to its kin: to that of a witness whose connection held, if there is one."""
        heard = [run for runs in self.collected.live.values() if (run := _current(runs, answer.first)) is not None]
        held = next((run for run in heard if self._held(run, answer) or self._went_on(run, answer)), None)
        if held is not None:
            next(kin for kin in self.kin if held in kin.runs).add(answer)
            return
        past = [run for run in heard if self._foreign(run, answer) or _lacks(answer, run)]
        answer.short = bool(past)
        if answer.payloads:
            unbroken = not self.collected.breaks
            over = self._kin_of(self._over(answer.first)) - self._kin_of(heard)
            self._unite(answer, lambda _: unbroken, without=over | self._kin_of(past))

    def _kin_of(self, runs: Iterable[Run]) -> set[Kin]:
        wanted = set(runs)
        return {kin for kin in self.kin if not wanted.isdisjoint(kin.runs)}

    def _over(self, record: int) -> list[Run]:
        """The runs of lives that were known to be over at a record: behind them a witness heard the number fall."""
        over: list[Run] = []
        for runs in self.collected.live.values():
            heard = [run for run in runs if run.first < record]
            fall = next((at for at in range(len(heard) - 1, -1, -1) if heard[at].fell), 0)
            over += heard[:fall]
        return over

    def _held(self, run: Run, answer: AnswerRun) -> bool:
        """Whether the connection over which a witness heard ``run`` held until the answer was over.

        The parent process can read the answer of a new life before it hears that the old one's connection ended; so
        a later end makes it uncertain too, unless the harness caused that end, nobody came back after it, or the
        answer fits the life that came back no better. A connection that died half open is never noticed: an answer
        that is short of what was live, and shares no batch with it, is another life's unless something came after it.
        """
        if run.open or self._foreign(run, answer):
            return False
        if run.broken is None:
            return True
        if run.broken < answer.last:
            return False
        if run not in self.next and not run.back:
            return True
        replaced = self.collected.replaced_within
        if replaced(answer.last, run.broken) and not replaced(run.first, answer.last):
            return True
        breaks = 0
        while run in self.next:
            breaks += run.breaks
            run = self.next[run]
            if run.fell:
                return breaks == 1 and run.differs(answer)
        return False

    def _went_on(self, run: Run, answer: AnswerRun) -> bool:
        """Whether the life of ``run``, heard before an answer was asked for, is told of by it, or by one that was asked
        for behind it: lives do not come back.
        """
        return any(
            (told := self._tells(run, other)) is not None and told < answer.first
            for other in self.collected.answers.values()
            if other is answer or other.first > answer.last
        )

    def _tells(self, run: Run, answer: AnswerRun) -> int | None:
        """The record at which a witness had heard enough of ``run`` for an answer to be of its life, if it ever did:
        shared batches with different times.
        """
        if (run, answer) not in self._told:
            self._told[run, answer] = self._shown(run, answer)
        return self._told[run, answer]

    def _shown(self, run: Run, answer: AnswerRun) -> int | None:
        stamp: bytes | None = None
        for number, seen in run.payloads.items():
            held = answer.payloads.get(number)
            if held is None or held.payload != seen.payload or (here := stamp_of(seen.payload)) is None:
                continue
            if stamp is not None and here != stamp:
                return seen.record
            stamp = here
        return None

    def _foreign(self, run: Run, answer: AnswerRun) -> bool:
        """Whether an answer, as far as it goes, is nothing of the life that a witness heard, and ended below it."""
        if (
            not answer.ended
            or not answer.payloads
            or not run.payloads
            or run.last > answer.first
            or max(answer.payloads) >= max(run.payloads)
        ):
            return False
        held = next(kin for kin in self.kin if run in kin.runs)
        shared, differing = held.compare(answer)
        return not shared and len(differing) == len(answer.payloads)

    def _unite(self, run: Run, forgiven: Callable[[list[int]], bool], without: Collection[Kin] = ()) -> None:
        """Put a run to all kin that it fits, except those ``without`` that it cannot be of, whatever they share.

        A difference that no disconnect can explain is forgiven.
        """
        homes: list[tuple[int, Kin]] = []
        for kin in self.kin:
            if kin in without:
                continue
            shared, differing = kin.compare(run, self.collected.common if self.collected.breaks else ())
            if (shared or differing) and (not differing or forgiven(differing)):
                homes.append((shared, kin))
        if not homes:
            self.kin.append(Kin(run))
            return
        homes.sort(key=lambda home: -home[0])
        home = homes[0][1]
        home.add(run)
        for _, other in homes[1:]:
            if not home.parted(other):
                for relative in other.runs:
                    home.add(relative)
                self.kin.remove(other)

    # lives

    def lives(self) -> list[Life]:
        """Kin in their order: as each witness heard them, and no answer before what was heard when it was asked for."""
        of = {run: kin for kin in self.kin for run in kin.runs}
        before: dict[Kin, set[Kin]] = defaultdict(set)
        for earlier, later in self.next.items():
            before[of[later]].add(of[earlier])
        for answer in self.collected.answers.values():
            if answer in of:
                before[of[answer]].update(kin for run, kin in of.items() if run.first < answer.first)
        lives: list[Life] = []
        waiting = sorted(self.kin, key=lambda kin: kin.first)
        while waiting:
            left = set(waiting)
            kin = next((kin for kin in waiting if not (before[kin] - {kin}) & left), waiting[0])
            waiting.remove(kin)
            if not lives or self._parted(lives[-1], kin):
                lives.append(Life(kin))
            else:
                lives[-1].join(kin, loosely=self._loose(lives[-1], kin))
        return lives

    def _loose(self, life: Life, kin: Kin) -> bool:
        """Whether a disconnect may separate kin from a life; that of an answer may not have been heard of yet."""
        answered = any(isinstance(run, AnswerRun) for run in (*life.runs, *kin.runs))
        return self.collected.broke_before(kin.last) or (answered and bool(self.collected.breaks))

    def _parted(self, life: Life, kin: Kin) -> bool:
        """Whether kin cannot be of a life: other bytes, an answer that lacks what it had reached, or a fall, be it one
        to bytes that an earlier life has under that number.
        """
        if any(held.parted(kin) for held in life.kin):
            return True
        if all(isinstance(run, AnswerRun) and run.short for run in kin.runs):
            return True
        known = {number for held in life.kin for number in held.payloads}
        return any(
            later in kin.runs and (later.fell or (later.again and later.sightings[0].number not in known))
            for run in life.runs
            if (later := self.next.get(run)) is not None
        )


def _lacks(answer: AnswerRun, run: Run) -> bool:
    """Whether an answer ended below what a witness had heard when it was asked for: it is not of that life."""
    newest = max((number for number, seen in run.payloads.items() if seen.record < answer.first), default=-1)
    if not answer.ended or answer.start is None:
        return False
    return answer.start <= newest and max(answer.payloads, default=-1) < newest


def _current(runs: list[Run], record: int) -> Run | None:
    """The run that a witness was hearing at a record."""
    return next((run for run in reversed(runs) if run.first < record), None)
