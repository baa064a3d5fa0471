"""What hangs from a sentence: judge, probes, mutants, honest peers, vectors, public reports, and who keeps it."""

from __future__ import annotations

import inspect
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec

from kvwire.attack.probes.catalog import PROBES
from kvwire.judges import JUDGES
from kvwire.judges.verdict import Verdict
from kvwire.peers.honest.catalog import HONEST
from kvwire.peers.mutant import Mutant
from kvwire.peers.mutants import MUTANTS
from kvwire.standard import registry
from kvwire.standard.registry import LEVELS, Requirement
from kvwire.vectors import access, sessions
from kvwire_generators.checkout import ROOT

REPORTS = Path(__file__).parent / "reports.toml"
NEEDS = {"passive": "a subscription", "replayable": "a replay socket", "os": "a look at the operating system"}
SAID = {
    Verdict.FAIL: "✗ broken by",
    Verdict.WARN: "✗ broken by",
    Verdict.INCONCLUSIVE: "open for",
    Verdict.PASS: "✓ kept by",
    Verdict.NOT_APPLICABLE: "not applicable to",
}
"""What is said of a real publisher, the worst first."""


class Report(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A public report: what was seen. ``sentences`` are ids, without ``KVW-``, of which no mutant names it."""

    symptom: str
    sentences: tuple[str, ...] = ()


class Implementation(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a sentence on a real publisher; ``page`` is where more is told, empty for our own."""

    name: str
    page: str
    verdict: Verdict
    reason: str


class About(msgspec.Struct, frozen=True, kw_only=True):
    """All of one sentence."""

    requirement: Requirement
    short: str
    chapter: str
    needs: tuple[str, ...]
    profiles: tuple[str, ...]
    judge: str
    reasoning: str
    unjudged: str
    probes: tuple[str, ...]
    mutants: tuple[Mutant, ...]
    heard_with: tuple[str, ...]
    honest: tuple[str, ...]
    broken_by_design: tuple[str, ...]
    vectors: tuple[tuple[str, int], ...]
    passes: int
    speaks: tuple[str, ...]
    reports: tuple[tuple[str, str], ...]
    implementations: tuple[Implementation, ...]

    @property
    def kept(self) -> int:
        """How many implementations keep it."""
        return sum(one.verdict is Verdict.PASS for one in self.implementations)

    @property
    def broken(self) -> int:
        """How many break it."""
        return sum(one.verdict in (Verdict.FAIL, Verdict.WARN) for one in self.implementations)

    @property
    def by_verdict(self) -> list[tuple[str, list[Implementation]]]:
        """The implementations, the worst first, with what is said of them."""
        said = dict.fromkeys(SAID.values())
        found = [(text, [one for one in self.implementations if SAID[one.verdict] == text]) for text in said]
        return [(text, ones) for text, ones in found if ones]


def reports() -> dict[str, Report]:
    """The public reports, by repository and number."""
    return msgspec.convert(tomllib.loads(REPORTS.read_text(encoding="utf-8")), dict[str, Report])


def shown_by(name: str, report: Report) -> tuple[str, ...]:
    """The ids that a report is about."""
    by_mutants = [mutant.primary for mutant in MUTANTS.values() if name in mutant.reports]
    return tuple(dict.fromkeys([*by_mutants, *(f"KVW-{short}" for short in report.sentences)]))


def everything() -> dict[str, About]:
    """All sentences, by id, in the order of the registry."""
    counts, passes, speaks = _vectors()
    seen = _implementations()
    told: dict[str, list[tuple[str, str]]] = {}
    for name, report in reports().items():
        for requirement_id in shown_by(name, report):
            told.setdefault(requirement_id, []).append((name, report.symptom))
    return {
        one.id: About(
            requirement=one,
            short=one.id.removeprefix("KVW-"),
            chapter=one.section.partition(":")[0],
            needs=tuple(NEEDS.get(need, f"the adapter verb `{need}`") for need in one.needs),
            profiles=tuple(name for name in registry.profiles() if one.id in registry.profile(name).ids),
            judge=JUDGES[one.id].place if one.id in JUDGES else "",
            reasoning=_reasoning(one.id),
            unjudged="" if one.id in JUDGES else f"{one.status}: {one.pending or one.review or one.untestable}",
            probes=tuple(probe.name for probe in PROBES if probe.aims_at([one.id])) if one.id in JUDGES else (),
            mutants=tuple(mutant for mutant in MUTANTS.values() if mutant.primary == one.id),
            heard_with=tuple(
                mutant.name
                for mutant in MUTANTS.values()
                if mutant.primary != one.id and any(one.id in mutant.expected[level] for level in LEVELS)
            ),
            honest=tuple(name for name, peer in HONEST.items() if one.id in peer.passes["driven"]),
            broken_by_design=tuple(name for name, peer in HONEST.items() if one.id in peer.breaks),
            vectors=tuple(sorted(counts.get(one.id, Counter()).items())),
            passes=passes[one.id],
            speaks=tuple(speaks.get(one.id, ())),
            reports=tuple(told.get(one.id, ())),
            implementations=seen.get(one.id, ()),
        )
        for one in registry.load().requirements
    }


def _reasoning(requirement_id: str) -> str:
    if requirement_id not in JUDGES:
        return ""
    doc = inspect.cleandoc(JUDGES[requirement_id].__doc__ or "")
    return " ".join(" ".join(part for part in doc.split("\n\n") if not part.startswith("KVW-")).split())


def _vectors() -> tuple[Mapping[str, Counter[str]], Counter[str], Mapping[str, list[str]]]:
    """Per sentence: how many tests of which file are about it, in how many sessions it passes, and where it speaks."""
    counts: dict[str, Counter[str]] = {}
    passes: Counter[str] = Counter()
    speaks: dict[str, list[str]] = {}
    for name in access.names():
        file = access.load(name)
        if f"{name}{access.SUFFIX}" != sessions.PATH:
            for test in file.tests:
                for requirement_id in test.requirements:
                    counts.setdefault(requirement_id, Counter())[name] += 1
            continue
        for group in file.groups:
            for test in group.tests:
                said = [pair for of_stream in sessions.verdicts(group, test).values() for pair in of_stream.items()]
                passes.update({key for key, verdict in said if isinstance(verdict, int)})
                for key in dict.fromkeys(key for key, verdict in said if verdict in (Verdict.FAIL, Verdict.WARN)):
                    speaks.setdefault(key, []).append(test.id.removeprefix(f"{sessions.KIND}-"))
    return counts, passes, speaks


def _implementations() -> Mapping[str, tuple[Implementation, ...]]:
    folder = str(ROOT / "implementations")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    import table

    seen: dict[str, list[Implementation]] = {}
    for name in table.NAMES:
        summary = table.read(name)
        if summary is None:
            continue
        why = table.explanations(name, summary)
        for key, verdict in summary.verdicts.items():
            seen.setdefault(key, []).append(
                Implementation(
                    name=name,
                    page="" if name in table.PLACES else f"implementations/{name}/README.md",
                    verdict=verdict,
                    reason=why.get(key, ""),
                )
            )
    return {key: tuple(found) for key, found in seen.items()}
