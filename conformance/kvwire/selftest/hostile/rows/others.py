"""Commands beside `check` under attack, signals in each phase, and outputs that cannot be written."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from kvwire.judges.verdict import Exit
from kvwire.selftest.hostile import measure
from kvwire.selftest.hostile.bench import Attack, Bench, Broken, During, On, Ran, Running

WITNESS = "witness_process"
ANY = (Exit.CONFORMANT, Exit.NOT_CONFORMANT, Exit.INCONCLUSIVE, Exit.ERROR)


# --- listening ---------------------------------------------------------------------------------------------------


def _listen(kind: str, *arguments: str) -> Callable[[Bench], Ran]:
    def run(bench: Bench) -> Ran:
        place = f"tcp://127.0.0.1:{bench.port()}"
        bench.peer("publisher", kind, place)
        return bench.kvwire(*(argument.replace("TARGET", f"zmq:{place}") for argument in arguments))

    return run


def _watched(kind: str, does: str, says: str = "") -> Attack:
    return Attack(
        name=f"watch-{kind}",
        on="publisher",
        does=f"`watch` of {does}",
        run=_listen(kind, "watch", "TARGET", "--for", "8s"),
        exits=ANY,
        says=says,
        seconds=90,
    )


def _recorded(kind: str, does: str, says: str = "") -> Attack:
    return Attack(
        name=f"record-{kind}",
        on="publisher",
        does=f"`record` of {does}",
        run=_listen(kind, "record", "TARGET", "--for", "6s", "-o", "r.kvtrace"),
        exits=ANY,
        says=says,
        seconds=60,
    )


def _ranks(bench: Bench) -> Ran:
    return bench.kvwire("check", "zmq:tcp://127.0.0.1:20000?ranks=256", "--for", 3)


LISTENED = (
    _watched("flood", "small messages as fast as they go"),
    _watched("hashes", "hashes that never repeat"),
    _watched("types", "types that never repeat"),
    _watched("topics", "a topic of its own for each message"),
    _watched("endless", "a message that never ends"),
    _recorded("flood", "small messages as fast as they go"),
    _recorded("large", "messages of 1 MB as fast as they go"),
    _recorded("endless", "a message that never ends"),
    Attack(
        name="check-ranks",
        on="publisher",
        does="`check` of 256 ranks, none of which is there",
        run=_ranks,
        exits=(Exit.ERROR, Exit.INCONCLUSIVE),
        says="no ZeroMQ handshake",
        seconds=120,
    ),
)


# --- signals -----------------------------------------------------------------------------------------------------


def _at_once(_: Running) -> None:
    time.sleep(0.3)  # in the middle of imports


def _in_probes(running: Running) -> None:
    running.await_child(WITNESS)
    time.sleep(1.0)


def _behind_probes(running: Running) -> None:
    running.await_child(WITNESS)
    deadline = time.monotonic() + 60
    while len(measure.tree(running.process.pid)) > 1:
        if time.monotonic() > deadline:
            raise Broken("its children never ended")
        time.sleep(0.01)


def _sent(wait: During, number: signal.Signals, times: int) -> During:
    def during(running: Running) -> None:
        wait(running)
        running.signal(number, times)

    return during


def _killed(bench: Bench) -> Ran:
    recording = bench.folder / "r.kvtrace"

    def during(running: Running) -> None:
        deadline = time.monotonic() + 60
        while not (recording.exists() and recording.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.02)
        running.signal(signal.SIGKILL)

    ran = bench.kvwire(*RECORDS, during=during)
    if bench.kvwire("judge", recording, "--quiet").exit in (None, Exit.USAGE, Exit.ERROR):
        raise Broken("what was recorded cannot be judged")
    return ran


def _signalled(wait: During, number: signal.Signals, times: int, *arguments: str) -> Callable[[Bench], Ran]:
    def run(bench: Bench) -> Ran:
        ran = bench.kvwire(*arguments, "--json", "found.json", during=_sent(wait, number, times))
        recording, found = bench.folder / "r.kvtrace", bench.folder / "found.json"
        if "--record" in arguments and wait is _in_probes:
            if bench.kvwire("judge", recording, "--quiet").exit in (None, Exit.USAGE, Exit.ERROR):
                raise Broken("what was recorded cannot be judged")
            if times == 1 and not found.stat().st_size:
                raise Broken("what was found is not in the file")
        return ran

    return run


def _signal(
    name: str, does: str, run: Callable[[Bench], Ran], exits: tuple[int, ...], *, quick: bool = False
) -> Attack:
    return Attack(name=name, on="signal", does=does, run=run, exits=exits, quick=quick)


RECORDS = ("check", "reference:", "--record", "r.kvtrace")
"""Not a quick one: its probes would be over, where the machine is quick, before a signal comes."""
STORED = ("check", "reference:", "--quick")
TIMES = {1: "once", 2: "twice", 3: "three times"}
SIGNALS = (
    *(
        _signal(
            f"{number.name.lower()}-{phase}-{times}",
            f"{number.name} {TIMES[times]} {where}",
            _signalled(wait, number, times, *RECORDS),
            (Exit.INTERRUPTED,),
            quick=(phase, times, number) == ("probes", 1, signal.SIGTERM),
        )
        for number in (signal.SIGINT, signal.SIGTERM)
        for phase, where, wait in (
            ("start", "while all is imported", _at_once),
            ("probes", "while probes run", _in_probes),
        )
        for times in (1, 2, 3)
    ),
    *(
        _signal(
            f"{number.name.lower()}-judging-1",
            f"{number.name} once behind the last probe",
            _signalled(_behind_probes, number, 1, *STORED),
            (Exit.INTERRUPTED, Exit.CONFORMANT),
        )
        for number in (signal.SIGINT, signal.SIGTERM)
    ),
    _signal("sigkill-probes", "SIGKILL while probes run", _killed, (-9,)),
    _signal("sighup-probes", "SIGHUP while probes run", _signalled(_in_probes, signal.SIGHUP, 1, *RECORDS), (130,)),
)


# --- outputs -----------------------------------------------------------------------------------------------------


def _out(*arguments: str, env: Mapping[str, str | None] | None = None, to: str = "") -> Callable[[Bench], Ran]:
    def run(bench: Bench) -> Ran:
        if not to:
            return bench.kvwire(*arguments, env=env)
        with Path(to).open("wb") as out:
            return bench.kvwire(*arguments, env=env, stdout=out)

    return run


def _pipe(bench: Bench) -> Ran:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return bench.kvwire("list", stdout=writing)
    finally:
        os.close(writing)


def _stdout(bench: Bench) -> Ran:
    before = Path("/dev/stdout").is_symlink()
    ran = bench.kvwire("check", "reference:", "--quick", "--quiet", "--json", "/dev/stdout")
    if Path("/dev/stdout").is_symlink() != before:
        raise Broken("/dev/stdout was replaced")
    return ran


def _recorded_to_stdout(bench: Bench) -> Ran:
    ran = bench.kvwire("check", "reference:", "--quick", "--record", "/dev/stdout")
    if not Path("/dev/stdout").is_symlink():
        raise Broken("/dev/stdout was replaced")
    return ran


ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": None}


def _output(name: str, does: str, says: str, run: Callable[[Bench], Ran], *exits: int, quick: bool = False) -> Attack:
    on: On = "output"
    return Attack(name=name, on=on, does=does, run=run, exits=exits, says=says, quick=quick)


QUICK = ("check", "reference:", "--quick")
OUTPUTS = (
    _output("json-full", "`--json /dev/full`", "", _out(*QUICK, "--json", "/dev/full"), Exit.USAGE, Exit.ERROR),
    _output("html-full", "`--html /dev/full`", "", _out(*QUICK, "--html", "/dev/full"), Exit.USAGE, Exit.ERROR),
    _output("record-full", "`--record /dev/full`", "", _out(*QUICK, "--record", "/dev/full"), Exit.USAGE, Exit.ERROR),
    _output("stdout-full", "a full disk under standard output", "", _out(*QUICK, to="/dev/full"), Exit.ERROR),
    _output("pipe-closed", "nobody reads the output of `list`", "", _pipe, Exit.ERROR),
    _output("json-stdout", "`--json /dev/stdout`", '"kind":"run"', _stdout, Exit.CONFORMANT),
    _output("record-stdout", "`--record /dev/stdout`", "", _recorded_to_stdout, *ANY, Exit.USAGE),
    _output("json-folder", "`--json` into no folder", "does not exist", _out(*QUICK, "--json", "no/x"), Exit.USAGE),
    _output("locale-ascii", "an ASCII locale", "sentences", _out(*QUICK, env=ASCII), Exit.CONFORMANT),
    _output("no-home", "no HOME", "sentences", _out(*QUICK, env={"HOME": None}), Exit.CONFORMANT),
    _output("temp-unwritable", "no folder for temporary files", "", _out(*QUICK, env={"TMPDIR": "/proc"}), *ANY),
    _output(
        "terminal-tiny",
        "a terminal of one column",
        "",
        _out(*QUICK, env={"COLUMNS": "1", "LINES": "1"}),
        Exit.CONFORMANT,
    ),
)


# --- arguments ---------------------------------------------------------------------------------------------------


def _argument(name: str, does: str, says: str, *arguments: str, exits: tuple[int, ...] = (Exit.USAGE,)) -> Attack:
    return Attack(
        name=name,
        on="argument",
        does=does,
        run=lambda bench: bench.kvwire(*arguments),
        exits=exits,
        says=says,
        seconds=30,
    )


ARGUMENTS = (
    _argument("target-long", "a target of 100 kB", "", "check", "zmq:" + "x" * 100_000),
    _argument("target-ranks", "a billion ranks", "at most", "check", "zmq:tcp://127.0.0.1:1?ranks=1000000000"),
    _argument("only-many", "10,000 times `--only`", "", "check", "reference:", *["--only", "X"] * 10_000),
    _argument("explain-escape", "`explain` of an escape", "", "explain", "\x1b[2J"),
    _argument("memory-small", "`--memory 1`", "less than", "check", "reference:", "--memory", "1"),
)

ATTACKS = (*LISTENED, *SIGNALS, *OUTPUTS, *ARGUMENTS)
