"""The checkout, its tracked files, and the archives that are built from it, once for all tests of this folder."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.kit.needs import needs_program

ROOT = Path(__file__).parents[2]
LIMIT_S = 60.0


def run(*command: str | Path, cwd: Path) -> str:
    """The standard output of a command, which has to succeed; nothing of this process leaks into its imports."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ended = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


class Archives(NamedTuple):
    """What ``python -m build`` makes of the checkout, and of its own sdist."""

    sdist: Path
    wheel: Path
    wheel_of_sdist: Path


class Installed(NamedTuple):
    """An environment outside the checkout in which one wheel is installed."""

    python: Path

    def kvwire(self, *arguments: str) -> str:
        """The output of the installed command, run from the root folder."""
        return run(self.python.with_name("kvwire"), *arguments, cwd=Path("/"))

    def folders(self) -> tuple[Path, Path]:
        """The folders from which it imports kvwire and takes the standard."""
        asked = "import kvwire, kvwire.standard.resources as r; print(kvwire.__file__); print(r.spec())"
        module, spec = run(self.python, "-c", asked, cwd=Path("/")).splitlines()
        return Path(module).parent, Path(spec)


Install = Callable[[Path, Path], Installed]


@pytest.fixture(scope="session")
def tracked() -> Sequence[Path]:
    """The files of the checkout that git tracks, relative to it."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone: nothing tells which files belong to it")
    listed = run(needs_program("git"), "-c", "safe.directory=*", "ls-files", "-z", cwd=ROOT)
    return [Path(name) for name in listed.split("\0") if name]


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    """Build with the backend of this environment: nothing is downloaded."""
    from_sdist, from_checkout = tmp_path_factory.mktemp("sdist"), tmp_path_factory.mktemp("checkout")
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir")
    run(*build, from_sdist, ROOT, cwd=from_sdist)
    run(*build, from_checkout, "--wheel", ROOT, cwd=from_checkout)
    (sdist,), (wheel_of_sdist,), (wheel,) = (
        list(folder.glob(pattern))
        for folder, pattern in ((from_sdist, "*.tar.gz"), (from_sdist, "*.whl"), (from_checkout, "*.whl"))
    )
    return Archives(sdist, wheel, wheel_of_sdist)


@pytest.fixture
def install() -> Install:
    """Install a wheel into a new environment that shares the dependencies of this one, and nothing else."""

    def into(folder: Path, wheel: Path) -> Installed:
        venv.create(folder, symlinks=True)
        python = folder / "bin" / "python"
        pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index")
        run(*pip, wheel, cwd=folder)
        site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
        # After the installation, or pip would take this environment's own kvwire for the installed one.
        (site / "zz_dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
        return Installed(python)

    return into
