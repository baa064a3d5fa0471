"""The pictures of docs/img: all there, small, of the size that is asked for, and without anything from elsewhere."""

from __future__ import annotations

import re

from kvwire.judges.verdict import Verdict
from kvwire_generators import pictures


def test_the_folder_holds_what_the_script_makes() -> None:
    there = {path.name for path in pictures.FOLDER.iterdir()}
    elsewhere = {"watch-memory.svg"}  # by `python -m benchmarks.soak`
    assert there == {f"{name}.png" for name in pictures.SHOTS} | {"console.svg", "console-ranks.svg"} | elsewhere
    for name, shot in pictures.SHOTS.items():
        content = (pictures.FOLDER / f"{name}.png").read_bytes()
        assert len(content) <= pictures.MOST
        assert int.from_bytes(content[16:20], "big") == shot.width
        assert int.from_bytes(content[20:24], "big") == shot.height
    for name in ("console", "console-ranks"):
        text = (pictures.FOLDER / f"{name}.svg").read_text(encoding="utf-8")
        assert set(re.findall(r"https?://[^\s\"')]+", text)) <= {
            "http://www.w3.org/2000/svg",
            "https://www.textualize.io",
        }
        assert "url(http" not in text


def test_of_many_ranks_one_is_broken_in_one_way() -> None:
    result = pictures.judged(pictures.fleet())
    assert len({outcome.stream for outcome in result.outcomes}) == pictures.RANKS
    broken = {(o.stream, o.requirement) for o in result.outcomes if o.verdict in (Verdict.FAIL, Verdict.WARN)}
    assert broken == {("rank-7", "KVW-BAT-002")}
    text = pictures.terminal(result, "kvwire judge ranks.kvtrace")
    assert "rank-7" in text.replace("&#160;", " ")
