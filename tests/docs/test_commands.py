"""The commands of the pages, run: in a folder with the files that they name, streams in the place of publishers.

What takes a publisher, an adapter or minutes is run elsewhere: there its target is read, and nothing more.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.docs.test_pages import DOCS, block, blocks, commands

from kvwire import cli
from kvwire.attack import targets
from kvwire.judges.verdict import Exit
from kvwire.standard import resources

LIVE = ("check", "record", "watch", "serve", "selftest", "spec", "mutants matrix")
"""What needs a publisher, minutes or a checkout that nobody else works in."""
DONE = (Exit.CONFORMANT, Exit.NOT_CONFORMANT, Exit.INCONCLUSIVE)
STREAM = "two-ranks"


def on_pages() -> list[Any]:
    found = dict.fromkeys((page.name, text) for page in sorted(DOCS.glob("*.md")) for text in commands(page))
    return [pytest.param(text, id=f"{name}: {text[:60]}") for name, text in found]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the pages speak of it."""
    home = tmp_path_factory.mktemp("pages")
    session = resources.vectors() / "session" / f"{STREAM}.kvtrace"
    (home / "recordings").mkdir()
    for name in ("run.kvtrace", "kv.kvtrace", "recordings/one.kvtrace"):
        shutil.copy(session, home / name)
    for name in ("kv.mcap", "long.mcap.0001"):
        assert cli.run(["convert", str(session), "-o", str(home / "made.mcap")]) == Exit.CONFORMANT
        (home / "made.mcap").rename(home / name)
    for name in ("run.json", "one.json", "other.json", "watch.ndjson", "kvwire.ndjson"):
        assert cli.run(["judge", str(home / "run.kvtrace"), "--quiet", "--json", str(home / name)]) in DONE
    assert cli.run(["judge", str(home / "kv.mcap"), "--quiet", "--json", str(home / "result.ndjson")]) in DONE
    assert cli.run(["judge", str(home / "recordings"), "--quiet", "--json", str(home / "fleet.ndjson")]) in DONE
    (home / "router.toml").write_text('block_size = 16\ntopic = "kv-events"\n', encoding="utf-8")
    (home / "prompt.txt").write_text(",".join(map(str, range(32))), encoding="utf-8")
    (home / "key").write_bytes(bytes(range(32)))
    (home / "requests.py").write_text(blocks("vectors.md", "python")[1], encoding="utf-8")
    (home / "kvwire-expected.toml").write_text(block("ci.md", "toml"), encoding="utf-8")
    return home


def read(words: list[str]) -> None:
    """Read the target of a command that is not run."""
    for word in words:
        if word.startswith(("zmq:", "exec:", "mutant:", "honest:")):
            place = targets.parse(word.replace("HOST", "127.0.0.1").replace("./adapter", "python adapter.py"))
            if "--drive" in words:
                targets.drive(place, words[words.index("--drive") + 1].replace("HOST", "127.0.0.1"))


def runnable(words: list[str], home: Path) -> list[str]:
    """The words with a recording for each publisher, and files for patterns."""
    given: list[str] = []
    for word in words:
        if word.startswith("zmq:"):
            given.append("run.kvtrace")
        elif "*" in word:
            given += sorted(path.name for path in home.glob(word))
        else:
            given.append(sys.executable if word == "python" else word)
    return given


@pytest.mark.parametrize("text", on_pages())
def test_each_command_of_the_pages_does_what_it_says(
    text: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(text.replace("{envpython}", "python"))[1:]
    if any(" ".join(words).startswith(name) for name in LIVE) or {"--drive", "--curve-keys"} & set(words):
        return read(words)
    if "kv.pcap" in words or words[-1] in ("my_hashes.py", "./my_hashes"):
        return None  # a capture, and a program that readers have
    home = tmp_path / "home"
    shutil.copytree(folder, home)
    monkeypatch.chdir(home)
    if "--check" in words:
        assert cli.run([word for word in words if word != "--check"]) == Exit.CONFORMANT
    assert cli.run(runnable(words, home)) in DONE, capfd.readouterr().err
    shown = capfd.readouterr()
    assert shown.out or any(flag in words for flag in ("-o", "--json", "--quiet")), shown.err
    for flag in ("-o", "--json", "--html", "--junit", "--draft"):
        if flag in words and not words[words.index(flag) + 1].startswith("-"):
            assert (home / words[words.index(flag) + 1]).stat().st_size
    return None
