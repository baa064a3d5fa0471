"""Nothing in the tree depends on, or tells of, the machine on which it was written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.packaging.conftest import ROOT

# Written so that this file itself holds none of them.
FORBIDDEN = {
    "a path of somebody's machine": r"(?<![\w.}/])/(?:home|root|work|Users)/[\w.]",
    "a folder beside the checkout": r"\.\./shar[e]d",
    "the host of a package registry": r"pyp[i]\.org|pythonhoste[d]\.org|registry\.npmj[s]|crate[s]\.io|proxy\.golan[g]",
    "an option that chooses a registry": r"--(?:extra-)?index-ur[l]|PIP_(?:EXTRA_)?INDEX_UR[L]|--trusted-hos[t]",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_tracked_file_names(what: str, tracked: Sequence[Path]) -> None:
    found = [
        f"{path}:{number}: {line}"
        for path in tracked
        for number, line in enumerate((ROOT / path).read_bytes().decode("utf-8", "replace").splitlines(), 1)
        if re.search(FORBIDDEN[what], line)
    ]
    assert not found, "\n".join(found)


def test_links_between_files_lead_somewhere(tracked: Sequence[Path]) -> None:
    link = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
    broken = [
        f"{path}: {target}"
        for path in tracked
        if path.suffix == ".md"
        for target in link.findall((ROOT / path).read_text("utf-8"))
        if not (ROOT / path.parent / target).exists()
    ]
    assert not broken, "\n".join(broken)


def test_continuous_integration_judges_every_implementation(tracked: Sequence[Path]) -> None:
    """But the engine that is 3.5 GB."""
    (loop,) = re.findall(r"^for name in (.+); do$", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)
    judged = {path.parent.name for path in tracked if path.match("implementations/*/verdicts.json")}
    assert set(loop.split()) == judged - {"vllm-engine"}
