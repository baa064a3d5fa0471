"""The site: each sentence has its anchor and what hangs from it, links lead somewhere, nothing comes from afar."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from kvwire.peers.mutants import MUTANTS, REPORT
from kvwire.standard import registry
from kvwire_generators.site import facts, pages

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    return pages.site(ROOT)


@pytest.fixture(scope="module")
def source(made: dict[str, bytes]) -> dict[str, str]:
    return {name: content.decode("utf-8", "replace") for name, content in made.items()}


def test_each_sentence_stands_once_in_its_chapter_with_what_hangs_from_it(source: dict[str, str]) -> None:
    for one in registry.load().requirements:
        text = source[f"pages/spec/{one.section.partition(':')[0]}"]
        assert text.count(f' id="{one.id}"') == 1
        assert text.count(f' id="about-{one.id}"') == 1
        assert text.index(f' id="{one.id}"') < text.index(f' id="about-{one.id}"')
        assert f'#{one.id}"' in source["pages/sentences.md"]


def test_what_hangs_from_a_sentence_is_told(source: dict[str, str]) -> None:
    text = source["pages/spec/replay.md"]
    (panel,) = re.findall(r'<dl id="about-KVW-REP-001">.*?</dl>', text, re.DOTALL)
    for part in (
        "replay.answers",
        "replay-without-topic",
        "replay/answer",
        "vllm#45174",
        "vllm-0.23.0",
        "the form `replay",
    ):
        assert part.replace("`replay", "<code>replay") in panel, part
    assert re.search(r"✗ broken by</dt><dd><ul><li><a href=\"../implementations/vllm-0.23.0/index.html\">", panel)
    assert (
        "not judged" in re.findall(r"<summary><b>ENV-007</b>.*?</dl>", source["pages/spec/envelope.md"], re.DOTALL)[0]
    )


def test_mentions_of_sentences_lead_to_them(source: dict[str, str]) -> None:
    assert "[KVW-LIV-001](../spec/liveness.md#KVW-LIV-001)" in source["pages/docs/publisher.md"]
    assert "`kvwire::KVW-SEQ-001`" in source["pages/docs/ci.md"]


def test_every_report_that_a_mutant_names_is_told_and_each_is_of_something() -> None:
    told = facts.reports()
    assert {report for mutant in MUTANTS.values() for report in mutant.reports} <= set(told)
    known = registry.load()
    for name, report in told.items():
        assert REPORT.fullmatch(name)
        assert 20 < len(report.symptom) < 140
        shown = facts.shown_by(name, report)
        assert shown, f"{name}: no mutant names it; give it `sentences`"
        assert [key for key in shown if key not in known] == []


def test_what_others_wrote_is_shown_and_not_obeyed() -> None:
    assert str(pages.prose("<b>`x<y`\x1b[0m\n")) == "&lt;b&gt;<code>x&lt;y</code>\\x1b[0m\\n"


class Page(HTMLParser):
    """What a page refers to, what it loads, and what it may be referred to by."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids |= {str(given[name]) for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(str(given["href"]))
        elif tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(str(given.get("href")))
        elif tag in ("img", "script", "source", "iframe") and given.get("src"):
            self.loaded.append(str(given["src"]))


@pytest.mark.slow
def test_it_builds_and_every_link_leads_somewhere(made: dict[str, bytes], tmp_path: Path) -> None:
    if importlib.util.find_spec("material") is None:
        if os.environ.get("CI"):
            pytest.fail("mkdocs-material is missing: the dependency group `site` has it", pytrace=False)
        pytest.skip("mkdocs-material is not installed")
    for name, content in made.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    html = tmp_path / "html"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(tmp_path / "mkdocs.yml"), "-d", str(html)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    built = {path: Page(path.read_text(encoding="utf-8")) for path in html.rglob("*.html") if path.name != "404.html"}
    assert len(built) > 40
    broken = []
    for path, page in built.items():
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                assert link not in page.loaded, f"{path}: loads {link}"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and target in built and anchor not in built[target].ids):
                broken.append(f"{path.relative_to(html)}: {link}")
    assert broken == []
