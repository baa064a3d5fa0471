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


@pytest.mark.slow
def test_what_is_left_are_the_lines_that_no_test_would_miss(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "toy" / "clip.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "test_clip.py").write_text(TESTS, encoding="utf-8")
    words = ["pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.selftest.deletions", "--rootdir", "."]
    options = ["--delete-in", "toy/clip.py", "--delete-workers", "1", "--delete-json", "left.json"]
    paths = os.pathsep.join([str(root), str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    subprocess.run(
        [sys.executable, "-m", *words, *options, "test_clip.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        check=True,
        timeout=100,
    )
    said = json.loads((tmp_path / "left.json").read_text(encoding="utf-8"))
    assert {(one["source"], one["what"], one["why"]) for one in said["left"]} == {
        ("unseen = value", "deleted", "nobody notices"),
        ("if value < 0:", "never", "nobody notices"),
        ("value = 0", "deleted", "reached by no test"),
        ("return 1", "deleted", "reached by no test"),
    }
    assert said["counts"]["runs at import only"] == 2
    assert said["counts"]["noticed"] >= 4
