"""Figures of this process under the names that every client library of Prometheus gives them, read when asked for."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import localpv
from localpv.observe.registry import Registry

_SELF = Path("/proc/self")


class ProcessMetrics:
    """Adds the process to a registry."""

    def __init__(self, registry: Registry, *, component: str) -> None:
        self._memory = registry.gauge("process_resident_memory_bytes", "Resident memory of this process.")
        self._virtual = registry.gauge("process_virtual_memory_bytes", "Virtual memory of this process.")
        self._cpu = registry.gauge("process_cpu_seconds_total", "Processor time of this process, user and system.")
        self._cpu.type = "counter"
        self._files = registry.gauge("process_open_fds", "Open file descriptors of this process.")
        self._most_files = registry.gauge("process_max_fds", "Open file descriptors that this process may have.")
        started = registry.gauge("process_start_time_seconds", "When this process was started, in seconds since 1970.")
        started.set(round(_started(), 2))
        about = registry.gauge(
            "localpv_build_info", "Which program this is, of which version.", ("version", "component")
        )
        about.set(1, localpv.__version__, component)
        registry.before_scrape(self._look)

    def _look(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        size, resident, *_ = (_SELF / "statm").read_text().split()
        self._virtual.set(int(size) * page)
        self._memory.set(int(resident) * page)
        used = resource.getrusage(resource.RUSAGE_SELF)
        self._cpu.set(round(used.ru_utime + used.ru_stime, 6))
        self._files.set(len(os.listdir(_SELF / "fd")))
        self._most_files.set(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _started() -> float:
    ticks = int((_SELF / "stat").read_text().rsplit(")", 1)[1].split()[19])
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))
