"""JUnit XML, as CI systems read it: a suite for each run, a case for each sentence and stream."""

from __future__ import annotations

from collections.abc import Sequence

from junitparser import Error, Failure, JUnitXml, Properties, Property, Skipped, TestCase, TestSuite

from kvwire.conclusion.result import Result
from kvwire.report.profile import causes, lines, shown
from kvwire.report.standing import Case, Standing, cases
from kvwire.report.words import short

_RESULTS = {Standing.FAILED: Failure, Standing.ERROR: Error, Standing.SKIPPED: Skipped}


def junit(reports: Sequence[Result]) -> str:
    """The XML; FAIL is a failure, ERROR an error, INCONCLUSIVE an error where the profile wants it shown and the run
    was not told to allow it, else skipped, NOT-APPLICABLE skipped with its reason.
    """
    xml = JUnitXml("kvwire")
    for report in reports:
        run = report.run
        suite = TestSuite(run.target)
        for name, value in (
            ("implementation", run.implementation),
            ("edition", run.edition),
            ("profile", run.profile),
            ("level", run.level),
            ("headline", report.summary.headline),
            ("exit", str(report.summary.exit)),
        ):
            suite.add_property(name, value)
        for text in causes(report):
            suite.add_property("cause", text)
        for profile in shown(report):
            for label, text in lines(profile):
                suite.add_property(f"{profile.name}: {label}", text)
        for case in cases(report):
            suite.add_testcase(_case(case, report))
        xml.append(suite)  # type: ignore[no-untyped-call]  # add_testsuite would merge equal ones
    written = xml.tostring()  # type: ignore[no-untyped-call]
    text = written.decode() if isinstance(written, bytes) else written
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _case(case: Case, report: Result) -> TestCase:
    outcome = case.outcome
    if outcome is None:
        made = TestCase(case.name, classname="kvwire")
    else:
        several = len(report.run.streams) > 1
        name = f"{outcome.requirement}[{outcome.stream}]" if several else outcome.requirement
        made = TestCase(name, classname=f"kvwire.{short(outcome.requirement).partition('-')[0]}")
        properties = Properties()  # type: ignore[no-untyped-call]
        for key, value in (
            ("id", outcome.requirement),
            ("level", outcome.level),
            ("sentence", outcome.sentence),
            ("stream", outcome.stream),
            ("verdict", str(outcome.verdict)),
            ("witnesses", str(outcome.witnesses)),
        ):
            properties.add_property(Property(key, value))
        made.append(properties)  # type: ignore[no-untyped-call]
    if case.standing is Standing.PASSED:
        if case.message:
            made.system_out = case.message
        return made
    made.result = [_RESULTS[case.standing](_message(case))]
    return made


def _message(case: Case) -> str:
    expected = case.outcome.expected if case.outcome is not None else ""
    return f"expected: {expected}; {case.message}" if expected else case.message
