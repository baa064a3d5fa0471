"""What the machine refuses, and a place for sockets on it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from kvwire.standard import machine

MOST = 80


@pytest.mark.parametrize("name", [b"\xff", b"x" * 100])
def test_where_no_socket_can_lie_another_folder_is_taken(
    name: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = tmp_path / os.fsdecode(name)
    bad.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(bad))
    made = machine.folder(MOST)
    made.rmdir()
    assert made.parent == Path("/tmp")
    assert list(bad.iterdir()) == []


def test_where_there_is_none_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(OSError, match="TMPDIR") as caught:
        machine.folder(8)
    assert machine.refusal(caught.value).startswith(f"{tmp_path}: no socket can lie here")
    assert list(tmp_path.iterdir()) == []
