"""What a recording shows of its result: it is read once more, record by record, whatever kind of file it is."""

from __future__ import annotations

from pathlib import Path

from kvwire.conclusion.result import Result
from kvwire.report.evidence import Seen, look
from kvwire.trace import files
from kvwire.trace.captures import capture
from kvwire.trace.captures.capture import Told


def looked(report: Result, *paths: Path, told: Told | None = None) -> Seen:
    """What the recording in these files shows of a result; ``told`` is what a packet capture does not say.

    Raises:
        TraceError: when it cannot be read.
        Mismatch: when the recording is not that of the result.
    """
    if capture.is_capture(paths[0]):
        header, records = capture.open_capture(paths[0], told)  # its digest tells what was said of it, too
        return look(report, header, records)
    with files.open_recording(*paths) as recording:
        return look(report, recording.header, recording, lambda: recording.ended.digest)
