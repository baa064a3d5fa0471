"""The profiles: what `spec check` finds wrong with one, and what the real ones promise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kvwire.standard import profiles
from kvwire.standard.drift import Code, check
from kvwire.standard.registry import Profile, Registry, read

Edit = Callable[[str, str, str], None]
REAL = Path(__file__).parents[2] / "spec"


@pytest.mark.parametrize(
    ("old", "new", "about", "words"),
    [
        ('"ids": ["KVW-ENV-001"', '"ids": ["KVW-ENV-001", "KVW-ENV-009"', "KVW-ENV-009", "does not have this id"),
        ('"ids": ["KVW-ENV-001"', '"ids": ["KVW-ENV-001", "env-1"', "env-1", "write KVW-ENV-001"),
        ('"ids": ["KVW-ENV-001"', '"ids": ["KVW-ENV-001", "KVW-SEQ-002"', "KVW-SEQ-002", "binds a consumer"),
        ('"ids": ["KVW-ENV-001"', '"ids": ["KVW-ENV-001", "KVW-ENV-001"', "KVW-ENV-001", "listed twice"),
        ('"driven": []', '"driven": ["KVW-ENV-002"]', "KVW-ENV-002", "level driven, but not in `ids`"),
        ('"passive": ["KVW-ENV-001"]', '"passive": ["KVW-SEQ-001"]', "KVW-SEQ-001", "its judge needs replayable"),
        ('"driven": []', '"bound": []', "", "needs the levels passive, replayable, driven"),
        ('"profile": "core"', '"profile": "cure"', "", "calls itself 'cure'"),
        ('"edition": "1"', '"edition": "2"', "", "edition '2'"),
        ('"title"', '"titel"', "", "not a profile"),
    ],
)
def test_faults(folder: Path, judges: Code, edit: Edit, old: str, new: str, about: str, words: str) -> None:
    edit("profiles/core.json", old, new)
    found = [p for p in check(folder, judges) if p.file == "spec/profiles/core.json"]
    assert [(problem.id, words in problem.message) for problem in found] == [(about, True)]


def test_an_id_that_waits_is_not_wanted_conclusive(folder: Path, judges: Code, edit: Edit) -> None:
    edit("requirements.toml", 'judged = "sequence"', 'review = "by eye"')
    found = [p for p in check(folder, Code(judges=judges.judges[:1])) if "profiles" in p.file]
    assert ["it is not judged (review)" in problem.message for problem in found] == [True]


def test_an_id_in_no_profile(folder: Path, judges: Code) -> None:
    (folder / "profiles/core.json").unlink()
    found = check(folder, judges)
    assert {problem.id for problem in found} == {"KVW-ENV-001", "KVW-SEQ-001"}
    assert all("no profile lists it" in problem.message for problem in found)


@pytest.fixture(scope="module")
def real() -> dict[str, Profile]:
    return {
        path.stem: msgspec.json.decode(path.read_bytes(), type=Profile) for path in (REAL / "profiles").glob("*.json")
    }


@pytest.fixture(scope="module")
def registry() -> Registry:
    return read(REAL / "requirements.json")


def test_the_real_profiles(real: dict[str, Profile], registry: Registry) -> None:
    assert set(real) == {"core", "replay", "ranks", "multimodal", "legacy-array-v", "legacy-array-s"}
    assert profiles.problems(REAL, registry) == []
    order = [requirement.id for requirement in registry.requirements]
    for profile in real.values():
        for names in (profile.ids, *profile.conclusive.values()):
            assert list(names) == sorted(names, key=order.index), profile.profile


def test_features_extend_the_core(real: dict[str, Profile], registry: Registry) -> None:
    core = set(real["core"].ids)
    for name in ("replay", "ranks", "multimodal"):
        assert core < set(real[name].ids)
        for level, names in real["core"].conclusive.items():
            assert set(names) <= set(real[name].conclusive[level])
    areas = {registry[name].area for name in core}
    assert "REP" not in areas
    assert {r.id for r in registry.requirements if r.area == "REP" and r.binds == "publisher"} <= set(
        real["replay"].ids
    )
    claimed = set().union(*(profile.ids for profile in real.values()))
    assert claimed == {requirement.id for requirement in registry.binding("publisher")}


def test_more_control_concludes_more(real: dict[str, Profile]) -> None:
    for profile in real.values():
        passive, replayable, driven = (set(profile.conclusive[level]) for level in profiles.LEVELS)
        assert passive <= replayable <= driven


def test_legacy_streams_cannot_conform(real: dict[str, Profile]) -> None:
    """No legacy profile lists the sentence that every array event breaks, so that passing one proves no edition."""
    for name in ("legacy-array-v", "legacy-array-s"):
        assert set(real[name].ids) < set(real["core"].ids)
        assert "KVW-EVT-001" not in real[name].ids


def test_luck_is_not_asked_for(real: dict[str, Profile]) -> None:
    """Removals, clears, further media and top bits of hashes need not occur while a passive harness looks."""
    lucky = {"KVW-EVT-006", "KVW-EVT-008", "KVW-EVT-017", "KVW-RES-001", "KVW-RES-002", "KVW-RES-005", "KVW-CHN-002"}
    assert lucky.isdisjoint(real["core"].conclusive["passive"])
