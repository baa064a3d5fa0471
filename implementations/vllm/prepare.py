"""Fetch an sdist of vLLM with pip, build nothing, and take the files of the event publisher out of it.

``python prepare.py FOLDER [VERSION]``. pip compares the archive with the digest below. A source distribution must
answer a question about its metadata before pip hands it over, and vLLM's own answer needs torch: a stand-in build
backend gives the answer from the archive's PKG-INFO instead.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

SHA256 = {
    "0.33.0": "f4c33c2503d52bb411146afa9618a4f48bed68912f617e6803ac8d76e4c74112",
    "0.32.0": "d2c957d5eee3d0985012151315ddc62cbe0cd368fc96a5fc3510438d9dddf2ad",
    "0.23.0": "760269db3d9611e12e524681df1bca0977d5d2f5fcb4481cc34d33efc4ae7ff5",
}
"""The versions that are judged here, the newest first, which is the one that is fetched unless another is named."""
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


def download(version: str, into: Path) -> Path:
    """The sdist of a version, downloaded by pip into a folder and checked against ``SHA256``."""
    backend = into / "backend" / "setuptools"
    backend.mkdir(parents=True)
    (backend / "__init__.py").touch()
    (backend / "build_meta.py").write_text(BACKEND, encoding="utf-8")
    wanted = into / "wanted.txt"
    wanted.write_text(f"vllm=={version} --hash=sha256:{SHA256[version]}\n", encoding="ascii")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    what = ["--no-deps", "--no-build-isolation", "--no-binary", "vllm", "--require-hashes", "-r", str(wanted)]
    environment = {**os.environ, "PYTHONPATH": str(backend.parent)}
    subprocess.run([*pip, *what, "--dest", str(into)], env=environment, check=True, timeout=600)
    return into / f"vllm-{version}.tar.gz"


def main(folder: Path, version: str = next(iter(SHA256))) -> None:
    """Fill the folder; one that was filled before is left alone."""
    marker = folder / "VERSION"
    if marker.is_file() and marker.read_text(encoding="ascii").strip() == version:
        return
    with (
        tempfile.TemporaryDirectory(prefix="kvwire-") as temporary,
        tarfile.open(download(version, Path(temporary))) as archive,
    ):
        for name in FILES:
            source = archive.extractfile(f"vllm-{version}/{name}")
            assert source is not None, name
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read())
    marker.write_text(f"{version}\n", encoding="ascii")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
