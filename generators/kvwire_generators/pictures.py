"""``python -m kvwire_generators.pictures``: the pictures of docs/img: the console as SVG, pages by a browser as PNG.

They show stored traces, so that making them again after a change of a face changes nothing else in them.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import click
import msgspec
from rich.console import Console

from kvwire.conclusion.result import Result
from kvwire.recordings.judging import Asked, concluded
from kvwire.report.evidence import Seen, look
from kvwire.report.faces import face, print_to
from kvwire.standard.statement import Stream
from kvwire.trace import files
from kvwire.trace.records import StreamInfo, Trace

HOME = Path(__file__).parents[2]
FOLDER = HOME / "docs" / "img"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
COLUMNS = 110
MOST = 150_000
"""Bytes of a picture, at most."""
BROKEN = "mutant-integer-ts"
"""The session that most pictures show: one MUST broken, in every batch."""
REAL = ("reference", "vllm", "sglang", "dynamo-trtllm", "dynamo-mocker")
"""The columns of the matrix."""
RANKS = 32
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""What would be loaded from elsewhere."""
_ALONE = """<script>
  const kept = document.getElementById("{}");
  document.querySelector("main").replaceChildren(kept);
  for (const one of [kept, kept.querySelector("details")]) one.open = true;
</script></body>"""
"""Leaves one sentence on a page, with the evidence of its first finding."""


class Shot(msgspec.Struct, frozen=True, kw_only=True):
    """A page, or one sentence of it with its evidence, and the window: width, height, dark or not."""

    page: str
    only: str = ""
    width: int = 900
    height: int = 760
    dark: bool = False


SHOTS: Mapping[str, Shot] = {
    "page-light": Shot(page="broken"),
    "page-dark": Shot(page="broken", only="r1-KVW-BAT-002", height=900, dark=True),
    "page-narrow": Shot(page="broken", width=500, height=800),
    "page-ranks": Shot(page="ranks", height=620),
    "page-matrix": Shot(page="matrix", width=1100, height=700),
}


def session(name: str) -> Trace:
    """A stored session."""
    return files.read(HOME / "vectors" / "session" / f"{name}.kvtrace")


def fleet() -> Trace:
    """As many ranks, each with what a listener hears of one; the eighth one's stamps are integers."""
    pair, one = session("two-ranks"), session("clear")
    first = pair.header.streams[0]
    streams = tuple(
        StreamInfo(name=f"rank-{rank}", endpoint=f"{first.endpoint}_dp{rank}", topic=first.topic, rank=rank)
        for rank in range(RANKS)
    )
    declared = tuple(
        Stream(name=info.name, endpoint=info.endpoint, topic=info.topic, rank=info.rank) for info in streams
    )
    records = [
        msgspec.structs.replace(record, stream=f"rank-{rank}", frames=_of_rank(record.frames, rank, integer=rank == 7))
        for record in one.records
        if record.is_live or record.event in ("witnesses", "HANDSHAKE_SUCCEEDED")
        for rank in range(RANKS)
    ]
    header = msgspec.structs.replace(
        pair.header,
        target=f"zmq:tcp://10.0.0.7:5557?topic=kv-events&ranks={RANKS}",
        streams=streams,
        statement=msgspec.structs.replace(pair.header.statement, streams=declared),
    )
    return Trace(header=header, records=tuple(records))


def _of_rank(frames: tuple[bytes, ...] | None, rank: int, *, integer: bool) -> tuple[bytes, ...] | None:
    if frames is None or len(frames) != 3:
        return frames
    ts, events, _ = msgspec.msgpack.decode(frames[2])
    return (*frames[:2], msgspec.msgpack.encode([int(ts) if integer else ts, events, rank]))


def real(name: str) -> Result:
    """The small run of a real publisher."""
    (trace,) = (HOME / "implementations" / name / "traces").glob("*.kvtrace.gz")
    return judged(files.read(trace))


def judged(trace: Trace) -> Result:
    """The result of a trace, held to its own profile."""
    return concluded(trace, Asked())


def terminal(result: Result, command: str) -> str:
    """What the console shows, as SVG."""
    console = Console(
        file=io.StringIO(),
        record=True,
        width=COLUMNS,
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
    )
    print_to(console, [result], verbose=False)
    return _FONT.sub("", console.export_svg(title=command, unique_id="kvwire"))


def photograph(browser: str, page: Path, shot: Shot, target: Path) -> None:
    """A picture of a page."""
    shown = page
    if shot.only:
        shown = page.with_name(f"{shot.only}.html")
        shown.write_text(
            page.read_text(encoding="utf-8").replace("</body>", _ALONE.format(shot.only)), encoding="utf-8"
        )
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                f"--blink-settings=preferredColorScheme={0 if shot.dark else 1}",
                f"--user-data-dir={profile}",
                f"--window-size={shot.width},{shot.height}",
                "--virtual-time-budget=5000",
                f"--screenshot={target}",
                shown.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )


def seen(recording: Trace) -> Seen:
    """What a recording shows of its result."""
    return look(judged(recording), recording.header, recording.records)


@click.command()
@click.option("--into", type=click.Path(path_type=Path, file_okay=False), default=FOLDER, help="Another folder.")
def main(into: Path) -> None:
    """Make the pictures of docs/img anew."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        raise click.UsageError(f"no browser: install one of {', '.join(BROWSERS)}")
    into.mkdir(parents=True, exist_ok=True)
    broken, ranks = session(BROKEN), fleet()
    result = judged(broken)
    pages = {
        "broken": face([result], "html", [seen(broken)]),
        "ranks": face([judged(ranks)], "html", [seen(ranks)]),
        "matrix": face(list(map(real, REAL)), "html"),
    }
    drawn = {
        "console": terminal(result, f"kvwire judge {BROKEN}.kvtrace"),
        "console-ranks": terminal(judged(ranks), f"kvwire judge {RANKS}-ranks.kvtrace"),
    }
    for name, text in drawn.items():
        (into / f"{name}.svg").write_text(text, encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for page, content in pages.items():
            (folder / f"{page}.html").write_bytes(content)
        for target, shot in SHOTS.items():
            photograph(browser, folder / f"{shot.page}.html", shot, into / f"{target}.png")
    made = sorted(into.iterdir())
    for picture in made:
        click.echo(f"{picture.name}: {picture.stat().st_size} bytes")
    if large := [picture.name for picture in made if picture.stat().st_size > MOST]:
        raise click.ClickException(f"larger than {MOST} bytes: {', '.join(large)}")


if __name__ == "__main__":
    main()
