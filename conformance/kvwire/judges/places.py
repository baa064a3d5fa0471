"""Where each judge stands in the source, for whoever compares judges with the standard."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from kvwire.judges.area import Area
from kvwire.standard.drift import Place


def places(table: Mapping[str, str]) -> dict[str, Place]:
    """Where the judges of a table (requirement id → ``area.method``, as ``kvwire.judges.TABLE``) stand."""
    root = Path(str(resources.files("kvwire"))).parents[1]
    found: dict[str, Place] = {}
    for requirement, place in table.items():
        area, _, method = place.partition(".")
        module = importlib.import_module(f"kvwire.judges.{area}")
        (owner,) = (
            value
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Area) and vars(value).get("name") == area
        )
        function = getattr(owner, method)
        file = Path(inspect.getfile(function))
        found[requirement] = Place(
            area=area,
            method=method,
            doc=function.__doc__ or "",
            file=str(file.relative_to(root) if file.is_relative_to(root) else file),
            line=inspect.getsourcelines(function)[1],
        )
    return found
