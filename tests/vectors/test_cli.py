"""``kvwire vectors``: lists, copies, and an implementation that is told what it does wrong."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from kvwire import cli
from kvwire.cli.vectors import vectors
from kvwire.standard import resources
from kvwire.vectors import access, asking, filtering, manifest
from kvwire.vectors.asking import Question, grade

FILTERS = str(Path(__file__).with_name("filters.py"))
FOLLOWING = str(Path(__file__).with_name("following.py"))
V1 = ("--only", "hash/v1_block_key", "--skip", "invalid")
FOURTH = "v1-known-salt-root"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(vectors, arguments)


def verify(name: str, *arguments: str) -> Result:
    return run("verify", *V1, *arguments, "--", sys.executable, FILTERS, name)


# --- verify -------------------------------------------------------------------------------------------------------


def test_a_good_implementation_passes() -> None:
    result = verify("good")
    assert result.exit_code == 0, result.output
    assert "hash/v1_block_key: " in result.stdout
    assert "passed" in result.stdout
    assert "failed" not in result.stdout


def test_a_hasher_without_the_wrap_is_told_so() -> None:
    result = verify("no-wrap")
    assert result.exit_code == 1
    assert 'FAIL v1-known-root: `unsigned` is "944812140882783", expected "924206229973855"' in result.stdout
    assert "known mistake no-wrap: 32-bit wrap missing" in result.stdout
    assert "more failures (--all shows them)" in result.stdout
    assert "× no-wrap: 32-bit wrap missing" in result.stdout
    assert "more failures" not in verify("no-wrap", "--all").stdout


def test_a_hasher_that_rounds_is_told_so() -> None:
    result = verify("float")
    assert result.exit_code == 1
    assert "known mistake rounded-hash: the hash is rounded to 53 bits" in result.stdout


def test_answers_as_lines() -> None:
    result = verify("no-wrap", "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 1
    first = next(row for row in rows if row["id"] == "v1-known-root")
    assert first["grade"] == "failed"
    assert first["mistakes"] == ["no-wrap"]


@pytest.mark.parametrize(
    ("name", "said", "rest"),
    [
        ("dies", f"error: it ended with exit code 7 before it answered, when {FOURTH} was waited for", False),
        ("killed", f"error: it ended with SIGKILL before it answered, when {FOURTH} was waited for", False),
        ("garbage", f"error: not a JSON object with an `id`: 'loading weights …', when {FOURTH} was waited for", True),
        ("unknown", f"error: an answer to 'v1-of-mine', which was not asked, when {FOURTH} was waited for", True),
        ("twice", f"error: a second answer to v1-known-root, when {FOURTH} was waited for", True),
        ("reversed", "error: 218 more of the sort 'order'", True),
        ("exits", "error: it ended with exit code 3 after its last answer, after the last answer", True),
        ("silent", f"error: no output for 0.5 s, when {FOURTH} was waited for", False),
    ],
)
def test_a_filter_that_misbehaves(name: str, said: str, rest: bool) -> None:
    result = verify(name, "--silence", "0.5" if name == "silent" else "30")
    assert result.exit_code == 4
    assert said.rpartition("218")[0] in result.stderr
    assert said.rpartition("218")[2] in result.stderr
    assert "passed" in result.stdout
    assert ("without an answer" in result.stdout) != rest
    assert FOURTH in verify(name, "--silence", "0.5", "--json").stdout


def test_a_line_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtering, "LINE_BYTES", 1000)
    result = run("verify", *V1, "--", sys.executable, "-c", "print('x' * 200000)")
    assert result.exit_code == 4
    assert "a line of more than 1000 bytes, when v1-known-root was waited for" in result.stderr


def test_one_that_says_nothing_but_trouble_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtering, "TROUBLES", 50)
    result = run("verify", *V1, "--", sys.executable, "-c", "while True: print('y')")
    assert result.exit_code == 4
    assert "50 lines that were no answers, and no end of them: it was given up" in result.stderr


def test_everything_unsupported_is_inconclusive() -> None:
    result = run("verify", "--only", "endpoint", "--", sys.executable, FILTERS, "good")
    assert result.exit_code == 3
    assert "93 unsupported" in result.stdout


def test_refusing_is_right_where_it_has_to_be() -> None:
    result = run("verify", "--only", "wire/invalid", "--", sys.executable, FILTERS, "refuses")
    assert result.exit_code == 0
    result = run("verify", "--only", "wire/invalid", "--flag", "msgpack", "--", sys.executable, FILTERS, "accepts")
    assert result.exit_code == 1
    assert "FAIL wire-truncated-empty: not refused: truncated, no bytes at all" in result.stdout
    result = run("verify", "--only", "wire/valid", "--", sys.executable, FILTERS, "refuses")
    assert result.exit_code == 1
    assert 'refused ("no"), but it is valid' in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--only", "hash/v3"), "no vectors 'hash/v3'; there are consumer, endpoint, envelope, hash, replay, session"),
        (("--flag", "no-such"), "no test here has the flag 'no-such'; there are "),
        (("--only", "wire/consumers"), "--only wire/consumers: no tests are there"),
        (("--flag", "valid", "--skip", "valid"), "no test is left by these filters"),
        (("--vectors", "/nowhere"), "there is no manifest here"),
    ],
)
def test_unknown_names(arguments: tuple[str, ...], said: str) -> None:
    result = run("verify", *arguments, "--", sys.executable, FILTERS, "good")
    assert result.exit_code == (4 if "/nowhere" in arguments else 2)
    assert said in result.stderr.replace("\n", " ")


def test_no_such_command() -> None:
    result = run("verify", "--", "/nowhere/filter")
    assert result.exit_code == 2
    assert "cannot run '/nowhere/filter': No such file or directory" in result.stderr


@pytest.mark.parametrize("command", ["verify", "export", "list"])
def test_a_damaged_copy(tmp_path: Path, command: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(resources.vectors(), copy)
    path = copy / "hash" / "v1_block_key.json"
    path.write_bytes(path.read_bytes()[:-100])
    rest = {"verify": ("--", "true"), "export": (str(tmp_path / "out"),), "list": ()}[command]
    result = run(command, "--vectors", str(copy), *rest)
    if command != "list":
        assert result.exit_code == 4
        assert "hash/v1_block_key.json: its sha256 is " in result.stderr
    data = (copy / manifest.NAME).read_bytes()
    (copy / manifest.NAME).write_bytes(data[:5000])
    result = run(command, "--vectors", str(copy), *rest)
    assert result.exit_code == 4
    assert "not a whole manifest" in result.stderr


# --- grades -------------------------------------------------------------------------------------------------------


def asked(name: str, test_id: str, number: int = 0) -> Question:
    identity = f"{test_id}#{number}" if number else test_id
    return next(q for q in asking.questions(name, access.load(name)) if q.id == identity)


def test_a_question() -> None:
    question = msgspec.json.decode(asked("hash/v2_sha256_64", "v2-u32-chain-8").line)
    assert question["kind"] == "hash"
    assert question["algorithm"] == "v2_sha256_64/u32"
    assert question["width"] == 4
    assert len(question["input"]["tokens"]) == 128
    encodings = asked("wire/encodings", "wire-encodings-v", 2)
    assert msgspec.json.decode(encodings.line)["input"].keys() == {"payload"}


@pytest.mark.parametrize(
    ("name", "test_id", "answer", "why"),
    [
        ("hash/v1_block_key", "v1-known-root", {"signed": "924206229973855"}, ""),
        ("hash/v1_block_key", "v1-known-root", {"unsigned": 924206229973855}, ""),
        ("hash/v1_block_key", "v1-known-root", {"key": "00"}, "the answer has no `unsigned` or `signed`"),
        ("hash/v2_sha256", "v2-key-u32-known-1", {"unsigned": "1"}, "the answer has no `key`"),
        ("hash/v1_block_key", "v1-chain-2", {"unsigned": "1", "chain": ["1", "1"]}, '`unsigned` is "1", expected'),
        ("hash/v2_sha256_64", "v2-u32-token-2e31", {"refused": "range"}, ""),
        ("wire/valid", "wire-batch-empty", {"projection": None}, "`projection` is null, expected"),
        ("envelope/live", "envelope-number-1", {"topic": "6b76", "sequence": 1}, "the answer has no `payload`"),
        ("replay/answer", "replay-answer-nothing", {"form": "replay-topic", "outcome": "empty", "numbers": []}, ""),
        (
            "endpoint/binding",
            "endpoint-tcp-rank-3",
            {"publish": "tcp://127.0.0.1:5560", "replay": "x"},
            '`replay` is "x"',
        ),
    ],
)
def test_grades(name: str, test_id: str, answer: dict[str, object], why: str) -> None:
    graded = grade(asked(name, test_id), answer)
    assert graded.grade == ("failed" if why else "passed"), graded.why
    assert graded.why.startswith(why)


def followed(name: str, *arguments: str) -> Result:
    return run("verify", "--only", "consumer", "--all", *arguments, "--", sys.executable, FOLLOWING, name)


def test_a_right_consumer_passes() -> None:
    result = followed("right")
    assert result.exit_code == 0, result.output
    assert "consumer/lookup: 40 passed" in result.stdout


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("stale", 'restart-seen-below: after step 4 (s: live b4) `asks` is null, expected "0"'),
        ("hopeful", 'hole-final: after step 6 (s: ended) `asks` is "3", expected null'),
        ("trusting", "hole-removal-unseen: after step 6 (s: ended) `sure` is true, expected false"),
        ("flat", "medium-unknown: after step 4 (s: live a1) `holds` is"),
    ],
)
def test_a_consumer_is_told_where_it_goes_wrong_first(name: str, told: str) -> None:
    result = followed(name)
    assert result.exit_code == 1
    assert f"FAIL consumer-{told}" in result.stdout


def test_what_a_consumer_may_do_either_way_is_not_compared() -> None:
    question = asked("consumer/resynchronisation", "consumer-hole-filled")
    states = msgspec.to_builtins(question.test.expected)["steps"]
    assert grade(question, {"steps": states}).grade == "passed"
    reading = next(number for number, state in enumerate(states) if "holds" not in state)
    early = [*states[:reading], {**states[reading], "last": "5", "holds": []}, *states[reading + 1 :]]
    assert grade(question, {"steps": early}).grade == "passed"
    numbers = [{**state, **({"last": int(state["last"])} if "last" in state else {})} for state in states]
    assert grade(question, {"steps": numbers}).grade == "passed"
    assert grade(question, {"steps": states[1:]}).why == f"`steps` are not {len(states)} states"
    assert grade(question, {"steps": [None, *states[1:]]}).why.endswith("(s: connected) the state is null")


def test_the_order_of_what_is_held_means_nothing() -> None:
    question = asked("consumer/residency", "consumer-clear-both")
    states = msgspec.to_builtins(question.test.expected)["steps"]
    turned = [{**state, "holds": [*reversed(state["holds"])]} for state in states]
    assert grade(question, {"steps": turned}).grade == "passed"
    turned[-1]["holds"] = turned[-1]["holds"][1:]
    assert "`holds` is" in grade(question, {"steps": turned}).why


def test_projections_are_compared_strictly() -> None:
    question = asked("wire/valid", "wire-stored-one")
    right = question.test.expected.projection
    assert grade(question, {"projection": right}).grade == "passed"
    wrong = json.loads(json.dumps(right))
    wrong["ts"]["float"] = "for people"
    assert grade(question, {"projection": wrong}).grade == "passed"
    for path, value in (("block_hashes", [-2003500929019345749]), ("block_size", 4.0), ("lora_id", False)):
        wrong = json.loads(json.dumps(right))
        wrong["events"][0][path] = value
        assert grade(question, {"projection": wrong}).grade == "failed", path


def test_a_signed_answer_names_its_mistake() -> None:
    question = asked("hash/v2_sha256_64", "v2-u32-known-1")
    last = int(question.test.mistakes["last-8"])
    assert grade(question, {"signed": str(last - 2**64 if last >= 2**63 else last)}).mistakes == ("last-8",)
    wide = int(question.test.mistakes["eight-byte-tokens"])
    assert grade(question, {"signed": str(wide - 2**64)}).mistakes == ("eight-byte-tokens",)
    number = asked("envelope/live", "envelope-number-258")
    swapped = {"topic": "6b76", "sequence": "144396663052566528", "payload": "93cb41d9dd21606000009000"}
    assert grade(number, swapped).mistakes == ("little-endian-number",)


# --- list and export ----------------------------------------------------------------------------------------------


def test_list() -> None:
    lines = run("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == [
        entry.path.removesuffix(".json") for entry in access.contents().files
    ]
    assert [line.split()[0] for line in run("list", "endpoint").stdout.splitlines()] == ["endpoint/binding"]
    ids = run("list", "hash/known-answers", "wire/legacy", "--ids").stdout.splitlines()
    assert ids[0] == "v1-root"
    assert ids[-1].startswith("wire-legacy-")
    rows = [json.loads(line) for line in run("list", "replay", "--ids", "--json").stdout.splitlines()]
    assert {row["file"] for row in rows} == {"replay/answer.json", "replay/request.json"}
    assert json.loads(run("list", "envelope", "--json").stdout)["path"] == "envelope/live.json"
    assert run("list", "hsah").exit_code == 2


def test_export(tmp_path: Path) -> None:
    target = tmp_path / "copy"
    result = run("export", str(target))
    assert result.exit_code == 0
    assert manifest.damage(target) == []
    assert {path.name for path in target.iterdir()} >= {
        "MANIFEST.json",
        "EDITION",
        "LICENSE",
        "README.md",
        "ids.lock",
        "wire",
    }
    assert run("export", str(target), "--only", "hash").exit_code == 0
    assert manifest.damage(target) == []
    assert {entry.path.split("/")[0] for entry in manifest.read(target).files} == {"hash"}
    assert not (target / "wire" / "valid.json").exists()
    result = run("verify", "--vectors", str(target), *V1, "--", sys.executable, FILTERS, "good")
    assert result.exit_code == 0


def test_an_export_that_a_full_disk_breaks_off_names_the_copy_and_can_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "copy"

    def full(source: Path, copy: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source), None, str(copy))

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", full)
        assert cli.run(["vectors", "export", str(target)]) == 4
    assert f"kvwire: error: {target}" in capsys.readouterr().err
    assert run("export", str(target)).exit_code == 0
    assert run("export", str(target), "--check").exit_code == 0


def test_export_spares_what_is_not_a_copy(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    result = run("export", str(tmp_path))
    assert result.exit_code == 2
    assert "is not empty and holds no earlier copy" in result.stderr
    assert run("export", str(tmp_path / "mine")).exit_code == 2
    assert run("export", str(tmp_path / "new"), "--only", "hsah").exit_code == 2
    assert not (tmp_path / "new").exists()
