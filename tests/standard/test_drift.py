"""Each failure of `kvwire spec check`, on a small standard; and the real one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from kvwire.cli import spec
from kvwire.judges.places import places, uses
from kvwire.standard import drift, prose
from kvwire.standard.drift import Code, Use, build, check, release
from kvwire.standard.prose import Problem
from kvwire.standard.registry import read

Edit = Callable[[str, str, str], None]
REAL = Path(__file__).parents[2] / "spec"


def only(problems: list[Problem], where: str, about: str, *words: str) -> None:
    """There is one problem, at that place, about that id, and its message has these words."""
    assert len(problems) == 1, [str(problem) for problem in problems]
    (problem,) = problems
    assert f"{problem.file}:{problem.line}" == where
    assert problem.id == about
    for word in words:
        assert word in problem.message, problem.message


def test_what_the_prose_says(folder: Path, judges: Code) -> None:
    registry = read(folder / "requirements.json")
    assert [r.id for r in registry.requirements] == ["KVW-ENV-001", "KVW-SEQ-001", "KVW-SEQ-002"]
    first, second, third = registry.requirements
    assert first.sentence == "A publisher MUST send three frames"
    assert second.sentence == "A publisher SHOULD send `a. b` in order"
    assert (first.section, third.section) == ("envelope.md: Envelope", "envelope.md: Consumers")
    assert {r.since for r in registry.requirements} == {"1"}
    assert check(folder, judges) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "about", "words"),
    [
        ("guess [KVW-SEQ-002].", "guess.", 19, "", "stands in a sentence without an id"),
        ("MUST NOT guess", "MUST NOT guess and SHOULD think", 19, "KVW-SEQ-002", "2 key words under one id"),
        ("guess [KVW-SEQ-002].", "guess [KVW-SEQ-002] [KVW-ENV-001].", 19, "KVW-SEQ-002", "2 ids"),
        ("guess [KVW-SEQ-002].", "guess [KVW-ENV-001].", 19, "KVW-ENV-001", "stands at spec/envelope.md:7 too"),
        ("guess [KVW-SEQ-002].", "guess [KVW-SEQ-2].", 19, "KVW-SEQ-2", "this is no id"),
        ("guess [KVW-SEQ-002].", "guess [KVW-ABC-002].", 19, "KVW-ABC-002", "this is no id"),
        ("MUST NOT guess", "must not guess", 19, "KVW-SEQ-002", "no key word"),
        ("MUST NOT guess", "SHALL NOT guess", 19, "KVW-SEQ-002", "SHALL NOT is no level"),
        ("guess [KVW-SEQ-002].", "[KVW-SEQ-002] guess.", 19, "KVW-SEQ-002", "right before the final full stop"),
        (
            "guess [KVW-SEQ-002]. More",
            "guess [KVW-SEQ-002] More",
            19,
            "KVW-SEQ-002",
            "right before the final full stop",
        ),
        ("MUST NOT guess", "SHOULD NOT guess", 19, "KVW-SEQ-002", "says SHOULD NOT, the table MUST NOT"),
        ("More follows.", "See KVW-END-009.", 19, "KVW-END-009", "there is no such id"),
        ("More follows.", "All MAY go.", 19, "", "key word MAY"),
        ("## Consumers", "| a | b MAY c |", 17, "", "key word MAY"),
    ],
)
def test_sentences(
    folder: Path, judges: Code, edit: Edit, old: str, new: str, line: int, about: str, words: str
) -> None:
    edit("envelope.md", old, new)
    problems = [p for p in check(folder, judges) if "no chapter states it" not in p.message]
    only(problems, f"spec/envelope.md:{line}", about, words)
    assert build(folder, judges), "nothing is built from prose with problems"


def test_a_sentence_without_entry(folder: Path, judges: Code, edit: Edit) -> None:
    edit("envelope.md", "More follows.", "A consumer MAY rest [KVW-SEQ-003].")
    only(check(folder, judges), "spec/envelope.md:19", "KVW-SEQ-003", "the table has no entry", "add [KVW-SEQ-003]")


def test_an_entry_without_sentence(folder: Path, judges: Code, edit: Edit) -> None:
    edit("envelope.md", "A consumer MUST NOT guess [KVW-SEQ-002]. More follows.", "")
    only(check(folder, judges), "spec/requirements.toml:15", "KVW-SEQ-002", "no chapter states it")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('pending = "later"', "", "here none"),
        ('pending = "later"', 'pending = "later"\nreview = "never"', "pending, review"),
        ('pending = "later"', 'pending = "later"\nmemory = "O(1)"', "unknown field `memory`"),
        ('pending = "later"', 'pending = "later"\nsentence = "A"', "unknown field `sentence`"),
        ('level = "MUST NOT"', 'level = "SHALL"', "Invalid enum value"),
        (
            'needs = ["passive"]\ndecided_by = "envelope"\npending',
            'needs = ["pasive"]\ndecided_by = "envelope"\npending',
            "does not know pasive",
        ),
        (
            'needs = ["passive"]\ndecided_by = "envelope"\npending',
            'needs = []\ndecided_by = "envelope"\npending',
            "empty",
        ),
    ],
)
def test_entries(folder: Path, judges: Code, edit: Edit, old: str, new: str, words: str) -> None:
    edit("requirements.toml", old, new)
    problems = [p for p in check(folder, judges) if "the table has no entry" not in p.message]
    only(problems, "spec/requirements.toml:15", "KVW-SEQ-002", words)


def test_a_table_that_is_no_toml(folder: Path, judges: Code) -> None:
    (folder / "requirements.toml").write_text("[", encoding="utf-8")
    assert "not TOML" in str(check(folder, judges)[0])


# judges


def marked(judges: Code, name: str, **changes: Any) -> Code:
    """The judges, and the first of them under another id or with other changes."""
    return Code(judges=(*judges.judges, msgspec.structs.replace(judges.judges[0], id=name, **changes)))


def test_a_judge_of_an_unknown_id(folder: Path, judges: Code) -> None:
    judges = marked(judges, "KVW-ENV-009")
    only(check(folder, judges), "kvwire/judges/envelope.py:7", "KVW-ENV-009", "the standard does not have")


def test_a_judge_of_a_pending_id(folder: Path, judges: Code) -> None:
    judges = marked(judges, "KVW-SEQ-002")
    only(check(folder, judges), "kvwire/judges/envelope.py:7", "KVW-SEQ-002", "the table says pending")


def test_a_judge_in_another_chapter(folder: Path, judges: Code) -> None:
    judges = marked(Code(judges=judges.judges[:1]), "KVW-SEQ-001")
    only(check(folder, judges), "kvwire/judges/envelope.py:7", "KVW-SEQ-001", "the table says sequence")


def test_an_id_with_two_places(folder: Path, judges: Code) -> None:
    judges = marked(judges, "KVW-ENV-001", method="other", line=9)
    only(check(folder, judges), "kvwire/judges/envelope.py:9", "KVW-ENV-001", "envelope.method", "envelope.py:7", "too")


def test_a_judged_id_without_judge(folder: Path, judges: Code) -> None:
    judges = Code(judges=judges.judges[:1])
    assert build(folder, judges) == []
    only(check(folder, judges), "spec/requirements.toml:8", "KVW-SEQ-001", "no method in judges/sequence")


def test_a_drifted_quote(folder: Path, judges: Code) -> None:
    judges = Code(judges=judges.judges[1:])
    judges = marked(judges, "KVW-ENV-001", area="envelope", doc="A publisher MUST send four frames.")
    found = check(folder, judges)
    only(found, "kvwire/judges/sequence.py:7", "KVW-ENV-001", "does not quote it: write “A publisher MUST send three")


def test_a_memory_of_no_known_form_is_neither_built_nor_checked(folder: Path, judges: Code) -> None:
    judges = marked(Code(judges=judges.judges[1:]), "KVW-ENV-001", memory="O(banana)")
    before = (folder / "requirements.json").read_bytes()
    for found in (check(folder, judges), build(folder, judges)):
        only(found, "kvwire/judges/sequence.py:7", "KVW-ENV-001", "O(banana)", "O(1), O(holes)")
    assert (folder / "requirements.json").read_bytes() == before


def test_the_registry_says_what_the_judge_remembers(folder: Path, judges: Code) -> None:
    assert [r.memory for r in read(folder / "requirements.json").requirements] == ["O(1)", "O(1)", None]
    judges = Code(judges=tuple(msgspec.structs.replace(place, memory="O(ring)") for place in judges.judges))
    only(check(folder, judges), "spec/requirements.json:0", "", "run `kvwire spec build`")
    assert build(folder, judges) == []
    assert [r.memory for r in read(folder / "requirements.json").requirements] == ["O(ring)", "O(ring)", None]


@pytest.mark.parametrize(
    ("name", "judging", "words"),
    [
        ("KVW-ENV-009", False, "no judge is marked with it"),
        ("KVW-SEQ-002", True, "no judge is marked with it"),
        ("KVW-ENV-001", True, "and nowhere else"),
    ],
)
def test_an_id_that_code_uses_on_its_own(folder: Path, judges: Code, name: str, judging: bool, words: str) -> None:
    code = Code(judges=judges.judges, uses=(Use(id=name, file="kvwire/x.py", line=3, judging=judging),))
    only(check(folder, code), "kvwire/x.py:3", name, words)


def test_a_probe_may_name_what_is_judged(folder: Path, judges: Code) -> None:
    use = Use(id="KVW-ENV-001", file="kvwire/attack/x.py", line=3, judging=False)
    assert check(folder, Code(judges=judges.judges, uses=(use,))) == []


def test_uses_are_the_ids_that_stand_outside_of_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "judges").mkdir()
    text = '"""KVW-ENV-003: quoted."""\n\n@judge("KVW-ENV-001")\ndef f(): say("KVW-ENV-002", f"{x} of KVW-ENV-004")\n'
    (tmp_path / "judges" / "envelope.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr("kvwire.judges.places.resources.files", lambda _: tmp_path)
    assert [(use.id, use.line, use.judging) for use in uses()] == [("KVW-ENV-002", 4, True)]


# what is generated


@pytest.mark.parametrize("name", ["requirements.json", "editions/1.lock", "editions/pending.toml"])
def test_stale_files(folder: Path, judges: Code, name: str) -> None:
    path = folder / name
    content = path.read_bytes()
    path.write_bytes(content.replace(b"\n", b"\n\n", 1))
    only(check(folder, judges), f"spec/{name}:0", "", "run `kvwire spec build`")
    assert build(folder, judges) == []
    assert path.read_bytes() == content
    path.unlink()
    only(check(folder, judges), f"spec/{name}:0", "", "missing: run `kvwire spec build`")


def test_build_is_idempotent(folder: Path, judges: Code) -> None:
    def contents() -> dict[Path, tuple[bytes, int]]:
        return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}

    before = contents()
    assert build(folder, judges) == []
    assert contents() == before


# the lock


def last_entry(folder: Path) -> str:
    """The entry of KVW-SEQ-002, which is the last one of the table."""
    text = (folder / "requirements.toml").read_text(encoding="utf-8")
    return text[text.index("[KVW-SEQ-002]") :]


def test_an_id_that_is_gone(folder: Path, judges: Code, edit: Edit) -> None:
    edit("envelope.md", "A consumer MUST NOT guess [KVW-SEQ-002]. More follows.", "")
    edit("requirements.toml", last_entry(folder), "")
    only(check(folder, judges), "spec/editions/1.lock:7", "KVW-SEQ-002", "gone", "write `withdrawn`")
    assert build(folder, judges), "no build drops an id by itself"
    edit("editions/1.lock", "KVW-SEQ-002  MUST NOT    draft", "KVW-SEQ-002  MUST NOT    withdrawn")
    assert build(folder, judges) == []
    assert check(folder, judges) == []
    assert "KVW-SEQ-002  MUST NOT    withdrawn" in (folder / "editions/1.lock").read_text(encoding="utf-8")


def test_an_id_that_is_used_again(folder: Path, judges: Code, edit: Edit) -> None:
    edit("editions/1.lock", "KVW-SEQ-002  MUST NOT    draft", "KVW-SEQ-002  MUST NOT    withdrawn")
    only(check(folder, judges), "spec/editions/1.lock:7", "KVW-SEQ-002", "withdrawn and is used again")


def test_a_level_that_changed(folder: Path, judges: Code, edit: Edit) -> None:
    edit("envelope.md", "MUST NOT guess", "SHOULD NOT guess")
    edit("requirements.toml", '"MUST NOT"', '"SHOULD NOT"')
    only(check(folder, judges), "spec/editions/1.lock:7", "KVW-SEQ-002", "add the line", "spec/CHANGELOG.md")
    edit("CHANGELOG.md", "Nothing", "- KVW-SEQ-002: SHOULD NOT → MUST NOT, which is the wrong way round.\n\nNothing")
    assert check(folder, judges) == build(folder, judges) != []
    edit(
        "CHANGELOG.md", "SHOULD NOT → MUST NOT, which is the wrong way round", "MUST NOT → SHOULD NOT, since it is hard"
    )
    assert build(folder, judges) == []
    assert check(folder, judges) == []
    assert "KVW-SEQ-002  SHOULD NOT  draft      " in (folder / "editions/1.lock").read_text(encoding="utf-8")


@pytest.mark.parametrize("line", ["KVW-ENV-001", "KVW-XXX-001  MUST  draft", "KVW-ENV-009  MUST  frozen"])
def test_a_malformed_lock(folder: Path, judges: Code, line: str) -> None:
    path = folder / "editions/1.lock"
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    only(check(folder, judges), "spec/editions/1.lock:8", "", "not a line of a lock file")
    assert build(folder, judges)


def test_a_sentence_whose_words_change_needs_a_line_in_the_change_log_each_time(
    folder: Path, judges: Code, edit: Edit
) -> None:
    for old, new in (("MUST NOT guess", "MUST NOT guess at all"), ("MUST NOT guess at all", "MUST NOT guess twice")):
        edit("envelope.md", old, new)
        only(check(folder, judges), "spec/editions/1.lock:7", "KVW-SEQ-002", "add `- KVW-SEQ-002: …` to spec/CHANGELOG")
        assert build(folder, judges), "nothing is built from a change in silence"
        edit("CHANGELOG.md", "Nothing", f"- KVW-SEQ-002: {new}.\n\nNothing")
        assert build(folder, judges) == []
        assert check(folder, judges) == []


def test_a_new_sentence_needs_a_line_in_the_change_log(folder: Path, judges: Code, edit: Edit) -> None:
    edit("envelope.md", "More follows.", "A consumer MAY rest [KVW-SEQ-003].")
    entry = last_entry(folder)
    new = entry.replace("002", "003").replace("MUST NOT", "MAY").replace('pending = "later"', 'review = "later"')
    edit("requirements.toml", entry, f"{entry}\n{new}")
    only(check(folder, judges), "spec/CHANGELOG.md:0", "KVW-SEQ-003", "the id is new", "add `- KVW-SEQ-003: …`")
    edit("CHANGELOG.md", "Nothing", "- KVW-SEQ-0031 is another one.\n- KVW-SEQ-003: rest.\n\nNothing")
    assert build(folder, judges) == []
    assert check(folder, judges) == []
    lock = (folder / "editions/1.lock").read_text(encoding="utf-8")
    assert re.search(r"^KVW-SEQ-003  MAY         draft      [0-9a-f]{64}  1$", lock, re.MULTILINE)


# the ceiling


def test_more_pending_than_the_ceiling(folder: Path, judges: Code, edit: Edit) -> None:
    edit("editions/pending.toml", "consumer = 1", "consumer = 0")
    only(check(folder, judges), "spec/editions/pending.toml:0", "", "1 ids that bind a consumer", "the ceiling is 0")
    assert build(folder, judges), "no build raises the ceiling"
    assert "consumer = 0" in (folder / "editions/pending.toml").read_text(encoding="utf-8")


def test_the_ceiling_falls(folder: Path, judges: Code, edit: Edit) -> None:
    edit("requirements.toml", 'pending = "later"', 'review = "later"')
    assert {p.file for p in check(folder, judges)} == {"spec/editions/pending.toml", "spec/requirements.json"}
    assert build(folder, judges) == []
    assert "consumer = 0" in (folder / "editions/pending.toml").read_text(encoding="utf-8")
    edit("requirements.toml", 'review = "later"', 'pending = "later"')
    assert build(folder, judges)


@pytest.mark.parametrize("content", ["consumer = 'many'\n", "others = 1\n", "["])
def test_a_malformed_ceiling(folder: Path, judges: Code, content: str) -> None:
    (folder / "editions/pending.toml").write_text(content, encoding="utf-8")
    only(check(folder, judges), "spec/editions/pending.toml:0", "", "not a ceiling")


# release


def test_release_refuses_pending_ids(folder: Path, judges: Code) -> None:
    before = (folder / "editions/1.lock").read_bytes()
    only(release(folder, judges), "spec/requirements.toml:15", "KVW-SEQ-002", "still pending: later")
    assert (folder / "editions/1.lock").read_bytes() == before


def test_release_freezes(folder: Path, judges: Code, edit: Edit) -> None:
    edit("requirements.toml", 'pending = "later"', 'review = "not visible"')
    assert release(folder, judges), "what is not built is not released"
    assert build(folder, judges) == []
    assert release(folder, judges) == []
    assert check(folder, judges) == []
    edit("envelope.md", "MUST NOT guess", "MUST NOT guess at all")
    only(check(folder, judges), "spec/editions/1.lock:7", "KVW-SEQ-002", "differs from the one that was frozen")
    edit("envelope.md", "MUST NOT guess at all", "SHOULD NOT guess")
    edit("requirements.toml", '"MUST NOT"', '"SHOULD NOT"')
    edit("CHANGELOG.md", "Nothing", "- KVW-SEQ-002: MUST NOT → SHOULD NOT\n\nNothing")
    only(check(folder, judges), "spec/editions/1.lock:7", "KVW-SEQ-002", "a frozen level does not change")


def test_nothing_new_after_the_freeze(folder: Path, judges: Code, edit: Edit) -> None:
    edit("requirements.toml", 'pending = "later"', 'review = "not visible"')
    assert build(folder, judges) == release(folder, judges) == []
    edit("envelope.md", "More follows.", "A consumer MAY rest [KVW-SEQ-003].")
    entry = last_entry(folder)
    edit("requirements.toml", entry, entry + entry.replace("002", "003").replace("MUST NOT", "MAY"))
    problems = [p for p in check(folder, judges) if p.id == "KVW-SEQ-003"]
    only(problems, "spec/editions/1.lock:0", "KVW-SEQ-003", "belongs to the next edition")


# the command


def test_the_command(folder: Path, judges: Code, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*args: str) -> tuple[int, str]:
        result = CliRunner().invoke(spec.spec, args)
        return result.exit_code, result.output

    monkeypatch.setattr(drift, "checkout", lambda: folder)
    monkeypatch.setattr(spec, "_code", lambda: judges)
    assert run("build") == (0, "spec: built\n")
    assert run("check") == (0, "spec: everything fits together\n")
    code, output = run("release")
    assert code == 1
    assert output.startswith("spec/requirements.toml:15: KVW-SEQ-002: still pending: later")
    monkeypatch.setattr(drift, "checkout", lambda: None)
    code, output = run("check")
    assert code == 2
    assert "installed copy and its standard read-only" in output


def test_a_checkout_is_told_from_an_installed_copy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder.parent
    monkeypatch.setattr("kvwire.standard.drift.resources.files", lambda _: root / "conformance" / "kvwire")
    assert drift.checkout() is None
    (root / "pyproject.toml").touch()
    assert drift.checkout() == folder


# the real standard


def test_the_real_standard_fits_together() -> None:
    assert [str(problem) for problem in check(REAL, Code(judges=places(), uses=uses()))] == []


def test_every_sentence_names_who_it_binds() -> None:
    """`binds` of the table against the words of the sentence."""
    for requirement in read(REAL / "requirements.json").requirements:
        who = requirement.binds.replace("-", " ")
        assert requirement.sentence.startswith(f"A {who} "), requirement.id


def test_every_sentence_is_judged_in_its_own_chapter() -> None:
    told = {r.id: (r.judged, r.section) for r in read(REAL / "requirements.json").requirements if r.judged is not None}
    assert [name for name, (judged, section) in told.items() if not section.startswith(f"{judged}.md: ")] == []


def test_chapters_are_where_the_registry_says() -> None:
    told = prose.read(REAL)
    assert len(told.sentences) == len(read(REAL / "requirements.json").requirements) > 130
    assert all((REAL / sentence.section.split(":")[0]).is_file() for sentence in told.sentences)
