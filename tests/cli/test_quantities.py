"""Numbers on the command line: ASCII digits in a range, or a sentence."""

from __future__ import annotations

import click
import pytest

from kvwire import cli
from kvwire.cli.hash import parse_tokens
from kvwire.cli.quantities import Duration, Place, Seconds, Size, Whole
from kvwire.judges.verdict import Exit

ODD = ("1_0", "١", "１", "0x10", "1e3", "nan", "inf", "-inf", "", " ", "1 0", "9" * 400, "+-1", "1.0.0")


@pytest.mark.parametrize("text", [*ODD, "1.5", "-1"])
def test_an_integer_is_decimal_ascii_digits(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Whole(min=0).convert(text, None, None)


@pytest.mark.parametrize("text", [*ODD, "0", "-1", "+1", "99999999999"])
def test_seconds_can_be_awaited(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Seconds(min=0.1).convert(text, None, None)


@pytest.mark.parametrize("text", [*ODD, "0", "١s", "1_0s", "11y", "4000d", "9" * 400 + "d"])
def test_a_time_can_be_awaited(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Duration().convert(text, None, None)


@pytest.mark.parametrize("text", [*ODD, "١MB", "1_0MB", "9" * 400 + "GB"])
def test_a_size_is_one(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Size(1).convert(text, None, None)


@pytest.mark.parametrize("text", [*ODD, "65536", "h:١", "h:1_0"])
def test_a_place_has_a_port(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Place().convert(text, None, None)


def test_what_is_a_number_is_taken() -> None:
    assert Whole(min=0).convert("10", None, None) == 10
    assert Seconds(min=0.1).convert("2.5", None, None) == 2.5
    assert Duration().convert("1h30m", None, None) == 5400
    assert Size(1).convert("64KiB", None, None) == 65536


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1,2,,3", "no token stands behind number 2"),
        (",1", "no token stands behind number 0"),
        ("1,2,", "no token stands behind number 2"),
        ("1, ,2", "no token stands behind number 1"),
        ("1_0", "'1_0' is neither"),
        ("+1", "is neither"),
        ("0x10", "is neither"),
        ("١", "is neither"),
        ("1.0", "is neither"),
        ("1;2", "is neither"),
        ("ｆ" * 64, "is neither"),
        ("9" * 5000, "is neither"),
        ("--1", "is neither"),
        ("\ud800", "is neither"),
        (" ", "no token; give them"),
    ],
)
def test_what_is_no_token_is_refused(text: str, says: str) -> None:
    with pytest.raises(click.UsageError, match=says) as refused:
        parse_tokens(text)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("text", ["1,2,3", "1 2 3", " 1, 2,3\n", "1\n2\n3\n", "1,2 3"])
def test_tokens_are_separated_by_commas_or_space(text: str) -> None:
    assert parse_tokens(text) == [1, 2, 3]


@pytest.mark.parametrize(
    "target",
    [
        "zmq:garbage",
        "zmq:?mode=bind",
        "zmq:tcp://127.0.0.1:0",
        "zmq:tcp://127.0.0.1:65536",
        "zmq:tcp://127.0.0.1:1_0",
        "zmq:tcp://127.0.0.1:١",
        "zmq:tcp://*:5557",
        "zmq:tcp://127.0.0.1\n:5557",
        "zmq:tcp://127.0.0.1:5557?replay=garbage",
        "zmq:tcp://127.0.0.1:5557?ranks=0",
        "zmq:tcp://127.0.0.1:5557?ranks=1_0",
        "zmq:tcp://127.0.0.1:5557?ranks=99999999999999999999",
        "zmq:tcp://127.0.0.1:65000?ranks=1000",
        "zmq:tcp://127.0.0.1:5557?mode=dial",
        "zmq:ipc://",
        f"zmq:ipc:///{'x' * 200}",
        "reference:?ring=" + "9" * 5000,
        "reference:?ring=-1",
        "reference:?heartbeat=nan",
        "reference:?heartbeat=1_0",
    ],
)
def test_a_target_that_nobody_can_reach_is_refused_at_once(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["check", target, "--quick"]) == Exit.USAGE
    assert "Error: " in capsys.readouterr().err
