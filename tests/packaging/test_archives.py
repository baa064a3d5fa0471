"""What the archives hold, and that what they hold works: outside the checkout, and editable.

They hold what git tracks: a new file is missing here until it is added, and what a build left behind must be ignored.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Sequence
from configparser import ConfigParser
from pathlib import Path, PurePosixPath

import msgspec
import pytest
from tests.packaging.conftest import ROOT, Archives, Install, Installed, run

from kvwire.standard import registry

pytestmark = pytest.mark.slow

PACKAGES = {"conformance/kvwire": "kvwire", "reference/kvwire_reference": "kvwire_reference"}
DATA = {"spec": "kvwire/_data/spec", "vectors": "kvwire/_data/vectors"}


def names(wheel: Path) -> set[str]:
    """The files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def moved(tracked: Sequence[Path], places: dict[str, str]) -> set[str]:
    """Where the tracked files of some folders lie in a wheel."""
    return {
        str(PurePosixPath(target) / path.relative_to(source))
        for source, target in places.items()
        for path in tracked
        if path.is_relative_to(source)
    }


def test_the_wheel_holds_both_packages_the_standard_and_the_vectors(
    archives: Archives, tracked: Sequence[Path]
) -> None:
    found = names(archives.wheel)
    assert {name for name in found if ".dist-info/" not in name} == moved(tracked, PACKAGES | DATA)
    assert {"kvwire/py.typed", "kvwire_reference/py.typed", "kvwire/_data/spec/requirements.json"} <= found
    assert {"kvwire/_data/vectors/hash/known-answers.json", "kvwire/_data/spec/editions/1.lock"} <= found


def test_the_wheel_holds_the_licences_and_the_command(archives: Archives) -> None:
    with zipfile.ZipFile(archives.wheel) as archive:
        (info,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        for licence in ("LICENSE", "spec/LICENSE", "vectors/LICENSE"):
            assert archive.read(f"{info}/licenses/{licence}") == (ROOT / licence).read_bytes()
        points = ConfigParser()
        points.read_string(archive.read(f"{info}/entry_points.txt").decode())
        metadata = archive.read(f"{info}/METADATA").decode()
    assert dict(points["console_scripts"]) == {"kvwire": "kvwire.__main__:main"}
    assert "\nLicense-Expression: Apache-2.0 AND CC0-1.0\n" in metadata
    assert "\nRequires-Python: >=3.11\n" in metadata


def test_the_sdist_holds_what_is_listed_and_tracked_and_nothing_else(
    archives: Archives, tracked: Sequence[Path]
) -> None:
    with tarfile.open(archives.sdist) as archive:
        found = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["sdist"]
    expected = {str(path) for path in tracked if any(path.is_relative_to(place) for place in listed["only-include"])}
    assert found == expected | {"PKG-INFO", ".gitignore"}


def test_the_wheel_of_the_sdist_is_the_wheel_of_the_checkout(archives: Archives) -> None:
    with zipfile.ZipFile(archives.wheel) as one, zipfile.ZipFile(archives.wheel_of_sdist) as other:
        first, second = ({name: each.read(name) for name in each.namelist()} for each in (one, other))
    assert first == second


def works(installed: Installed) -> None:
    """The commands of a first look answer, and the standard is whole."""
    assert installed.kvwire("--version").startswith("kvwire, version ")
    listed = installed.kvwire("list", "--json").splitlines()
    assert [msgspec.json.decode(line)["id"] for line in listed] == [r.id for r in registry.load().requirements]
    assert "KVW-SEQ-004" in installed.kvwire("explain", "KVW-SEQ-004")
    (block,) = installed.kvwire("hash", "v1_block_key", "--tokens", "1,2,3,4", "--block-size", "4").splitlines()
    assert msgspec.json.decode(block)["unsigned"] == "924206229973855"


def test_the_wheel_works_outside_the_checkout(archives: Archives, install: Install, tmp_path: Path) -> None:
    installed = install(tmp_path / "venv", archives.wheel)
    works(installed)
    package, spec = installed.folders()
    assert package.is_relative_to(tmp_path)
    assert spec == package / "_data" / "spec"


def test_an_editable_install_is_plain_paths_and_reads_the_checkout(install: Install, tmp_path: Path) -> None:
    """A finder hook would hide both packages from type checkers."""
    hook = "import sys; from hatchling.build import build_editable; build_editable(sys.argv[1])"
    run(sys.executable, "-c", hook, tmp_path, cwd=ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (paths,) = (name for name in archive.namelist() if ".dist-info/" not in name)
        assert paths.endswith(".pth")
        assert set(archive.read(paths).decode().split()) == {
            str(ROOT / folder) for folder in ("conformance", "reference", "generators")
        }
    installed = install(tmp_path / "venv", wheel)
    works(installed)
    assert installed.folders() == (ROOT / "conformance" / "kvwire", ROOT / "spec")


def test_without_standard_and_checkout_the_reason_is_told(archives: Archives, install: Install, tmp_path: Path) -> None:
    installed = install(tmp_path / "venv", archives.wheel)
    package, spec = installed.folders()
    spec.rename(package / "elsewhere")
    ended = subprocess.run(
        [installed.python.with_name("kvwire"), "list"], cwd="/", capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 4
    assert "the folder 'spec' is neither inside the package" in ended.stderr
