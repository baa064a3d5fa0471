"""The files under examples/watch: what they name exists, and what they start is taken."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest
from tests.kit.needs import needs_program
from tests.watch.test_metrics import state

from kvwire.cli.watch import watch_command
from kvwire.watch.beside import Violations
from kvwire.watch.metrics import View, WatchCollector

FOLDER = Path(__file__).parents[2] / "examples" / "watch"

if not FOLDER.is_dir():
    pytest.skip("needs a checkout", allow_module_level=True)


def taken(words: list[str]) -> dict[str, Any]:
    """What `kvwire watch` makes of words."""
    assert Path(words[0]).name == "kvwire"
    assert words[1] == "watch"
    with click.Context(click.Command("kvwire")) as parent:
        return watch_command.make_context("watch", words[2:], parent=parent).params


def unit() -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=False)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(FOLDER / "kvwire-watch.service", encoding="utf-8")
    return found


def test_the_unit_starts_a_watch_on_loopback_that_writes_where_it_may(tmp_path: Path) -> None:
    service = unit()["Service"]
    (tmp_path / service["StateDirectory"]).mkdir()
    params = taken(shlex.split(service["ExecStart"].replace("%S", str(tmp_path))))
    assert params["place"] == ("127.0.0.1", 9464)
    assert params["result"].parent.is_dir()
    assert params["targets"]
    assert service["SuccessExitStatus"] == "1 3"


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    program = needs_program("systemd-analyze")
    path = tmp_path / "kvwire-watch.service"
    text = (FOLDER / path.name).read_text(encoding="utf-8")
    path.write_text(text.replace("/usr/local/bin/kvwire", sys.executable), encoding="utf-8")
    done = subprocess.run(
        [program, "verify", "--man=no", path], capture_output=True, text=True, timeout=60, check=False
    )
    said = [line for line in done.stderr.splitlines() if path.name in line]
    assert not said, said


def test_the_container_starts_a_watch_and_tells_whether_it_works() -> None:
    text = (FOLDER / "Containerfile").read_text(encoding="utf-8").replace("\\\n", "")
    found = {word: json.loads(rest) for word, rest in re.findall(r"^(ENTRYPOINT|CMD) (\[.*\])$", text, re.MULTILINE)}
    params = taken([*found["ENTRYPOINT"], *found["CMD"]])
    assert params["place"] == ("0.0.0.0", 9464)
    assert params["as_json"]
    assert "EXPOSE 9464" in text
    (health,) = re.findall(r"^HEALTHCHECK.* CMD (\[.*\])$", text, re.MULTILINE)
    _, _, program = json.loads(health)
    compile(program, "HEALTHCHECK", "exec")
    assert ":9464/metrics" in program


def shown() -> dict[str, set[str]]:
    """Each metric that a watch shows, with its labels."""
    broken = Violations(target="t", stream="s", requirement="KVW-SEQ-009", level="MUST", count=1)
    seen = state()
    view = View(at=time.monotonic(), streams=[seen], violations=[broken])
    found: dict[str, set[str]] = {metric.name: set() for metric in WatchCollector(lambda: view).collect()}
    for metric in WatchCollector(lambda: view).collect():
        for sample in metric.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions(dashboard: dict[str, Any]) -> list[str]:
    panels = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return panels + [one["query"]["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]


def test_the_dashboard_asks_for_metrics_and_labels_that_there_are() -> None:
    dashboard = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
    metrics, asked = shown(), set()
    for text in expressions(dashboard):
        for name in re.findall(r"kvwire_\w+", text):
            assert name in metrics, text
            asked.add(name.removesuffix("_total").removesuffix("_info"))
            for group in re.findall(r"by \(([^)]*)\)", text):
                assert set(group.split(", ")) <= metrics[name], text
    assert asked == {name for name in metrics if not name.endswith(("_total", "_info"))}


def test_the_panels_of_the_dashboard_do_not_lie_upon_each_other() -> None:
    dashboard = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
    cells: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & own
        assert max(x for x, _ in own) < 24
        cells |= own
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
