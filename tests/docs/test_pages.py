"""The pages under docs/: their commands exist as they stand there, their links lead somewhere, their files work."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import pytest
from tests.kit.needs import needs_program
from zmq.auth import create_certificates

from kvwire import cli
from kvwire.cli.examples import commands as every_command
from kvwire.cli.root import main
from kvwire.conclusion import expected_failures
from kvwire.judges.verdict import Exit
from kvwire.standard import registry, resources
from kvwire_reference.curve import read_public

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "implementations" / "README.md"])

if not (ROOT / "docs").is_dir():
    pytest.skip("needs a checkout", allow_module_level=True)


_FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def commands(page: Path) -> Iterator[str]:
    """Every `kvwire` command in the fenced blocks of a page; a comment behind blanks is none of it."""
    for language, block in _FENCED.findall(page.read_text(encoding="utf-8")):
        if language not in ("", "console", "ini", "yaml"):
            continue
        for line in block.splitlines():
            found = re.match(r"(?:\$ |\s*- |commands = |\s+kvwire: )?(kvwire [a-z].*)", line)
            if found is not None:
                yield re.split(r"\s{3,}|  +#| \(| > ", found[1])[0]


def written() -> list[Any]:
    found = [(page.name, text) for page in PAGES for text in dict.fromkeys(commands(page))]
    return [pytest.param(text, id=f"{name}: {text[:60]}") for name, text in found]


@pytest.mark.parametrize("text", written())
def test_each_command_is_one_that_the_command_line_takes(text: str) -> None:
    words = shlex.split(text)[1:]
    command: click.Command = main
    context = click.Context(main, info_name="kvwire")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        assert found is not None, f"no command {words[0]!r}"
        command, words = found, words[1:]
    if isinstance(command, click.Group):
        return
    words = [word for word in words if word != "…"]
    parser = command.make_parser(click.Context(command))
    _, rest, _ = parser.parse_args(list(words))
    assert not rest or command.context_settings.get("ignore_unknown_options"), rest


def test_the_commands_are_found() -> None:
    assert len(written()) > 40


def anchors(page: Path) -> set[str]:
    """What a link into a page may name: its headings, as sites and GitHub spell them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text(encoding="utf-8")):
        target = page.parent / link if link else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{link}#{anchor}"


def test_the_index_names_each_page() -> None:
    named = re.findall(r"\]\(([a-z-]+\.md)", (DOCS / "README.md").read_text(encoding="utf-8"))
    missing = {page.name for page in DOCS.glob("*.md")} - {"README.md", *named}
    assert not missing, "give it a row in docs/README.md"


INSTALLED = re.compile(r"pip3? install\b((?: +-{1,2}[\w-]+)*)((?: +[^\s`&|]+)+)")


def test_no_page_installs_kvwire_from_where_it_is_not() -> None:
    sources = [*PAGES, *(ROOT / "conformance").rglob("*.py"), ROOT / "action.yml", *(ROOT / "examples").rglob("*file")]
    found = 0
    for page in sources:
        for _, what in INSTALLED.findall(page.read_text(encoding="utf-8")):
            for word in (word.strip("'\"`.,)").lower() for word in what.split()):
                found += 1
                assert not re.match(r"kvwire(\[|$|[=<>~])", word), f"{page.relative_to(ROOT)}: pip install {word}"
    assert found >= 6


def quoted() -> list[Any]:
    """What a page quotes of a file, marked with its name."""
    blocks = re.compile(r"<!-- from: (\S+) -->\n```\w*\n(.*?)```", re.DOTALL)
    found = [(page.name, *match) for page in PAGES for match in blocks.findall(page.read_text(encoding="utf-8"))]
    return [pytest.param(file, code, id=f"{page}: {file}") for page, file, code in found]


