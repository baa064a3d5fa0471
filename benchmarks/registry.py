"""The modules that there are, in the order of the page."""

from typing import Final

from benchmarks import files, judging, publisher, reception
from benchmarks.page import name_of
from benchmarks.rows import Module

MODULES: Final[dict[str, Module]] = {name_of(module): module for module in (publisher, reception, judging, files)}
