"""The help of each command fits a screen and shows an example; shells complete commands and options."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys

import click
import pytest

from kvwire import cli
from kvwire.cli.completion import SHELLS
from kvwire.cli.examples import EXAMPLES, commands
from kvwire.cli.root import main
from kvwire.judges.verdict import Exit

SCREEN = 40
"""Lines of a screen, of 80 columns."""
ALL = {"": main, **dict(commands(main))}


def shown(words: str) -> str:
    context = click.Context(ALL[words], info_name=f"kvwire {words}".strip(), terminal_width=80)
    return ALL[words].get_help(context)


@pytest.mark.parametrize("words", ALL)
def test_the_help_fits_a_screen_and_shows_an_example(words: str) -> None:
    text = shown(words)
    assert len(text.splitlines()) <= SCREEN
    called = re.escape(f"kvwire {words}".strip())
    assert re.search(rf"^ +(Example: )?(.*; )?{called}(\s|$)", text[text.index("\n") :], re.MULTILINE) or (
        isinstance(ALL[words], click.Group) and re.search(r"^ +(Example: )?kvwire ", text, re.MULTILINE)
    ), "put an example into its words, or into cli/examples.py"


@pytest.mark.parametrize("words", EXAMPLES)
def test_an_example_has_options_and_arguments_that_there_are(words: str) -> None:
    text = EXAMPLES[words].rpartition("; ")[2].removeprefix("kvwire ")
    called = max((name for name in ALL if name and f"{text} ".startswith(f"{name} ")), key=len)
    assert called == words or isinstance(ALL[words], click.Group)
    parser = ALL[called].make_parser(click.Context(ALL[called]))
    _, left, _ = parser.parse_args(shlex.split(text.removeprefix(called)))
    assert left == []


def completed(shell: str, *words: str) -> list[str]:
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_KVWIRE_COMPLETE": f"{shell}_complete"}
    if shell == "fish":
        asked["COMP_CWORD"] = words[-1]
    done = subprocess.run(
        [sys.executable, "-m", "kvwire"], env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_a_script_and_completes(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["completion", shell]) == Exit.CONFORMANT
    script = capsys.readouterr().out
    assert "_KVWIRE_COMPLETE" in script
    assert f"{shell}_complete" in script
    assert any("doctor" in found for found in completed(shell, "kvwire", "doc"))
    assert any("SEQ-009" in found for found in completed(shell, "kvwire", "explain", "SEQ-0"))
    assert any("--strict" in found for found in completed(shell, "kvwire", "check", "--str"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_takes_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["completion", "bash"]) == Exit.CONFORMANT
    script = capsys.readouterr().out
    done = subprocess.run(["bash", "-c", f"{script}\ncomplete -p kvwire"], capture_output=True, text=True, check=False)
    assert "_kvwire_completion" in done.stdout, done.stderr


def test_a_rate_is_not_said_to_be_seconds() -> None:
    assert re.search(r"--rate N +Prompts a second", shown("serve"))
