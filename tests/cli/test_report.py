"""``kvwire report``, and the files that ``check`` and ``judge`` write beside their report."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kvwire import cli
from kvwire.cli import judge
from kvwire.judges.verdict import Exit
from kvwire.standard import resources
from kvwire.trace.records import TraceError


@pytest.fixture
def trace() -> str:
    """The stored session of a mutant."""
    return str(resources.vectors() / "session" / "mutant-integer-ts.kvtrace")


@pytest.fixture
def stored(trace: str, tmp_path: Path) -> Path:
    """Its result."""
    path = tmp_path / "result.ndjson"
    assert cli.run(["judge", trace, "--quiet", "--json", str(path)]) == Exit.NOT_CONFORMANT
    return path


def test_a_run_writes_every_face_that_it_is_asked_for(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {kind: tmp_path / f"run.{kind}" for kind in ("json", "html", "junit", "markdown", "badge")}
    asked = [part for kind, path in files.items() for part in (f"--{kind}", str(path))]
    assert cli.run(["judge", trace, "--quiet", "--github", *asked]) == Exit.NOT_CONFORMANT
    assert capsys.readouterr().out.startswith("::error title=KVW-BAT-002::")
    page = files["html"].read_text(encoding="utf-8")
    assert "<mark>" in page, "it has the recording at hand"
    assert ET.fromstring(files["junit"].read_bytes()).findall(".//failure")
    assert "KVW-BAT-002" in files["markdown"].read_text(encoding="utf-8")
    assert json.loads(files["badge"].read_bytes())["message"] == "not conformant: 1 broken"


def test_a_page_of_a_capture_shows_its_bytes(tmp_path: Path) -> None:
    packed = Path(__file__).parents[1] / "trace" / "captures" / "data" / "reference.pcapng.gz"
    taken, page, stored = tmp_path / "kv.pcapng", tmp_path / "kv.html", tmp_path / "kv.ndjson"
    taken.write_bytes(gzip.decompress(packed.read_bytes()))
    cli.run(["judge", str(taken), "--topic", "other", "--quiet", "--html", str(page), "--json", str(stored)])
    assert "<mark>" in page.read_text(encoding="utf-8")
    assert "<polyline" in page.read_text(encoding="utf-8")
    assert cli.run(["report", str(stored), "--format", "html", "--recording", str(taken), "-o", str(page)]) == 0
    assert "<mark>" in page.read_text(encoding="utf-8")


def test_a_recording_that_is_read_but_once_leaves_the_page_without_bytes(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> None:
        raise TraceError(f"{trace}: an empty file")

    monkeypatch.setattr(judge, "looked", gone)
    page = tmp_path / "run.html"
    assert cli.run(["judge", trace, "--html", str(page)]) == Exit.NOT_CONFORMANT
    out = capsys.readouterr()
    assert "the page shows no bytes" in out.err
    assert "not conformant" in out.out
    assert "BAT-002" in page.read_text(encoding="utf-8")


def test_a_stored_result_is_shown_as_its_run_showed_it(
    trace: str, stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in ("junit", "markdown", "badge", "json", "html"):
        ran, shown = tmp_path / "ran", tmp_path / "shown"
        cli.run(["judge", trace, "--quiet", f"--{kind}", str(ran)])
        recording = ["--recording", trace] if kind == "html" else []
        assert cli.run(["report", str(stored), "--format", kind, "-o", str(shown), *recording]) == Exit.CONFORMANT
        assert shown.read_bytes() == ran.read_bytes(), kind
    capsys.readouterr()
    cli.run(["judge", trace])
    ran_text = capsys.readouterr().out
    assert cli.run(["report", str(stored)]) == Exit.CONFORMANT
    assert capsys.readouterr().out == ran_text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "0 lines `run` and 0 lines `summary`; a result stream has one each"),
        (b'{"kind":"run"', "line 1: not of a result stream"),
        (b"\xff\xfe\n", "line 1: not of a result stream"),
        (b'{"kind":"another"}\n', "0 lines `run` and 0 lines `summary`; a result stream has one each"),
        (b'{"kind":"hole"}\n', "line 1: not of a result stream"),
    ],
)
def test_what_is_no_result_is_refused_and_nothing_is_overwritten(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, out = tmp_path / "bad.ndjson", tmp_path / "out.html"
    bad.write_bytes(content)
    out.write_text("kept", encoding="utf-8")
    assert cli.run(["report", str(bad), "--format", "html", "-o", str(out)]) == Exit.USAGE
    assert f"{bad}: {said}" in " ".join(capsys.readouterr().err.split())
    assert out.read_text(encoding="utf-8") == "kept"


def test_half_a_result_is_refused(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = stored.read_bytes()
    stored.write_bytes(raw[: len(raw) // 2])
    assert cli.run(["report", str(stored)]) == Exit.USAGE
    assert "not of a result stream" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_named(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "missing" / "out.html"
    assert cli.run(["report", str(stored), "--format", "html", "-o", str(out)]) == Exit.USAGE
    assert f"--output {out}: the folder {out.parent} does not exist" in " ".join(capsys.readouterr().err.split())


def test_recordings_belong_to_results(trace: str, stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["report", str(stored), str(stored), "--format", "html", "--recording", trace]
    assert cli.run(more) == Exit.USAGE
    assert "2 results and 1 recordings" in capsys.readouterr().err
    other = str(resources.vectors() / "session" / "eviction.kvtrace")
    assert cli.run(["report", str(stored), "--format", "html", "--recording", other]) == Exit.USAGE
    assert "the recording is of another run" in capsys.readouterr().err
