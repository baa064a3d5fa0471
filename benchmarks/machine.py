"""The machine as it was: what figures depend on, as far as it can be told."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

import msgspec
import zmq

PACKAGES = ("msgspec", "pyzmq")


class Machine(msgspec.Struct, frozen=True):
    """What a section of the page was measured on; `load` is the mean of the last minute, before and after."""

    processor: str
    cores: int
    system: str
    python: str
    packages: tuple[str, ...]
    load: tuple[float, float]
    real_time: bool = False
    """Whether this process, and those that it starts, go before all ordinary ones."""

    def __str__(self) -> str:
        before, after = self.load
        parts = [f"{self.cores} cores of {self.processor}", self.system, self.python, *self.packages]
        told = f"{', '.join(parts)}; load {before:.1f} before and {after:.1f} after"
        return told + ", before all of which this ran, by its priority" * self.real_time


def load() -> float:
    """The mean of the last minute."""
    return os.getloadavg()[0]


def machine(load_before: float) -> Machine:
    """Describe this one."""
    return Machine(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        system=f"{platform.system()} {platform.machine()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        packages=(*(f"{name} {version(name)}" for name in PACKAGES), f"libzmq {zmq.zmq_version()}"),
        load=(load_before, load()),
        real_time=hasattr(os, "sched_getscheduler") and os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR),
    )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "an unknown processor")