@pytest.mark.parametrize(("file", "code"), quoted())
def test_what_a_page_quotes_stands_in_the_file(file: str, code: str) -> None:
    assert code in (ROOT / file).read_text(encoding="utf-8")


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading; an empty first cell is that of the row before."""
    text = (DOCS / page).read_text(encoding="utf-8")
    lines = text[text.index(f"\n## {heading}\n") + len(heading) + 5 :].split("\n## ")[0].splitlines()
    found: list[list[str]] = []
    for line in [line for line in lines if line.startswith("|")][2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        found.append([cells[0] or found[-1][0], *cells[1:]])
    return found


def test_the_exit_codes_are_those_of_the_code() -> None:
    assert [int(row[0]) for row in rows("exit-codes.md", "Exit codes")] == [int(code) for code in Exit]
    (code, checks, _) = rows("exit-codes.md", "Exit codes")[int(Exit.INCONCLUSIVE)]
    assert code == "3"
    assert checks.startswith("inconclusive")


def test_each_option_that_names_a_file_is_told() -> None:
    told: set[tuple[str, str]] = set()
    for heading in ("Files that are written", "Files that are read"):
        for names, options, _ in rows("exit-codes.md", heading):
            for name in re.findall(r"`([^`]+)`", names):
                told |= {(name, option) for option in re.findall(r"`(--[^`]+)`", options)}
    there = {
        (name, max(option.opts, key=len))
        for name, command in every_command(main)
        for option in command.params
        if isinstance(option, click.Option) and isinstance(option.type, click.Path)
    }
    assert told == there


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a language on a page."""
    return [code for kind, code in _FENCED.findall((DOCS / page).read_text(encoding="utf-8")) if kind == language]


def block(page: str, language: str) -> str:
    """The first of them."""
    return blocks(page, language)[0]


def test_the_expected_failure_of_the_page_is_read(tmp_path: Path) -> None:
    file = tmp_path / "expected.toml"
    file.write_text(block("ci.md", "toml"), encoding="utf-8")
    (entry,) = expected_failures.read(file, registry.load())
    assert entry.id == "KVW-REP-006"
    assert entry.expires is not None


def test_the_tox_environments_of_the_page_are_read(tmp_path: Path) -> None:
    config = ConfigParser(interpolation=None)
    config.read_string(block("ci.md", "ini"))
    assert config.sections() == ["testenv:kvwire", "testenv:py3{11,12,13}-{unit,kvwire}"]


def test_a_release_is_what_an_environment_does_and_a_signed_upload() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    environments = ConfigParser(interpolation=None)
    environments.read(ROOT / "tox.ini", encoding="utf-8")
    assert ".ci/release.py" in environments["testenv:release"]["commands"]
    ordered = ("tox run -e release", "attest-build-provenance", "upload-artifact", "gh-action-pypi-publish")
    places = [workflow.index(step) for step in ordered]
    assert places == sorted(places)


def test_the_program_that_answers_vectors_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = blocks("vectors.md", "python")[1]
    program = tmp_path / "requests.py"
    program.write_text(answers, encoding="utf-8")
    asked = ["vectors", "verify", "--only", "replay/request", "--", sys.executable]
    assert cli.run([*asked, str(program)]) == Exit.CONFORMANT
    shown = capsys.readouterr().out.strip()
    assert shown in (DOCS / "vectors.md").read_text(encoding="utf-8")
    program.write_text(answers.replace('"big"', '"little"'), encoding="utf-8")
    assert cli.run([*asked, str(program)]) == Exit.NOT_CONFORMANT
    assert "the number is read little-endian" in capsys.readouterr().out


def test_a_copy_of_the_vectors_is_held_against_the_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "vectors"
    check = ["vectors", "export", str(copy), "--check"]
    assert cli.run(check) == Exit.USAGE
    assert f"`kvwire vectors export {copy}` makes a copy" in " ".join(capsys.readouterr().err.split())
    assert cli.run(["vectors", "export", str(copy), "--only", "hash"]) == Exit.CONFORMANT
    assert cli.run(check) == Exit.CONFORMANT
    one = next((copy / "hash").glob("*.json"))
    one.write_bytes(one.read_bytes() + b" ")
    assert cli.run(check) == Exit.NOT_CONFORMANT
    assert f"hash/{one.name}: other bytes" in capsys.readouterr().out


