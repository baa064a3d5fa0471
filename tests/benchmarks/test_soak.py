"""The page of a watch that ran for hours: its table, and the picture of its memory."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from benchmarks import soak

ROWS = [(10.0 * at, 100.0 + at % 7, 40.0, at / 10, 2000.0 * at, 0, 4 + at // 60, 0, 5.0) for at in range(1, 181)]


def test_a_run_becomes_a_table_and_a_picture(tmp_path: Path) -> None:
    samples, page = tmp_path / "soak.csv", tmp_path / "watch.md"
    lines = [",".join(soak.FIELDS), *(",".join(map(str, row)) for row in ROWS)]
    samples.write_text("\n".join(lines), encoding="utf-8")
    page.write_text(f"before\n{soak.BEGIN}\nold\n{soak.END}\nbehind\n", encoding="utf-8")
    soak.page(samples, page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("behind\n")
    assert "old" not in text
    assert "| duration | 30 min |" in text
    assert "first and last quarter after warming up, greatest | 103.1, 103.1, 106.0 MB |" in text
    assert "(img/watch-memory.svg)" in text
    picture = ET.fromstring((tmp_path / "img" / "watch-memory.svg").read_text(encoding="utf-8"))
    drawn = picture.findall(".//{*}polyline")
    assert [len(one.get("points", "").split()) for one in drawn] == [len(ROWS)] * 2
    marks = [one for one in picture.findall(".//{*}path") if one.get("stroke") == "#333"]
    assert len(marks) == ROWS[-1][6] - ROWS[0][6]
