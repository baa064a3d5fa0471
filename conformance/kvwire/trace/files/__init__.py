"""Recordings as files: lines of JSON for exchange, a container for long ones; read and written record by record.

``open_recording(path)`` gives the header and an iterator of records in constant memory, whatever the form; ``Sink``
writes while a run goes on.
"""

from kvwire.standard.statement import EDITIONS
from kvwire.trace.files.ends import End
from kvwire.trace.files.forms import ENDINGS, form_of, part_of, recordings
from kvwire.trace.files.ndjson import Line, lines, record_line
from kvwire.trace.files.reading import Ended, Recording, open_recording, parse, read
from kvwire.trace.files.writing import Sink, convert, saved, write
from kvwire.trace.packed import digest

__all__ = [
    "EDITIONS",
    "ENDINGS",
    "End",
    "Ended",
    "Line",
    "Recording",
    "Sink",
    "convert",
    "digest",
    "form_of",
    "lines",
    "open_recording",
    "parse",
    "part_of",
    "read",
    "record_line",
    "recordings",
    "saved",
    "write",
]
