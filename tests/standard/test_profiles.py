"""The profiles: what `spec check` finds wrong with one, and what the real ones promise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kvwire.standard import profiles
from kvwire.standard.drift import Code, check
from kvwire.standard.registry import (
    LEVELS,
    Profile,
    ProfileError,
    ProfileFile,
    Registry,
    UnknownNameError,
    profile,
    read,
    resolve,
)
from kvwire.standard.registry import profiles as installed

Edit = Callable[[str, str, str], None]
REAL = Path(__file__).parents[2] / "spec"


@pytest.mark.parametrize(
    ("old", "new", "about", "words"),
    [
        ('"KVW-ENV-001": ', '"KVW-ENV-009": null, "KVW-ENV-001": ', "KVW-ENV-009", "does not have this id"),
        ('"KVW-ENV-001": ', '"env-1": null, "KVW-ENV-001": ', "env-1", "write KVW-ENV-001"),
        ('"KVW-ENV-001": ', '"KVW-SEQ-002": null, "KVW-ENV-001": ', "KVW-SEQ-002", "binds a consumer"),
        ('"KVW-ENV-001": ', '"KVW-ENV-001": null, "KVW-ENV-001": ', "KVW-ENV-001", "listed twice"),
        ('"replayable"', '"passive"', "KVW-SEQ-001", "its judge needs replayable"),
        ('"replayable"', '"bound"', "", "not a profile"),
        ('"profile": "core"', '"profile": "cure"', "", "calls itself 'cure'"),
        ('"edition": "1"', '"edition": "2"', "", "edition '2'"),
        ('"title"', '"titel"', "", "not a profile"),
        ('"sentences"', '"extends": ["core"], "sentences"', "", "it extends itself: core → core"),
        (
            '"sentences"',
            '"extends": ["cure"], "sentences"',
            "",
            "core extends 'cure', and there is no such profile: core",
        ),
        ('"sentences"', '"without": ["LIV"], "sentences"', "", "nothing that it extends has LIV"),
    ],
)
def test_faults(folder: Path, judges: Code, edit: Edit, old: str, new: str, about: str, words: str) -> None:
    edit("profiles/core.json", old, new)
    found = [p for p in check(folder, judges) if p.file == "spec/profiles/core.json"]
    assert [(problem.id, words in problem.message) for problem in found] == [(about, True)]


@pytest.mark.parametrize(
    ("said", "about", "words"),
    [
        ({"sentences": {"KVW-SEQ-001": "driven"}}, "KVW-SEQ-001", "from the same level or a lower one"),
        ({"sentences": {"KVW-ENV-001": None}}, "KVW-ENV-001", "from the same level or a lower one"),
        ({"without": ["SEQ"], "sentences": {"KVW-SEQ-001": None}}, "KVW-SEQ-001", "under `without` too"),
        ({"without": ["KVW-SEQ-002"]}, "KVW-SEQ-002", "nothing that it extends has KVW-SEQ-002"),
    ],
)
def test_faults_of_one_that_extends(
    folder: Path, judges: Code, said: dict[str, object], about: str, words: str
) -> None:
    more = {"profile": "more", "edition": "1", "title": "more", "extends": ["core"], **said}
    (folder / "profiles/more.json").write_text(json.dumps(more), encoding="utf-8")
    found = check(folder, judges)
    assert [(p.file, p.id, words in p.message) for p in found] == [("spec/profiles/more.json", about, True)]


def made(**files: dict[str, object]) -> dict[str, ProfileFile]:
    return {
        name: msgspec.convert({"profile": name, "edition": "1", "title": name, **said}, ProfileFile)
        for name, said in files.items()
    }


def test_a_profile_has_what_it_extends_less_what_it_leaves_out_and_what_it_adds() -> None:
    files = made(
        core={"sentences": {"KVW-ENV-001": "passive", "KVW-SEQ-001": None, "KVW-LIV-001": "driven"}},
        more={"extends": ["core"], "sentences": {"KVW-BAT-001": None, "KVW-SEQ-001": "replayable"}},
        less={"extends": ["more"], "without": ["LIV", "KVW-ENV-001"]},
    )
    more, less = resolve("more", files), resolve("less", files)
    assert more.ids == ("KVW-ENV-001", "KVW-SEQ-001", "KVW-BAT-001", "KVW-LIV-001")
    assert more.conclusive == {
        "passive": ("KVW-ENV-001",),
        "replayable": ("KVW-ENV-001", "KVW-SEQ-001"),
        "driven": ("KVW-ENV-001", "KVW-SEQ-001", "KVW-LIV-001"),
    }
    assert less.ids == ("KVW-SEQ-001", "KVW-BAT-001")
    assert less.conclusive["driven"] == ("KVW-SEQ-001",)


def test_of_several_profiles_the_union_counts_and_the_lowest_level() -> None:
    files = made(
        core={"sentences": {"KVW-ENV-001": None, "KVW-SEQ-001": None}},
        ranks={"extends": ["core"], "sentences": {"KVW-RNK-001": None, "KVW-SEQ-001": "driven"}},
        replay={
            "extends": ["core"],
            "without": ["ENV"],
            "sentences": {"KVW-REP-001": None, "KVW-SEQ-001": "replayable"},
        },
        both={"extends": ["ranks", "replay"]},
        turned={"extends": ["replay", "ranks"]},
    )
    both = resolve("both", files)
    assert both.ids == ("KVW-ENV-001", "KVW-SEQ-001", "KVW-REP-001", "KVW-RNK-001")
    assert both.conclusive == {"passive": (), "replayable": ("KVW-SEQ-001",), "driven": ("KVW-SEQ-001",)}
    assert msgspec.structs.replace(resolve("turned", files), profile="both", title="both") == both


def test_a_circle_is_refused() -> None:
    files = made(a={"extends": ["b"]}, b={"extends": ["c"]}, c={"extends": ["b"]})
    with pytest.raises(ProfileError, match="extends itself: b → c → b"):
        resolve("a", files)


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
    return {name: profile(name) for name in installed()}


@pytest.fixture(scope="module")
def registry() -> Registry:
    return read(REAL / "requirements.json")


def test_the_real_profiles(real: dict[str, Profile], registry: Registry) -> None:
    assert set(real) == {
        *("core", "replay", "ranks", "multimodal", "ranks-replay", "multimodal-replay"),
        *("legacy-array-v", "legacy-array-s"),
    }
    assert profiles.problems(REAL, registry) == []
    order = [requirement.id for requirement in registry.requirements]
    for one in real.values():
        for names in (one.ids, *one.conclusive.values()):
            assert list(names) == sorted(names, key=order.index), one.profile


def test_an_unknown_profile_is_named() -> None:
    with pytest.raises(UnknownNameError, match="no profile 'cure'; there are core, "):
        profile("cure")
    with pytest.raises(UnknownNameError, match="no profile 'cure'"):
        profile("core+cure")


def test_joined_profiles_have_what_either_has(real: dict[str, Profile]) -> None:
    joined = profile("ranks+replay")
    assert set(joined.ids) == {*real["ranks"].ids, *real["replay"].ids}
    assert (joined.ids, joined.conclusive) == (real["ranks-replay"].ids, real["ranks-replay"].conclusive)
    assert profile("replay+core").ids == real["replay"].ids


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
    for one in real.values():
        passive, replayable, driven = (set(one.conclusive[level]) for level in LEVELS)
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
