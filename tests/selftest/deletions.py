"""Which line of a judge could be deleted and no test would notice? A pytest plugin; it gates nothing.

``tox -e deletions [-- --delete-in conformance/kvwire/judges …]``. The tests run once and it is noted which line
each of them reaches. Then every statement in a function is deleted, one at a time, in a process of its own (a fork, so
that nothing is imported again), and the tests that reach it run, those of its chapter first, until one fails. What is
left are statements that no test reaches, and statements without which all is the same: each is a test that is missing,
a line that is not needed, or one of those that only make things faster.

A condition counts as two: a branch that is never taken, and one that always is. Few tests are quick, and leave more:
``--delete-left`` tries again, with more of them, what the JSON of an earlier run names.
"""

from __future__ import annotations

import ast
import gc
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import cast

import coverage
import hypothesis
import pytest
from _pytest.runner import runtestprotocol

NOTICED, ALIKE, CANNOT, LATE = range(4)
"""How a child ends: a test failed; none did; the statement cannot be taken out of its function; out of time."""
AT_IMPORT = "runs at import only"
TOLD = {ALIKE: "nobody notices", LATE: "not tried in time"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
KEPT = (*FUNCTIONS, ast.ClassDef, ast.Pass, ast.Try, ast.With, ast.Match, ast.Import, ast.ImportFrom, ast.AnnAssign)
"""What is not deleted: what only holds other statements, or declares."""


@dataclass(frozen=True)
class Deletion:
    """A statement that is taken away.

    Attributes:
        path: The file.
        line: First line of the statement, from 1.
        what: ``deleted``, ``never`` (a condition is False) or ``always`` (it is True).
        index: Which statement, in the order of ``ast.walk``.
    """

    path: Path
    line: int
    what: str
    index: int


@dataclass
class Reached:
    """What the tests reach.

    Attributes:
        items: Per file and line, the indices of the tests.
        seconds: How long each test took.
    """

    items: dict[tuple[str, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    seconds: list[float] = field(default_factory=list)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which files, how many at once, and how long each may be tried."""
    group = parser.getgroup("deletions")
    group.addoption("--delete-in", action="append", default=[], metavar="PATH", help="a file or folder of judges")
    group.addoption("--delete-workers", type=int, default=os.cpu_count() or 1, metavar="N")
    group.addoption("--delete-seconds", type=float, default=60.0, metavar="S", help="at most, for one statement")
    group.addoption("--delete-left", type=Path, default=None, metavar="FILE", help="only what this JSON names as left")
    group.addoption("--delete-json", type=Path, default=None, metavar="FILE", help="what is left, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """No test may learn from another, nor from an earlier run."""
    hypothesis.settings.register_profile("deletions", database=None, derandomize=True, deadline=None)
    hypothesis.settings.load_profile("deletions")


def deletions(path: Path) -> Iterator[Deletion]:
    """Every deletion of a file: of statements inside functions, no docstrings, no declarations."""
    tree = ast.parse(path.read_text())
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, FUNCTIONS)
        for statement in function.body
        for node in ast.walk(statement)
    }
    for index, node in enumerate(ast.walk(tree)):
        if id(node) not in inside or not isinstance(node, ast.stmt):
            continue
        if isinstance(node, ast.If):
            yield Deletion(path, node.lineno, "never", index)
            yield Deletion(path, node.lineno, "always", index)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        elif not isinstance(node, KEPT):
            yield Deletion(path, node.lineno, "deleted", index)


class Without(ast.NodeTransformer):
    """A tree with one node replaced."""

    def __init__(self, gone: ast.AST, instead: ast.stmt) -> None:
        self.gone = gone
        self.instead = instead

    def visit(self, node: ast.AST) -> ast.AST:
        """The node, or what stands for it."""
        if node is self.gone:
            return ast.copy_location(self.instead, node)
        return self.generic_visit(node)


def without(deletion: Deletion) -> CodeType:
    """The file as compiled without the statement; every other line keeps its number."""
    tree = ast.parse(deletion.path.read_text())
    gone = next(node for index, node in enumerate(ast.walk(tree)) if index == deletion.index)
    if isinstance(gone, ast.If):
        gone.test = ast.copy_location(ast.Constant(deletion.what == "always"), gone.test)
    else:
        tree = cast("ast.Module", Without(gone, ast.Pass()).visit(tree))
    return compile(ast.fix_missing_locations(tree), str(deletion.path), "exec", dont_inherit=True)


def codes(code: CodeType) -> Iterator[CodeType]:
    """The code and all that is defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def apply(deletion: Deletion) -> bool:
    """Take the statement out of every function of this process that has it; False if none could be changed."""
    new = {(code.co_qualname, code.co_firstlineno): code for code in codes(without(deletion))}
    changed = False
    path = str(deletion.path)
    for function in [f for f in gc.get_objects() if isinstance(f, FunctionType) and f.__code__.co_filename == path]:
        code = new[function.__code__.co_qualname, function.__code__.co_firstlineno]
        if code != function.__code__:
            with suppress(ValueError):  # another number of free variables
                function.__code__ = code
                changed = True
    return changed


def measure(session: pytest.Session, files: Sequence[Path]) -> Reached:
    """Run every test once, and note what it reaches."""
    reached = Reached()
    for index, item in enumerate(session.items):
        tracer = coverage.Coverage(data_file=None, include=[str(f) for f in files], config_file=False)
        tracer.set_option("run:disable_warnings", ["no-data-collected"])
        following = session.items[index + 1] if index + 1 < len(session.items) else None
        began = time.perf_counter()
        tracer.start()
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        finally:
            tracer.stop()
        reached.seconds.append(time.perf_counter() - began)
        data = tracer.get_data()
        for name in data.measured_files():
            for line in data.lines(name) or ():
                reached.items[name, line].add(index)
    return reached


IMPORTED = """
import coverage, importlib, json, sys
tracer = coverage.Coverage(data_file=None, include=json.loads(sys.argv[1]), config_file=False)
tracer.set_option("run:disable_warnings", ["no-data-collected"])
tracer.start()
for name in json.loads(sys.argv[2]):
    importlib.import_module(name)
tracer.stop()
data = tracer.get_data()
print(json.dumps({name: data.lines(name) for name in data.measured_files()}))
"""


def imported(files: Sequence[Path]) -> set[tuple[str, int]]:
    """The lines that run while modules are imported: what is made then is there before any test, and stays."""
    paths = [str(file) for file in files]
    names = [name for name, module in list(sys.modules.items()) if getattr(module, "__file__", None) in paths]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    asked = [sys.executable, "-c", IMPORTED, json.dumps(paths), json.dumps(names)]
    told = subprocess.run(asked, check=True, capture_output=True, text=True, env=environment)
    return {(name, line) for name, lines in json.loads(told.stdout).items() for line in lines}


def named(told: Path) -> set[Deletion]:
    """What an earlier run left."""
    left = json.loads(told.read_bytes())["left"]
    return {Deletion(Path(one["file"]).resolve(), one["line"], one["what"], one["index"]) for one in left}


def far(item: pytest.Item, file: Path) -> bool:
    """Whether a test is not one of the file's own, which would notice first."""
    return file.stem not in item.path.stem and file.parent.name not in (item.path.parent.name, item.path.stem)


def attempt(session: pytest.Session, deletion: Deletion, chosen: Sequence[int], seconds: float) -> int:
    """In a child: how the tests end without the statement."""
    if not apply(deletion):
        return CANNOT
    end = time.monotonic() + seconds
    for place, index in enumerate(chosen):
        following = session.items[chosen[place + 1]] if place + 1 < len(chosen) else None
        if any(report.failed for report in runtestprotocol(session.items[index], log=False, nextitem=following)):
            return NOTICED
        if time.monotonic() > end:
            return LATE
    return ALIKE


def child(session: pytest.Session, deletion: Deletion, chosen: Sequence[int], seconds: float) -> int:
    """Start one; returns its process id. What never ends is noticed."""
    if pid := os.fork():
        return pid
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(int(2 * seconds) + 30)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.stdout = sys.stderr = io.StringIO()
    result = NOTICED
    with suppress(BaseException):
        result = attempt(session, deletion, chosen, seconds)
    os._exit(result)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Measure, then delete."""
    option = session.config.option
    roots = [Path(p).resolve() for p in option.delete_in or ["conformance/kvwire/judges"]]
    files = sorted(f for root in roots for f in ([root] if root.is_file() else root.rglob("*.py")))
    reached = measure(session, files)
    if session.testsfailed:
        return True
    early = imported(files)
    again = option.delete_left and named(option.delete_left)
    left: list[dict[str, object]] = []
    counts: dict[str, int] = defaultdict(int)
    running: dict[int, Deletion] = {}

    def settle() -> None:
        pid, status = os.wait()
        deletion = running.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        counts[TOLD.get(code, "noticed" if code != CANNOT else "cannot be taken out")] += 1
        if code in TOLD:
            tell(deletion, TOLD[code])

    def tell(deletion: Deletion, why: str) -> None:
        path = os.path.relpath(deletion.path)
        source = deletion.path.read_text().splitlines()[deletion.line - 1].strip()
        place = {"file": path, "line": deletion.line, "what": deletion.what, "index": deletion.index}
        left.append({**place, "why": why, "source": source})
        print(f"{path}:{deletion.line}: {why}, {deletion.what}: {source}", flush=True)

    print(flush=True)
    for file in files:
        for deletion in deletions(file):
            if again is not None and deletion not in again:
                continue
            chosen = sorted(
                reached.items[str(file), deletion.line], key=lambda i: (far(session.items[i], file), reached.seconds[i])
            )
            if not chosen:
                why = AT_IMPORT if (str(file), deletion.line) in early else "reached by no test"
                counts[why] += 1
                if why != AT_IMPORT:
                    tell(deletion, why)
                continue
            running[child(session, deletion, chosen, option.delete_seconds)] = deletion
            if len(running) >= option.delete_workers:
                settle()
    while running:
        settle()
    total = sum(counts.values())
    print(f"{total} deletions: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    if option.delete_json:
        option.delete_json.write_text(json.dumps({"counts": counts, "left": left}, indent=1) + "\n")
    return True
