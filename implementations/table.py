"""The table of README.md: requirement × implementation, from the verdicts that are committed beside each adapter.

`tox -e generate` writes it between the markers. Every FAIL, WARN and INCONCLUSIVE of an implementation has an entry
in its baseline.toml (`kvwire baseline`), whose reasons become the footnotes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from kvwire.conclusion import expected_failures
from kvwire.conclusion.expected_failures import Entry
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


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in verdicts.json: who was judged, held to what, of which form, driven how, and the verdicts by id."""

    implementation: str
    profile: str
    form: str
    level: str
    sets: tuple[str, ...]
    verdicts: dict[str, Verdict]


def read(name: str) -> Summary | None:
    """The committed summary of an implementation; None when there is none yet."""
    path = HOME / name / "verdicts.json"
    return msgspec.json.decode(path.read_bytes(), type=Summary) if path.exists() else None


def write(name: str, summary: Summary) -> None:
    """Write the summary of an implementation, one verdict a line."""
    (HOME / name / "verdicts.json").write_bytes(msgspec.json.format(msgspec.json.encode(summary), indent=1) + b"\n")


def baseline(name: str) -> Path:
    """The file of what is expected of an implementation."""
    return HOME / name / "baseline.toml"


def entries(name: str) -> tuple[Entry, ...]:
    """What is expected of an implementation."""
    return expected_failures.read(baseline(name), registry.load())


def explanations(name: str, summary: Summary) -> dict[str, str]:
    """Why each verdict is what it is, by id, where an entry is of that verdict."""
    return {entry.id: entry.reason for entry in entries(name) if entry.verdict == summary.verdicts.get(entry.id)}


def unexplained(name: str, summary: Summary) -> list[str]:
    """What the entries of an implementation lack or have too much, against a summary."""
    said = explanations(name, summary)
    file = f"implementations/{name}/baseline.toml"
    return [
        *(
            f"{key} is {verdict}: say why in {file}"
            for key, verdict in summary.verdicts.items()
            if verdict in EXPLAINED and not said.get(key, "").strip()
        ),
        *(
            f"{entry.id} is not {entry.verdict}: remove its entry from {file}"
            for entry in entries(name)
            if not entry.unsteady and entry.verdict != summary.verdicts.get(entry.id)
        ),
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

    def __init__(self, summaries: Mapping[str, Summary]) -> None:
        self.said = {name: explanations(name, summary) for name, summary in summaries.items()}
        self.names: dict[str, list[str]] = {}

    def mark(self, name: str, key: str) -> str:
        text = self.said[name][key]
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
    notes = _Notes(summaries)
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
        cells = [count([s.verdicts[r.id] for r in ids if r.id in s.verdicts]) for s in summaries.values()]
        rows.append(f"| **{area}** {TITLES[area]} | " + " | ".join(cells) + " |")
        for requirement in ids:
            verdicts = {
                name: s.verdicts[requirement.id] for name, s in summaries.items() if requirement.id in s.verdicts
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
        for key, text in explanations(name, summary).items():
            if summary.verdicts[key] is Verdict.INCONCLUSIVE:
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


def problems() -> list[str]:
    """What the explanations of the implementations lack or have too much."""
    return [line for name in NAMES if (summary := read(name)) for line in unexplained(name, summary)]