def step(name: str) -> str:
    """The shell script of a step of the composite action."""
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    body = text[text.index(f"- name: {name}\n") :]
    lines = body[body.index("run: |\n") + len("run: |\n") :].splitlines()
    script = []
    for line in lines:
        if line and not line.startswith(" " * 8):
            break
        script.append(line[8:])
    return "\n".join(script)


@pytest.mark.parametrize(("session", "code"), [("eviction", 0), ("mutant-integer-ts", 1)])
def test_the_action_checks_annotates_sums_up_and_keeps(session: str, code: int, tmp_path: Path) -> None:
    place = tmp_path / "kvwire" / "bin"
    place.mkdir(parents=True)
    script = place / "kvwire"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kvwire "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    summary = tmp_path / "summary.md"
    environment = {
        **os.environ,
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(summary),
        "KVWIRE_TARGET": f"trace:{resources.vectors() / 'session' / session}.kvtrace",
        "KVWIRE_PROFILE": "core",
        "KVWIRE_EXPECTED": "",
        "KVWIRE_ARGUMENTS": "--allow-inconclusive --quiet",
    }
    # A trace is judged, not recorded again.
    text = step("Check").replace(' --record "$out/kvwire.kvtrace"', "")
    command = [needs_program("bash"), "-e", "-c", text]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == code, done.stderr
    assert ("::error title=KVW-BAT-002" in done.stdout) == (code == 1)
    assert summary.read_text(encoding="utf-8").startswith("### ")
    assert {path.name for path in (tmp_path / "kvwire-out").iterdir()} == {
        "kvwire.ndjson", "kvwire.html", "kvwire.xml", "kvwire.md",
    }  # fmt: skip


def test_the_code_of_the_pages_is_python() -> None:
    for page in PAGES:
        for language, block in _FENCED.findall(page.read_text(encoding="utf-8")):
            if language == "python":
                compile(textwrap.dedent(block), str(page), "exec")


def test_messages_are_judged_as_the_page_says() -> None:
    import msgspec

    import kvwire

    payload = msgspec.msgpack.encode([1_700_000_000.5, [{"type": "AllBlocksCleared"}], 0])
    result = kvwire.judge([(b"kv-events", (0).to_bytes(8, "big"), payload)])
    assert result.summary.verdict in ("PASS", "INCONCLUSIVE"), result.summary.headline
    assert json.dumps(result.summary.headline)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        return [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(count)]


@pytest.mark.network
def test_the_commands_of_the_page_on_curve_work(tmp_path: Path) -> None:
    """As they stand there, with free ports, and shorter."""
    for name in ("publisher", "router"):
        create_certificates(tmp_path, name)
    (tmp_path / "allowed").write_bytes(read_public(tmp_path / "router.key") + b" the router\n")
    live, replay = (str(port) for port in free_ports(2))
    page = (text.replace("5557", live).replace("5657", replay) for text in commands(ROOT / "docs" / "curve.md"))
    listening = ["--for", "2"]
    shorter = {"check": ["--quick"], "record": listening, "watch": listening, "doctor": listening}
    serve, *others = [shlex.split(text)[1:] for text in page]
    assert (serve[0], [words[0] for words in others]) == ("serve", list(shorter))
    kvwire = [sys.executable, "-P", "-m", "kvwire"]
    serve = [*kvwire, *serve, "--replay", f"tcp://127.0.0.1:{replay}"]
    with subprocess.Popen(serve, cwd=tmp_path, stdout=subprocess.PIPE) as serving:
        try:
            assert serving.stdout is not None
            assert serving.stdout.readline().startswith(b"kvwire check")
            for words in others:
                done = subprocess.run([*kvwire, *words, *shorter[words[0]]], cwd=tmp_path, check=False, timeout=120)
                assert done.returncode in (Exit.CONFORMANT, Exit.NOT_CONFORMANT, Exit.INCONCLUSIVE), words
                assert done.returncode != Exit.INCONCLUSIVE or words[0] == "watch", words
        finally:
            serving.terminate()
