"""What a test needs from the machine: skipped without it, but an error in continuous integration, which installs it."""

from __future__ import annotations

import os
import shutil

import pytest


def needs_program(name: str) -> str:
    """The path of a program.

    Where it is missing, the calling test or fixture is skipped with the reason; with ``CI`` set it fails: there
    ``.ci/run`` installs what the tests need.
    """
    path = shutil.which(name)
    if path is not None:
        return path
    if os.environ.get("CI"):
        pytest.fail(f"the program {name} is missing: add its package to .ci/run", pytrace=False)
    pytest.skip(f"the program {name} is not installed")
