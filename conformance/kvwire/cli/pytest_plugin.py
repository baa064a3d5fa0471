"""A pytest plugin: each sentence of the standard as a test of a publisher. It does nothing unless asked.

``pytest --kvwire-target 'exec:python adapter.py'`` adds a test for each sentence of the profile, with its id
(``kvwire::KVW-SEQ-001``). The publisher is attacked once, before the first of them, by whichever xdist worker comes
first. The fixture ``kvwire_check`` is for projects that start their publisher themselves.

Nothing of the harness is imported before it is needed.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kvwire.attack.probes.kit.session import Mode
    from kvwire.conclusion.result import Result
    from kvwire.report.standing import Case

_OPTIONS = (
    ("target", "a publisher to check, as `kvwire check` takes it; adds a test for each sentence"),
    ("drive", "drive its engine by an OpenAI-compatible API: openai:http://HOST:PORT/v1"),
    ("profile", "hold it to this profile (replay)"),
    ("baseline", "a file of expected failures: what it expects is xfail, what does not come true fails"),
    ("mode", "quick, plain or thorough (plain)"),
    ("result", "write the result stream (NDJSON) to this file"),
    ("record", "write the recording of the run to this file"),
)
DEFAULT_PROFILE = "replay"
LOCK_S = 600.0
"""How long a worker waits for the one that runs the attacks."""


class KvwireWarning(UserWarning):
    """A SHOULD that does not hold."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--kvwire-target`` and its kin, each an ini value too (``kvwire_target``)."""
    group = parser.getgroup("kvwire", "conformance of a KV-cache event publisher")
    for name, said in _OPTIONS:
        group.addoption(f"--kvwire-{name}", dest=f"kvwire_{name}", default=None, metavar=name.upper(), help=said)
        parser.addini(f"kvwire_{name}", said, default="")
    said = "what was to be shown and was not is skipped, and no failure"
    group.addoption("--kvwire-allow-inconclusive", action="store_true", default=False, help=said)
    parser.addini("kvwire_allow_inconclusive", said, type="bool", default=False)


def _option(config: pytest.Config, name: str) -> str | None:
    value = config.getoption(f"kvwire_{name}") or config.getini(f"kvwire_{name}")
    return str(value) if value else None


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; refuse what no run could use before anything is collected."""
    config.addinivalue_line("markers", "kvwire: a sentence of the kvwire standard (`-m kvwire`, `-m 'not kvwire'`)")
    if (target := _option(config, "target")) is None:
        return
    from kvwire.attack.targets import TargetError, drive, parse
    from kvwire.standard import registry

    try:
        place = parse(target)
        if (driven := _option(config, "drive")) is not None:
            drive(place, driven)
        registry.profile(_option(config, "profile") or DEFAULT_PROFILE)
    except (TargetError, registry.UnknownNameError) as error:
        raise _usage(error) from None
    _mode(config)
    _expected(config)


def _mode(config: pytest.Config) -> Mode:
    match _option(config, "mode"):
        case None | "plain":
            return "plain"
        case "quick":
            return "quick"
        case "thorough":
            return "thorough"
        case other:
            raise _usage(f"--kvwire-mode {other}: one of quick, plain, thorough")


def _allows(config: pytest.Config) -> bool:
    return bool(config.getoption("kvwire_allow_inconclusive") or config.getini("kvwire_allow_inconclusive"))


def _expected(config: pytest.Config) -> tuple[Any, ...]:
    """The entries of the baseline."""
    if (path := _option(config, "baseline")) is None:
        return ()
    from kvwire.conclusion import expected_failures
    from kvwire.standard import registry

    try:
        return expected_failures.read(Path(path), registry.load())
    except expected_failures.ExpectedFailuresError as error:
        raise _usage(error) from None


def _usage(said: object) -> pytest.UsageError:
    """What cannot be used; of what stands in it, a terminal obeys nothing."""
    from kvwire.report.visible import visible

    return pytest.UsageError(visible(f"kvwire: {said}"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test for each judged sentence of the profile, in the order of the standard, and one for the run as a whole."""
    if _option(config, "target") is None:
        return
    from kvwire.judges import JUDGES
    from kvwire.standard import registry

    profile = registry.profile(_option(config, "profile") or DEFAULT_PROFILE)
    ids = [r.id for r in registry.load().binding("publisher") if r.id in profile.ids and r.id in JUDGES]
    collector = Sentences.from_parent(session, name="kvwire", nodeid="kvwire")
    made: list[pytest.Item] = [Whole.from_parent(collector, name="run")]
    made += [Sentence.from_parent(collector, name=name) for name in ids]
    keyword, marks = config.getoption("keyword"), config.getoption("markexpr")
    for item in made:
        item.add_marker("kvwire")
    if keyword or marks:
        from _pytest.mark import deselect_by_keyword, deselect_by_mark

        deselect_by_keyword(made, config)
        deselect_by_mark(made, config)
    items.extend(made)


