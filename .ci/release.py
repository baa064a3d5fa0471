"""All of a release but the upload: build both archives, check them, install each where nothing else is, and use it.

``tox -e release`` runs it, and leaves the archives in ``dist/``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
LIMIT_S = 600


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    """Run a command, which has to succeed; nothing of this process leaks into its imports."""
    print("$", *command, flush=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run(command, cwd=cwd, env=environment, timeout=LIMIT_S, check=True)


def tried(archive: Path) -> None:
    """Install an archive with its dependencies into a new environment, and check the reference from it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder, with_pip=True, symlinks=True)
        run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", archive, cwd=folder)
        run(folder / "bin" / "kvwire", "--version", cwd=folder)
        run(folder / "bin" / "kvwire", "check", "--quick", cwd=folder)
        run(folder / "bin" / "kvwire", "vectors", "export", folder / "vectors", cwd=folder)


def main() -> None:
    """Build, check, try."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", help="the tag that is released: it has to be vVERSION")
    asked = parser.parse_args()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if asked.tag not in (None, f"v{version}"):
        raise SystemExit(
            f"the tag is {asked.tag}, and pyproject.toml has version {version}: tag v{version}, or change it"
        )
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST)
    archives = sorted(DIST.iterdir())
    run(sys.executable, "-m", "twine", "check", "--strict", *archives)
    for archive in archives:
        tried(archive)
    print("\n".join(f"{archive.relative_to(ROOT)}: {archive.stat().st_size} bytes" for archive in archives))


if __name__ == "__main__":
    main()
