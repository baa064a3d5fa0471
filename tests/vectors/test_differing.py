"""Where an answer differs from what is expected, by name, however long both are."""

from __future__ import annotations

from typing import Any

import pytest

from kvwire.vectors.differing import told

LONG = list(range(500))


def equal(wanted: Any, found: Any) -> bool:
    return bool(type(wanted) is type(found) and wanted == found)


@pytest.mark.parametrize(
    ("wanted", "found", "said"),
    [
        ({"a": LONG, "b": None}, {"a": LONG}, "`x.b` is missing, expected null"),
        ({"a": LONG}, {"a": LONG, "b": 3}, "`x.b` is 3, where none is expected"),
        ({"a": [LONG, 7]}, {"a": [LONG, 8]}, "`x.a[1]` is 8, expected 7"),
        ({"a": [1, 2, 3]}, {"a": [1, 2]}, "`x.a` is [1,2], expected [1,2,3] (2 elements, not 3)"),
        ({"a": {"float": "1.0", "bits": "3f"}}, {"a": 1.0}, '`x.a` is 1.0, expected {"float":"1.0","bits":"3f"}'),
        ("5", 5, '`x` is 5, expected "5"'),
        ([{"k": n} for n in range(5)], [{}] * 5, "; and 2 more differences"),
    ],
)
def test_the_first_differences_are_named(wanted: Any, found: Any, said: str) -> None:
    text = told(wanted, found, equal, "x")
    assert text == said or (said.startswith("; ") and text.endswith(said))
    assert len(text) < 400