class Sentences(pytest.Collector):
    """Where the sentences hang."""

    def collect(self) -> Iterator[pytest.Item]:
        """Nothing of its own: the sentences are added behind all other tests."""
        return iter(())


class Sentence(pytest.Item):
    """One sentence on all streams of the target."""

    def runtest(self) -> None:
        """Fail as the run did: once for all streams that break the sentence."""
        report = result_of(self.config)
        from kvwire.report.standing import Standing, cases

        mine = [case for case in cases(report) if case.outcome is not None and case.name == self.name]
        if not mine:
            pytest.skip("it was not judged")
        failed = [case for case in mine if case.standing in (Standing.FAILED, Standing.ERROR)]
        expected = [case for case in mine if case.outcome is not None and case.outcome.expected]
        if failed:
            raise NotKept("\n".join(_told(case) for case in failed))
        if expected:
            first = expected[0].outcome
            pytest.xfail(f"expected: {first.expected}" if first is not None else "")
        warned = [case for case in mine if case.outcome is not None and str(case.outcome.verdict) == "WARN"]
        for case in warned:
            warnings.warn(KvwireWarning(f"{self.name}: {case.message}"), stacklevel=1)
        if all(case.standing is Standing.SKIPPED for case in mine):
            pytest.skip(mine[0].message)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What was found, without a traceback through the harness."""
        if isinstance(excinfo.value, NotKept):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it stands: in the standard."""
        return Path("kvwire"), None, self.name


class Whole(Sentence):
    """The run as a whole: trouble, expectations that did not come true, and what no sentence says."""

    def runtest(self) -> None:
        """Fail where the run failed for what is no sentence's."""
        from kvwire.report.standing import RUN, Standing, cases

        report = result_of(self.config)
        failed = [c for c in cases(report) if c.name == RUN and c.standing in (Standing.FAILED, Standing.ERROR)]
        if failed:
            raise NotKept("\n".join(case.message for case in failed))


class NotKept(Exception):
    """A sentence that the publisher does not keep."""


def _told(case: Case) -> str:
    outcome = case.outcome
    assert outcome is not None
    lines = [f"{outcome.verdict} {outcome.requirement} on {outcome.stream}: {outcome.sentence}."]
    if not outcome.findings:
        return f"{lines[0]}\n  {case.message}"
    from kvwire.report.console import place

    for finding in outcome.findings:
        lines += [f"  expected {finding.expected}", f"  seen     {finding.seen}", f"  where    {place(finding)}"]
    return "\n".join(lines)


# --- the run -----------------------------------------------------------------------------------------------------

_RESULT = pytest.StashKey["Result"]()


