"""The pytest plugin as a publisher's project uses it: inert unless asked, a test a sentence, one run in all."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest
from tests.kit.stories import TOPIC, cleared, number_frame, payload, stored

from kvwire import judge
from kvwire.conclusion import result
from kvwire.judges.verdict import Verdict
from kvwire.standard import resources
from kvwire.standard.registry import UnknownNameError

PLUGIN = [] if entry_points(group="pytest11", name="kvwire") else ["-p", "kvwire.cli.pytest_plugin"]
SESSIONS = resources.vectors() / "session"
MUTANT = f"trace:{SESSIONS / 'mutant-integer-ts.kvtrace'}"
HONEST = f"trace:{SESSIONS / 'eviction.kvtrace'}"
ALLOWED = "--kvwire-allow-inconclusive"
ASKED = ["-p", "no:cacheprovider", "-p", "no:randomly", "-rA", "--kvwire-profile", "core"]


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(*PLUGIN, *ASKED, *arguments)


def test_it_does_nothing_unless_asked(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_mine(): pass")
    done = pytester.runpytest_subprocess(*PLUGIN, "-p", "no:cacheprovider")
    done.assert_outcomes(passed=1)
    pytester.makepyfile(
        "import sys\ndef test_light(): assert not [m for m in sys.modules if m.startswith(('kvwire.judges', 'zmq'))]"
    )
    pytester.runpytest_subprocess(*PLUGIN, "-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_each_sentence_is_a_test_with_its_id(pytester: pytest.Pytester) -> None:
    done = run(pytester, "--kvwire-target", MUTANT, ALLOWED)
    counts = done.parseoutcomes()
    assert counts["failed"] == 1
    assert counts["passed"] > 20
    done.stdout.fnmatch_lines(
        [
            "*FAIL KVW-BAT-002 on *: A publisher MUST send `ts` as a msgpack float64*",
            "*expected `ts` as float64",
            "*seen     integer *",
            "FAILED kvwire::KVW-BAT-002*",
        ]
    )
    assert "Traceback" not in done.stdout.str()
    assert done.ret == pytest.ExitCode.TESTS_FAILED


def test_what_was_to_be_shown_and_was_not_fails_unless_it_is_allowed(pytester: pytest.Pytester) -> None:
    done = run(pytester, "--kvwire-target", MUTANT, "-k", "KVW-BAT-003")
    done.assert_outcomes(failed=1, deselected=None)
    done.stdout.fnmatch_lines(["*INCONCLUSIVE KVW-BAT-003*"])
    run(pytester, "--kvwire-target", MUTANT, "-k", "KVW-BAT-003", ALLOWED).assert_outcomes(skipped=1, deselected=None)


def test_an_honest_publisher_has_no_failure_and_open_sentences_are_skipped(pytester: pytest.Pytester) -> None:
    counts = run(pytester, "--kvwire-target", HONEST).parseoutcomes()
    assert "failed" not in counts
    assert counts["skipped"] > 0


def test_one_sentence_is_chosen_as_any_test_is(pytester: pytest.Pytester) -> None:
    run(pytester, "--kvwire-target", MUTANT, "-k", "KVW-BAT-001").assert_outcomes(passed=1, deselected=None)
    run(pytester, "--kvwire-target", MUTANT, "-m", "not kvwire").assert_outcomes()


def test_a_baseline_is_strict_both_ways(pytester: pytest.Pytester) -> None:
    baseline = pytester.path / "kvwire.toml"
    text = '[[expected]]\nid = "BAT-002"\nverdict = "FAIL"\nreason = "whole seconds"\n'
    baseline.write_text(text, encoding="utf-8")
    asked = [ALLOWED, "--kvwire-baseline", str(baseline), "--kvwire-target"]
    counts = run(pytester, *asked, MUTANT).parseoutcomes()
    assert (counts.get("failed"), counts["xfailed"]) == (None, 1)
    done = run(pytester, *asked, HONEST)
    assert done.parseoutcomes()["failed"] == 1
    done.stdout.fnmatch_lines(["*KVW-BAT-002 passes, and FAIL was expected: remove its entry*", "FAILED kvwire::run*"])


def test_workers_share_one_run(pytester: pytest.Pytester) -> None:
    out = pytester.path / "result.ndjson"
    done = run(pytester, "--kvwire-target", MUTANT, "--kvwire-result", str(out), ALLOWED, "-n", "2")
    assert done.parseoutcomes()["failed"] == 1
    assert result.parse(out.read_bytes()).summary.verdict is Verdict.FAIL


def test_ini_values_are_the_same(pytester: pytest.Pytester) -> None:
    pytester.makeini(f"[pytest]\nkvwire_target = {MUTANT}\nkvwire_allow_inconclusive = true\n")
    assert run(pytester).parseoutcomes()["failed"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kvwire-target", "nothing"], "*kvwire: *nothing*"),
        (["--kvwire-target", "no\x1b[31m\n"], r"*kvwire: 'no\\x1b[[]31m\\n' is no target*"),
        (["--kvwire-target", HONEST, "--kvwire-mode", "slow"], "*--kvwire-mode slow: one of quick, plain, thorough*"),
        (["--kvwire-target", HONEST, "--kvwire-baseline", "/nowhere"], "*/nowhere: No such file or directory*"),
    ],
)
def test_what_cannot_be_used_is_said_before_anything_runs(
    pytester: pytest.Pytester, arguments: list[str], said: str
) -> None:
    done = run(pytester, *arguments)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([said])


def test_a_project_checks_the_publisher_that_it_started(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        def test_honest(kvwire_check):
            assert kvwire_check({HONEST!r}, profile="core").summary.exit == 0

        def test_broken(kvwire_check):
            kvwire_check({MUTANT!r}, profile="core")

        def test_looked_at(kvwire_check):
            assert kvwire_check({MUTANT!r}, profile="core", strict=False).summary.exit == 1
        """
    )
    done = run(pytester)
    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(["*not conformant (BAT-002)*", "*FAIL KVW-BAT-002 on *"])


def test_messages_are_judged_as_they_came() -> None:
    honest = [
        (TOPIC, number_frame(n), payload(event, ts=1000.0 + n)) for n, event in enumerate((cleared(), stored("ab")))
    ]
    found = judge(honest)
    assert str(found.summary.verdict) in ("PASS", "INCONCLUSIVE")
    two = [*honest, (TOPIC, number_frame(2), payload(stored("a"), ts=1002.0)), (b"x",)]
    broken = {outcome.requirement for outcome in judge(two).outcomes if outcome.verdict is Verdict.FAIL}
    assert broken >= {"KVW-RES-001", "KVW-ENV-001"}
    with pytest.raises(UnknownNameError):
        judge(honest, profile="nothing")


def test_the_recording_is_kept(pytester: pytest.Pytester) -> None:
    kept = Path(pytester.path) / "run.kvtrace"
    run(pytester, "--kvwire-target", HONEST, "--kvwire-record", str(kept))
    assert kept.stat().st_size > 100
