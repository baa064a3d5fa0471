"""Ids as people type them."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kvwire.cli.root import main
from kvwire.standard import registry
from kvwire.standard.registry import UnknownNameError

KNOWN = registry.load()


@pytest.mark.parametrize("text", ["KVW-SEQ-009", "SEQ-009", "seq-009", "kvw-seq-9", "seq-9", " SEQ-9 "])
def test_an_id_is_understood_in_full_and_in_short(text: str) -> None:
    assert KNOWN.resolve(text) == "KVW-SEQ-009"


@pytest.mark.parametrize("text", ["SEQ", "SEQ-", "SEQ-999", "SEQ-0009", "009", "XXX-001", ""])
def test_what_names_no_sentence_is_refused(text: str) -> None:
    with pytest.raises(UnknownNameError, match=f"no requirement '{text}'"):
        KNOWN.resolve(text)


def test_a_wrong_number_gets_those_of_its_area() -> None:
    with pytest.raises(UnknownNameError, match="of that area: KVW-ENV-001, KVW-ENV-002"):
        KNOWN.resolve("env-99")


def test_words_select_ids_and_whole_areas() -> None:
    areas = {r.id for r in KNOWN.requirements if r.area == "ENV"}
    assert KNOWN.select(["env", "SEQ-9"]) == areas | {"KVW-SEQ-009"}
    assert KNOWN.select([]) == frozenset()
    with pytest.raises(UnknownNameError, match="no requirement 'EVN'"):
        KNOWN.select(["ENV", "EVN"])


def test_explain_and_list_take_short_ids() -> None:
    said = CliRunner().invoke(main, ["explain", "seq-9"])
    assert said.stdout.startswith("KVW-SEQ-009  ")
    assert "probes       batches, restart, gaps, " in said.stdout
    listed = CliRunner().invoke(main, ["list", "SEQ-9", "env-1"])
    assert [line.split()[0] for line in listed.stdout.splitlines() if "KVW-" in line] == ["KVW-ENV-001", "KVW-SEQ-009"]
