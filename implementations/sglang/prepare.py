"""Fetch SGLang's wheel with pip, install nothing, and take the files of the event publisher out of it.

``python prepare.py FOLDER``. pip compares the wheel with the digest below. It is the one for Python 3.11 on x86-64,
wherever this runs: what is taken out of it is Python's source, and the same in every wheel of the version.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

VERSION = "0.5.23"
SHA256 = "00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937"
FOR = "--python-version 3.11 --implementation cp --abi cp311 --platform manylinux_2_34_x86_64"
FILES = ("sglang/srt/disaggregation/kv_events.py", "sglang/srt/utils/network.py")


def download(into: Path) -> Path:
    """The wheel, downloaded by pip into a folder and checked against ``SHA256``."""
    wanted = into / "wanted.txt"
    wanted.write_text(f"sglang=={VERSION} --hash=sha256:{SHA256}\n", encoding="ascii")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    what = ["--no-deps", "--only-binary", ":all:", *FOR.split(), "--require-hashes", "-r", str(wanted)]
    subprocess.run([*pip, *what, "--dest", str(into)], check=True, timeout=600)
    (wheel,) = into.glob("*.whl")
    return wheel


def main(folder: Path) -> None:
    """Fill the folder; one that was filled before is left alone."""
    marker = folder / "VERSION"
    if marker.is_file() and marker.read_text(encoding="ascii").strip() == VERSION:
        return
    with (
        tempfile.TemporaryDirectory(prefix="kvwire-") as temporary,
        zipfile.ZipFile(download(Path(temporary))) as wheel,
    ):
        for name in FILES:
            wheel.extract(name, folder)
    marker.write_text(f"{VERSION}\n", encoding="ascii")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
