"""Fetch vLLM's sdist with pip, build nothing, and take the files of the event publisher out of it.

``python prepare.py FOLDER``. pip compares the archive with the digest below. A source distribution must answer a
question about its metadata before pip hands it over, and vLLM's own answer needs torch: a stand-in build backend gives
the answer from the archive's PKG-INFO instead.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "0.33.0"
SHA256 = "f4c33c2503d52bb411146afa9618a4f48bed68912f617e6803ac8d76e4c74112"
FILES = (
    "vllm/config/kv_events.py",
    "vllm/distributed/kv_events.py",
    "vllm/envs.py",
    "vllm/utils/network_utils.py",
)
BACKEND = """\
import pathlib, shutil

def prepare_metadata_for_build_wheel(directory, config_settings=None):
    lines = pathlib.Path("PKG-INFO").read_text(encoding="utf-8").splitlines()
    name, version = (next(l for l in lines if l.startswith(k)).split(": ")[1] for k in ("Name:", "Version:"))
    info = f"{name}-{version}.dist-info"
    pathlib.Path(directory, info).mkdir()
    shutil.copy("PKG-INFO", pathlib.Path(directory, info, "METADATA"))
    return info
"""


def download(into: Path) -> Path:
    """The sdist, downloaded by pip into a folder and checked against ``SHA256``."""
    backend = into / "backend" / "setuptools"
    backend.mkdir(parents=True)
    (backend / "__init__.py").touch()
    (backend / "build_meta.py").write_text(BACKEND, encoding="utf-8")
    wanted = into / "wanted.txt"
    wanted.write_text(f"vllm=={VERSION} --hash=sha256:{SHA256}\n", encoding="ascii")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    what = ["--no-deps", "--no-build-isolation", "--no-binary", "vllm", "--require-hashes", "-r", str(wanted)]
    environment = {**os.environ, "PYTHONPATH": str(backend.parent)}
    subprocess.run([*pip, *what, "--dest", str(into)], env=environment, check=True, timeout=600)
    return into / f"vllm-{VERSION}.tar.gz"


def main(folder: Path) -> None:
    """Fill the folder; one that was filled before is left alone."""
    marker = folder / "VERSION"
    if marker.is_file() and marker.read_text(encoding="ascii").strip() == VERSION:
        return
    with tempfile.TemporaryDirectory(prefix="kvwire-") as temporary, tarfile.open(download(Path(temporary))) as archive:
        for name in FILES:
            source = archive.extractfile(f"vllm-{VERSION}/{name}")
            assert source is not None, name
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read())
    marker.write_text(f"{VERSION}\n", encoding="ascii")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
