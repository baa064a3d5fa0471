"""The page in a browser: accessible, in light and dark, filtering, and quick with very many findings."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
from html import unescape
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from tests.conclusion.test_notices import RANKS, rounds, trace
from tests.conclusion.test_summary import told
from tests.kit.needs import needs_program
from tests.report.test_faces import RESULTS, broken, concluded

from kvwire.conclusion.result import NoClaim, Result
from kvwire.report.evidence import look
from kvwire.report.faces import face
from kvwire.report.words import NO_CLAIM
from kvwire.trace.records import Trace

LOADED_S = 100


@pytest.fixture(scope="module")
def chromium() -> str:
    return needs_program("chromium")


def dumped(chromium: str, page: str, script: str, folder: Path, *flags: str) -> Any:
    """What a script in the page gives, as JSON, after the page's own has run."""
    shown = "(v) => { document.body.textContent = JSON.stringify(v); }"
    asked = f"<script>(async () => {{ {script} }})().then({shown})</script>"
    file = folder / "page.html"
    file.write_text(page.replace("</body>", asked + "</body>"), encoding="utf-8")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", *flags]
    command += [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=20000", "--dump-dom", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LOADED_S, check=True)
    body = re.search(r"<body>(.*)</body>", done.stdout, re.DOTALL)
    assert body is not None, done.stdout[-2000:]
    return json.loads(unescape(body[1]))


def axe() -> str:
    spec = importlib.util.find_spec("axe_core_python")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "axe.min.js").read_text(encoding="utf-8")


def page(*reports: Result) -> str:
    return face(list(reports), "html").decode()


@pytest.mark.parametrize("why", get_args(NoClaim))
def test_why_a_run_makes_no_claim_is_said_in_words(why: NoClaim) -> None:
    report = RESULTS["quick"]
    summary = msgspec.structs.replace(report.summary, no_claim=[why])
    said = page(msgspec.structs.replace(report, summary=summary))
    assert f"This run makes no claim of conformance: {NO_CLAIM[why]}." in said


def recorded(made: Trace) -> str:
    report = concluded(made)
    return face([report], "html", [look(report, made.header, made.records)]).decode()


RECORDED = told(broken())
PAGES = {
    "broken": lambda: recorded(RECORDED),
    "silent": lambda: page(RESULTS["silent"]),
    "matrix": lambda: page(RESULTS["broken"], RESULTS["conformant"], RESULTS["lost"]),
    "ranks": lambda: page(concluded(trace(rounds(RANKS, 4), names=RANKS, end=1.3))),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_that_keeps_readers_out(chromium: str, name: str, scheme: str, tmp_path: Path) -> None:
    script = (
        "document.querySelectorAll('details').forEach((d) => { d.open = true; });"
        "const found = await axe.run({ resultTypes: ['violations'] });"
        "return { dark: matchMedia('(prefers-color-scheme: dark)').matches,"
        " found: found.violations.map((v) => [v.id, v.help, v.nodes.slice(0, 3).map((n) => n.html)]) };"
    )
    text = PAGES[name]().replace("</body>", f"<script>{axe()}</script></body>")
    flags = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    seen = dumped(chromium, text, script, tmp_path, *flags)
    assert seen["dark"] == (scheme == "dark")
    assert seen["found"] == []


def test_filters_and_links_lead_to_what_they_name(chromium: str, tmp_path: Path) -> None:
    script = """
      const form = document.querySelector('form.filter');
      const seen = () => [...document.querySelectorAll('details.sentence[data-verdict]')].filter((r) => !r.hidden);
      const change = (name, value) => {
        const field = form.elements[name];
        if (field.type === 'checkbox') field.checked = value; else field.value = value;
        form.dispatchEvent(new Event('input'));
      };
      const all = seen().length;
      change('pass', false);
      const without = seen().map((r) => r.dataset.verdict);
      change('pass', true); change('words', 'stored resident');
      const words = seen().length, said = form.querySelector('output').textContent;
      location.hash = '#r1-KVW-RES-001';
      await new Promise((done) => setTimeout(done, 100));
      return { all, without, words, said, open: document.getElementById('r1-KVW-RES-001').open };
    """
    seen = dumped(chromium, page(RESULTS["broken"]), script, tmp_path)
    assert "pass" not in seen["without"]
    assert "fail" in seen["without"]
    assert 0 < seen["words"] < seen["all"]
    assert seen["said"].startswith(f"{seen['words']} of {seen['all']}")
    assert seen["open"]


def test_nothing_is_wider_than_a_phone(chromium: str, tmp_path: Path) -> None:
    script = "return [document.documentElement.scrollWidth, innerWidth];"
    for name in ("broken", "matrix"):
        folder = tmp_path / name
        folder.mkdir()
        wide, window = dumped(chromium, PAGES[name](), script, folder, "--window-size=500,900")
        assert wide <= window, name


def test_ten_thousand_findings_are_a_page_that_a_browser_opens(chromium: str, tmp_path: Path) -> None:
    report = RESULTS["broken"]
    worst = next(outcome for outcome in report.outcomes if outcome.findings)
    many = tuple(
        msgspec.structs.replace(
            outcome, stream=f"rank-{rank}", verdict=worst.verdict, findings=worst.findings * 3, violations=3
        )
        for outcome in report.outcomes
        for rank in range(32)
    )
    assert sum(len(outcome.findings) for outcome in many) > 10_000
    text = page(msgspec.structs.replace(report, outcomes=many))
    assert len(text) < 4_000_000
    assert dumped(chromium, text, "return document.querySelectorAll('dl.finding').length;", tmp_path) > 1000
