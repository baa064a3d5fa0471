"""The two ends of a recording: its header, and what stands behind its records."""

from __future__ import annotations

import msgspec

from kvwire.standard import statement
from kvwire.trace.records import FORMAT, Header, Record, TraceError


class End(msgspec.Struct, frozen=True, kw_only=True):
    """What stands behind the records: how many there are.

    ``header`` is the header as it was known at the end of the run, where it differs from the first. ``continued``:
    another part follows.
    """

    end: int
    interrupted: bool
    header: Header | msgspec.UnsetType = msgspec.UNSET
    continued: bool | msgspec.UnsetType = msgspec.UNSET


Item = Header | list[Record] | End
"""What stands in a file: the header first, then records, some at once, and at last the end."""


def checked(header: Header, where: str) -> Header:
    """The header, if this harness can judge by it.

    Raises:
        TraceError: when it is of another format or edition, or declares what nobody can.
    """
    if header.trace != FORMAT:
        raise TraceError(f"{where}: format {header.trace!r}, this harness reads {FORMAT!r}")
    if header.edition not in statement.EDITIONS:
        raise TraceError(f"{where}: edition {header.edition!r} is unknown; this harness knows edition '1'")
    if (found := statement.problem(header.statement)) is not None:
        raise TraceError(f"{where}: its statement: {found[1]}")
    names = [stream.name for stream in header.streams]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise TraceError(f"{where}: two streams have one name: {twice[0]!r}")
    return header
