"""The tool that deletes lines: what it says of a small module whose tests we know."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
def made() -> dict[str, int]:
    at_import = {}
    return at_import


MADE = made()


def clipped(value: int) -> int:
    unseen = value
    if value > 9:
        value = 9
    if value < 0:
        value = 0
    return value


def unused() -> int:
    return 1
"""

TESTS = """
from toy.clip import clipped


def test_it_clips() -> None:
    assert clipped(12) == 9
    assert clipped(3) == 3
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "toy" / "clip.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "test_clip.py").write_text(TESTS, encoding="utf-8")
    return tmp_path


def left(toy: Path, *options: str) -> tuple[set[tuple[str, str, str]], dict[str, int]]:
    """Source, what was done to it, and why it is left; and how many there were of each kind."""
    root = Path(__file__).parents[2]
    words = ["pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.selftest.deletions", "--rootdir", "."]
    always = ["--delete-in", "toy/clip.py", "--delete-workers", "1", "--delete-json", "left.json"]
    paths = os.pathsep.join([str(root), str(toy), *filter(None, [os.environ.get("PYTHONPATH")])])
    subprocess.run(
        [sys.executable, "-m", *words, *always, *options, "test_clip.py"],
        cwd=toy,
        env={**os.environ, "PYTHONPATH": paths},
        check=True,
        timeout=100,
    )
    said = json.loads((toy / "left.json").read_text(encoding="utf-8"))
    return {(one["source"], one["what"], one["why"]) for one in said["left"]}, said["counts"]


@pytest.mark.slow
def test_what_is_left_are_the_lines_that_no_test_would_miss(toy: Path) -> None:
    lines, counts = left(toy)
    assert lines == {
        ("unseen = value", "deleted", "nobody notices"),
        ("if value < 0:", "never", "nobody notices"),
        ("value = 0", "deleted", "reached by no test"),
        ("return 1", "deleted", "reached by no test"),
    }
    assert counts["runs at import only"] == 2
    assert counts["noticed"] >= 4


@pytest.mark.slow
def test_what_is_left_is_tried_again_with_more_tests(toy: Path) -> None:
    left(toy)
    (toy / "test_clip.py").write_text(TESTS + "    assert clipped(-3) == 0\n", encoding="utf-8")
    lines, counts = left(toy, "--delete-left", "left.json")
    assert lines == {("unseen = value", "deleted", "nobody notices"), ("return 1", "deleted", "reached by no test")}
    assert sum(counts.values()) == 4
