"""The table of README.md: requirement × implementation, from the verdicts that are committed beside each adapter.

``python table.py`` writes it between the markers. Every FAIL, WARN and INCONCLUSIVE of an implementation has a line of
explanation in its baseline.toml; those of the table become footnotes.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kvwire.judges.verdict import Verdict
from kvwire.standard import registry
from kvwire.standard.registry import AREAS, Requirement

HOME = Path(__file__).parent
README = HOME.parent / "README.md"
BEGIN, END = "<!-- table:begin -->\n", "<!-- table:end -->\n"
NAMES = ("reference", "vllm", "vllm-0.32.0", "vllm-0.23.0", "vllm-engine", "sglang", "dynamo-trtllm", "dynamo-mocker")
"""The columns, each a folder here; the reference is our own, and what the others are held against."""
PLACES = {"reference": "reference/kvwire_reference"}
"""Where the title of a column leads, if not to the folder here."""
EXPLAINED = (Verdict.FAIL, Verdict.WARN, Verdict.INCONCLUSIVE)
"""What needs an explanation."""
BROKEN = (Verdict.FAIL, Verdict.WARN)
"""What puts a sentence into the table."""
UNSTEADY = "unsteady"
"""The section of baseline.toml with verdicts that vary from run to run or machine to machine."""
SIGNS = {
    Verdict.PASS: "✓",
    Verdict.FAIL: "✗",
    Verdict.WARN: "warn",
    Verdict.INCONCLUSIVE: "?",
    Verdict.NOT_APPLICABLE: "–",
}
LEGEND = (
    "✓ kept, on at least one occasion on which it could have been broken · ✗ a MUST broken · warn: a SHOULD broken · "
    "? open: nothing was seen that could have broken it, or not enough · – not applicable: not claimed, out of the "
    "harness's reach, or chosen by the harness. Sentences that nobody breaks are only counted, by area. "
    "Where the harness chose the events, one that is not on the wire as it was offered is the publisher's own, and is "
    "judged in full. A stream in a legacy form does not conform to edition 1, whatever it keeps."
)
TITLES = dict(
    zip(
        AREAS,
        (
            "envelope",
            "numbers, loss, restart",
            "batch",
            "event",
            "parents",
            "hashes",
            "residency",
            "replay",
            "rank",
            "endpoints",
            "liveness",
            "exposure",
        ),
        strict=True,
    )
)


class Entry(NamedTuple):
    """The verdict on one sentence: with its reason, or what the first finding expected and saw; numbers left out."""

    verdict: Verdict
    said: tuple[str, ...] = ()


class Summary(NamedTuple):
    """What stands in verdicts.json: who was judged, held to what, of which form, driven how, and the verdicts by id."""

    implementation: str
    profile: str
    form: str
    level: str
    sets: Sequence[str]
    verdicts: Mapping[str, Entry]


def read(name: str) -> Summary | None:
    """The committed summary of an implementation; None when there is none yet."""
    path = HOME / name / "verdicts.json"
    if not path.exists():
        return None
    raw = json.loads(path.read_text(encoding="utf-8"))
    verdicts = {key: Entry(Verdict(verdict), tuple(said)) for key, (verdict, *said) in raw.pop("verdicts").items()}
    return Summary(verdicts=verdicts, **raw)


def write(name: str, summary: Summary) -> None:
    """Write the summary of an implementation, one verdict a line."""
    head = summary._asdict() | {"sets": list(summary.sets), "verdicts": {}}
    lines = [
        f"  {json.dumps(key)}: {json.dumps([*entry[:1], *entry.said], ensure_ascii=False)}"
        for key, entry in summary.verdicts.items()
    ]
    text = json.dumps(head, indent=1, ensure_ascii=False)
    text = text.replace('"verdicts": {}', '"verdicts": {\n' + ",\n".join(lines) + "\n }")
    (HOME / name / "verdicts.json").write_text(text + "\n", encoding="utf-8")


def _baseline(name: str) -> dict[str, Any]:
    path = HOME / name / "baseline.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def unsteady(name: str) -> dict[str, list[Verdict]]:
    """The verdicts that a sentence may have in a run besides the committed one, by id."""
    resolve = registry.load().resolve
    return {resolve(key): list(map(Verdict, others)) for key, others in _baseline(name).get(UNSTEADY, {}).items()}


def steadied(name: str, committed: Summary | None, seen: Summary) -> Summary:
    """What was seen, with the committed verdict where the baseline says that it may be the other one."""
    kept = {
        key: committed.verdicts[key]
        for key, others in unsteady(name).items()
        if committed is not None and key in committed.verdicts
        if key in seen.verdicts and seen.verdicts[key].verdict in others
    }
    return seen._replace(verdicts={**seen.verdicts, **kept})


def explanations(name: str) -> dict[str, tuple[Verdict, str]]:
    """Verdict and explanation by id, as baseline.toml says; an id that stands under two verdicts is an error.

    Raises:
        UnknownNameError: for an id that the standard does not have.
    """
    path = HOME / name / "baseline.toml"
    resolve = registry.load().resolve
    found: dict[str, tuple[Verdict, str]] = {}
    for verdict, lines in _baseline(name).items():
        for written, text in lines.items() if verdict != UNSTEADY else ():
            key = resolve(written)
            if key in found:
                raise ValueError(f"{path}: {key} stands under {found[key][0]} and under {verdict.upper()}")
            found[key] = (Verdict(verdict.upper()), text)
    return found


def unexplained(name: str, summary: Summary) -> list[str]:
    """What the explanations of an implementation lack or have too much, against a summary."""
    said = explanations(name)
    file = f"implementations/{name}/baseline.toml"
    wanted = {key: entry.verdict for key, entry in summary.verdicts.items() if entry.verdict in EXPLAINED}
    return [
        *(
            f"{key} is {verdict}: say why in {file}, under [{verdict.lower()}]"
            for key, verdict in wanted.items()
            if said.get(key, ("",))[0] != verdict
        ),
        *(
            f"{key} is not {verdict}: remove its line from {file}"
            for key, (verdict, _) in said.items()
            if wanted.get(key) != verdict
        ),
        *(f"{key}: its explanation in {file} is empty" for key, (_, text) in said.items() if not text.strip()),
    ]


# --- the table ---------------------------------------------------------------------------------------------------


def short(requirement: Requirement) -> str:
    """A sentence without its subject."""
    return requirement.sentence.removeprefix("A publisher ").replace("|", "\\|")


def count(verdicts: Sequence[Verdict]) -> str:
    """How often which verdict, in a few signs."""
    counts = Counter(verdicts)
    return " ".join(f"{counts[verdict]} {sign}" for verdict, sign in SIGNS.items() if counts[verdict]) or "–"


def head(name: str, summary: Summary) -> str:
    """The title of a column: name and version."""
    if name in PLACES:
        return f"[{name}]({PLACES[name]})"
    version = summary.implementation.rsplit(" ", 1)[-1]
    return f"[{name.removesuffix(f'-{version}')}](implementations/{name}/README.md) {version}"


class _Notes:
    """Footnotes, numbered as they come; one for each thing that is said, of one implementation or of several."""

    def __init__(self) -> None:
        self.names: dict[str, list[str]] = {}

    def mark(self, name: str, key: str) -> str:
        text = explanations(name)[key][1]
        names = self.names.setdefault(text, [])
        if name not in names:
            names.append(name)
        return f"<sup>{list(self.names).index(text) + 1}</sup>"

    @property
    def lines(self) -> list[str]:
        return [f"{number}. {', '.join(names)}: {text}" for number, (text, names) in enumerate(self.names.items(), 1)]


def render() -> str:
    """The table with legend and footnotes, in Markdown."""
    summaries = {name: summary for name in NAMES if (summary := read(name)) is not None}
    notes = _Notes()
    rows = [
        "| sentence | " + " | ".join(head(name, summary) for name, summary in summaries.items()) + " |",
        "|---" * (len(summaries) + 1) + "|",
        "| | " + " | ".join(_how(summary) for summary in summaries.values()) + " |",
    ]
    judged = [r for r in registry.load().binding("publisher") if any(r.id in s.verdicts for s in summaries.values())]
    for area in AREAS:
        ids = [requirement for requirement in judged if requirement.area == area]
        if not ids:
            continue
        cells = [count([s.verdicts[r.id].verdict for r in ids if r.id in s.verdicts]) for s in summaries.values()]
        rows.append(f"| **{area}** {TITLES[area]} | " + " | ".join(cells) + " |")
        for requirement in ids:
            verdicts = {
                name: s.verdicts[requirement.id].verdict
                for name, s in summaries.items()
                if requirement.id in s.verdicts
            }
            if not set(verdicts.values()) & set(BROKEN):
                continue
            cells = [
                _cell(name, requirement.id, verdicts.get(name, Verdict.NOT_APPLICABLE), notes) for name in summaries
            ]
            label = requirement.id.removeprefix("KVW-")
            rows.append(f"| {label} {short(requirement)} | " + " | ".join(cells) + " |")
    return "\n".join([*rows, "", LEGEND, "", *notes.lines, "", *_open(summaries), ""])


def _open(summaries: Mapping[str, Summary]) -> list[str]:
    """What stays open of each implementation, and why."""
    lines: dict[str, list[str]] = {}
    for name, summary in summaries.items():
        why: dict[str, list[str]] = {}
        for key, (verdict, text) in explanations(name).items():
            if verdict is Verdict.INCONCLUSIVE and key in summary.verdicts:
                why.setdefault(text, []).append(key.removeprefix("KVW-"))
        if why:
            lines.setdefault("; ".join(f"{', '.join(keys)}: {text}" for text, keys in why.items()), []).append(name)
    return [f"- ? {', '.join(names)}: {line}" for line, names in lines.items()]


def _how(summary: Summary) -> str:
    chosen = "events chosen by the harness" if "engine" in summary.sets else "its own engine"
    form = "" if summary.form == "map" else f", legacy form {summary.form}"
    return f"profile {summary.profile}{form}, {summary.level}, {chosen}"


def _cell(name: str, key: str, verdict: Verdict, notes: _Notes) -> str:
    return SIGNS[verdict] + (notes.mark(name, key) if verdict in BROKEN else "")


def replaced(text: str, table: str) -> str:
    """The text of a README with the table between its markers, which are put at the end when they are missing."""
    if BEGIN not in text:
        text = f"{text.rstrip()}\n\n{BEGIN}{END}"
    before, _, rest = text.partition(BEGIN)
    _, marker, after = rest.partition(END)
    if not marker:
        raise ValueError(f"{BEGIN.strip()} without {END.strip()}")
    return f"{before}{BEGIN}\n{table}{END}{after}"


if __name__ == "__main__":
    if problems := [line for name in NAMES if (summary := read(name)) for line in unexplained(name, summary)]:
        raise SystemExit("\n".join(problems))
    README.write_text(replaced(README.read_text(encoding="utf-8"), render()), encoding="utf-8")