def result_of(config: pytest.Config) -> Result:
    """The result of the one run of this session: made by the worker that is first, read by the others."""
    if _RESULT in config.stash:
        return config.stash[_RESULT]
    from kvwire.conclusion import result
    from kvwire.report.visible import safe
    from kvwire.standard import reading

    shared = _shared(config)
    if shared is None:
        config.stash[_RESULT] = made = safe(_run(config))
        return made
    path = shared / "kvwire-result.ndjson"
    with _locked(shared / "kvwire.lock"):
        if not path.exists():
            raw = result.dump(_run(config))
            path.with_suffix(".part").write_bytes(raw)
            path.with_suffix(".part").replace(path)
    config.stash[_RESULT] = found = safe(result.parse(reading.content(path, reading.RESULT_BYTES)))
    return found


def _shared(config: pytest.Config) -> Path | None:
    """A folder that the workers of this session share; None where there is one process."""
    given = getattr(config, "workerinput", None)
    if given is None:
        return None
    folder = Path(tempfile.gettempdir()) / f"kvwire-pytest-{os.getuid()}-{given['testrunuid']}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Held by one process at a time, and let go when it dies."""
    import fcntl
    import time

    until = time.monotonic() + LOCK_S
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > until:
                    raise TimeoutError(f"no result of another worker within {LOCK_S:g} s") from None
                time.sleep(0.1)
        yield


def _run(config: pytest.Config) -> Result:
    target = _option(config, "target")
    assert target is not None
    made = checked(
        target,
        drive=_option(config, "drive"),
        profile=_option(config, "profile") or DEFAULT_PROFILE,
        mode=_mode(config),
        expected=_expected(config),
        record=_option(config, "record"),
        allow_inconclusive=_allows(config),
    )
    if (path := _option(config, "result")) is not None:
        from kvwire.cli.screen import wrote
        from kvwire.report.faces import face

        wrote([(Path(path), face([made], "json"))])
    return made


def checked(
    target: str,
    *,
    drive: str | None = None,
    profile: str | None = None,
    mode: Mode = "plain",
    only: Sequence[str] = (),
    seconds: float | None = None,
    expected: Sequence[Any] = (),
    record: str | os.PathLike[str] | None = None,
    allow_inconclusive: bool = False,
) -> Result:
    """What `kvwire check` finds, as a result.

    Raises:
        TargetError: when the target cannot be used.
        FilterError, UnknownNameError: when a sentence or a profile is not known.
    """
    from kvwire.attack import targets
    from kvwire.attack.run import run
    from kvwire.cli.baseline import today
    from kvwire.cli.check import settings
    from kvwire.conclusion import expected_failures
    from kvwire.conclusion.conclude import conclude, select
    from kvwire.conclusion.summary import Wanted
    from kvwire.standard import registry
    from kvwire.trace import files

    place = targets.parse(target)
    if drive is not None:
        place = targets.drive(place, drive)
    known, wanted = registry.load(), Wanted(only=tuple(only), allow_inconclusive=allow_inconclusive)
    ids = select(wanted.only, known)
    if isinstance(place, targets.TraceTarget):
        trace = files.read(place.path)
    else:
        trace = run(place, settings(profile, mode, ids, seconds))
    if record is not None:
        files.write(trace, Path(record))
    found = conclude(trace, known, registry.profile(profile or trace.header.profile), wanted)
    return expected_failures.held(found, tuple(expected), today(), wanted) if expected else found


@pytest.fixture
def kvwire_check() -> Callable[..., Result]:
    """Check a publisher that the test has started: ``kvwire_check("zmq:tcp://127.0.0.1:5557", seconds=4)``.

    It returns the result, and fails the test with what was found unless ``strict=False``.
    """

    def check(target: str, *, strict: bool = True, **asked: Any) -> Result:
        __tracebackhide__ = True
        from kvwire.report.standing import Standing, cases
        from kvwire.report.visible import safe

        found = safe(checked(target, **asked))
        if strict and found.summary.exit != 0:
            failed = [case for case in cases(found) if case.standing in (Standing.FAILED, Standing.ERROR)]
            said = "\n".join(case.message if case.outcome is None else _told(case) for case in failed)
            pytest.fail(f"{found.summary.headline}\n{said}", pytrace=False)
        return found

    return check
