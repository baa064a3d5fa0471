"""Publishers, and what only says that it is one."""

from __future__ import annotations

from collections.abc import Callable

from kvwire.judges.verdict import Exit
from kvwire.selftest.hostile.bench import Attack, Bench, Ran

HONEST = (Exit.CONFORMANT, Exit.INCONCLUSIVE)
LISTENING = (Exit.NOT_CONFORMANT, Exit.INCONCLUSIVE, Exit.ERROR)


def _check(kind: str, *options: object, ipc: bool = False) -> Callable[[Bench], Ran]:
    def run(bench: Bench) -> Ran:
        place = f"ipc://{bench.folder}/p" if ipc else f"tcp://127.0.0.1:{bench.port()}"
        bench.peer("publisher", kind, place)
        return bench.kvwire("check", f"zmq:{place}", "--for", 6, *options)

    return run


def _attack(kind: str, does: str, says: str = "", *, ipc: bool = False, **fields: object) -> Attack:
    made = {
        "name": f"publisher-{kind}{'-ipc' if ipc else ''}",
        "on": "publisher",
        "does": does,
        "run": _check(kind, ipc=ipc),
        "exits": LISTENING,
        "says": says,
        **fields,
    }
    return Attack(**made)  # type: ignore[arg-type]


ATTACKS = (
    _attack("endless", "a message of frames of 60 kB that never ends", "a message has no end", quick=True),
    _attack("endless", "the same over ipc", "a message has no end", ipc=True),
    _attack("endless-large", "frames of 1 MB without end", "a message has no end"),
    _attack("endless-empty", "empty frames without end", "a message has no end"),
    _attack("one-gigabyte", "a frame of 1 GiB is announced and sent"),
    _attack("claim-255", "a frame of 255 MiB is announced, and nothing sent"),
    _attack("claim-exa", "a frame of 4 EiB is announced, and bytes without end sent"),
    _attack("largest", "a frame of 30 MiB is announced, and bytes without end sent"),
    _attack("frames-100000", "messages of 100,000 frames"),
    _attack("frames-1000000", "messages of 1,000,000 frames"),
    _attack("drip", "one byte each half second"),
    _attack("commands", "ZMTP commands of 100 kB without end"),
    _attack("pings", "ZMTP pings without end"),
    _attack("vanish", "it goes after each handshake"),
    _attack("http", "an HTTP server"),
    _attack("accept", "it accepts and says nothing"),
    _attack("echo", "it says what it is told"),
    _attack(
        "flood",
        "small messages as fast as they go",
        seconds=120,
        argued="every message is judged, a tenth of a millisecond each; the bound on the trace ends what comes.",
    ),
    _attack("large", "messages of 1 MB as fast as they go"),
    _attack("topics", "a topic of its own for each message"),
    _attack("evil", "ESC, OSC 52, newlines, C1 and bidi overrides in every string", exits=HONEST),
    _attack("types", "event types and keys that never repeat"),
    _attack("numbers", "numbers at random"),
    _attack("ranks", "another rank in each batch"),
    _attack("hashes", "hashes that never repeat", exits=HONEST, seconds=120.0),
    _attack("wild", "every field with every wrong type"),
    _attack("empty-maps", "3.9 million empty maps in one batch"),
    _attack("one-key-maps", "1.3 million events of one key in one batch"),
    _attack("integers", "an event that is an array of 3.9 million integers"),
    _attack("key-twice", "an event with one key a million times"),
    _attack("nils", "15 million nils in one batch"),
    _attack("bytes", "an event of 15 MB of bytes"),
    _attack("tokens", "a block of 3 million tokens"),
    _attack("removed", "3 million hashes removed at once"),
    _attack("many-events", "50,000 events in one batch"),
    _attack("deep", "100,000 arrays in each other"),
    _attack("deep-maps", "100,000 maps in each other"),
    _attack("announced", "an array of four billion is announced"),
)
