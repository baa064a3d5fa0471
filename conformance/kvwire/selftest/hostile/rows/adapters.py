"""Adapters, and filters of vectors, that are none or mean harm."""

from __future__ import annotations

import sys
from collections.abc import Callable

from kvwire.judges.verdict import Exit
from kvwire.selftest.hostile.bench import Attack, Bench, Ran

OPEN = (Exit.NOT_CONFORMANT, Exit.INCONCLUSIVE, Exit.ERROR)
ANY = (Exit.CONFORMANT, *OPEN)


def _check(*words: str) -> Callable[[Bench], Ran]:
    return lambda bench: bench.kvwire("check", bench.adapter(*words), "--quick")


def _run(*arguments: str) -> Callable[[Bench], Ran]:
    return lambda bench: bench.kvwire(*arguments)


def _attack(
    name: str, does: str, says: str, run: Callable[[Bench], Ran], exits: tuple[int, ...] = OPEN, *, quick: bool = False
) -> Attack:
    return Attack(name=name, on="adapter", does=does, run=run, exits=exits, says=says, seconds=90, quick=quick)


NO_ANSWER = "lines that are no answer"
PRINTS = "import sys\nwhile True: sys.stdout.write("

ATTACKS = (
    _attack("adapter-yes", "`exec:yes`", NO_ANSWER, _run("check", "exec:yes", "--quick"), quick=True),
    _attack("adapter-lines", "lines without end", NO_ANSWER, _check("lines")),
    _attack("adapter-zeros", "a line of zeros without end", "a line of more than", _check("zeros")),
    _attack("adapter-json-lines", "answers to nothing, without end", "it answered request 0", _check("json-lines")),
    _attack("adapter-silent", "it never answers", "no answer to `hello`", _check("silent")),
    _attack("adapter-stderr", "standard error without end, and honest answers", "", _check("stderr"), ANY),
    _attack("adapter-pad", "an answer of 100 MB", "a line of more than", _check("pad-100", "hello")),
    _attack("adapter-lists", "an answer of 5 million maps", "", _check("lists", "stats"), ANY),
    _attack("adapter-nested", "an answer of 100,000 lists in each other", "", _check("nested", "stats"), ANY),
    _attack("adapter-many", "200,000 answers to one request", "", _check("many", "stats"), ANY),
    _attack("adapter-loud", "200,000 lines of escapes before an answer", "", _check("loud", "stats"), ANY),
    _attack("adapter-evil", "an error full of escapes", "", _check("evil", "start")),
    _attack("adapter-dies", "it dies by SIGSEGV when asked to publish", "SIGSEGV", _check("dies", "publish", "cache")),
    _attack("adapter-hangs", "it hangs when asked to start", "no answer to `start`", _check("hangs", "start")),
    _attack("adapter-half", "half an answer", "no answer to `hello`", _check("half", "hello")),
    _attack("adapter-ignores", "it ignores SIGTERM and the end of its input", "", _check("ignores"), ANY),
    _attack(
        "adapter-orphan", "it leaves a child of its own behind, which holds its pipes", "", _check("grandchild"), ANY
    ),
    _attack("adapter-daemon", "it leaves one behind in another session, deaf to SIGTERM", "", _check("daemon"), ANY),
    _attack(
        "filter-yes",
        "`vectors verify -- yes`",
        "it was given up",
        _run("vectors", "verify", "--", "yes"),
        (Exit.ERROR,),
        quick=True,
    ),
    _attack(
        "filter-zeros",
        "`vectors verify` of a line without end",
        "a line of more than",
        _run("vectors", "verify", "--", sys.executable, "-c", f"{PRINTS}'x' * 100000)"),
        (Exit.ERROR,),
    ),
    _attack(
        "filter-answers",
        "`vectors verify` of answers to nothing, without end",
        "it was given up",
        _run("vectors", "verify", "--", sys.executable, "-c", f'{PRINTS}\'{{"id": "x"}}\\n\' * 1000)'),
        (Exit.ERROR,),
    ),
)
