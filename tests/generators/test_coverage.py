"""The coverage table has no empty cell without a reason, and no reason without a cell."""

from __future__ import annotations

from typing import cast

import msgspec

from kvwire.standard import resources
from kvwire.vectors import access
from kvwire.vectors.model import HashFile
from kvwire_generators import coverage
from kvwire_generators.hash import features

FILES = [cast("HashFile", access.load(name)) for name in access.names() if name.startswith("hash/")]
TEXT = (resources.vectors() / coverage.NAME).read_text(encoding="utf-8")


def test_no_hole() -> None:
    assert coverage.holes(FILES) == []
    assert "| ? |" not in TEXT


def test_every_reason_explains_a_cell() -> None:
    shown = TEXT[TEXT.index("## Reasons") :]
    for reason in coverage.REASONS:
        assert reason.text in shown


def test_every_boundary_is_covered_somewhere() -> None:
    found = coverage.counts(FILES)
    covered = {flag for flags in found.values() for flag, count in flags.items() if count}
    assert covered >= set(features.BOUNDARIES)


def test_a_missing_test_is_a_hole() -> None:
    (file,) = (f for f in FILES if f.groups[0].name == "v1_block_key, text")
    without = tuple(test for test in file.groups[0].tests if "salt-2e63" not in test.flags)
    group = msgspec.structs.replace(file.groups[0], tests=without)
    rest = [f for f in FILES if f is not file]
    changed = msgspec.structs.replace(file, groups=(group, *file.groups[1:]))
    assert coverage.holes([*rest, changed]) == ["v1_block_key, text: salt id: salt-2e63"]
    assert "| ? |" in coverage.write([*rest, changed])
