"""How often the event loop was held, so that somebody is told who does not read logs."""

from __future__ import annotations

from localpv.observe.registry import Registry
from localpv.runtime.watchdog import Watchdog


class Loop:
    """Adds what a watchdog has seen to a registry; it counts in a thread of its own, so it is asked."""

    def __init__(self, registry: Registry, watchdog: Watchdog) -> None:
        times = registry.gauge("localpv_event_loop_held_total", "How often one piece of work held up all others.")
        seconds = registry.gauge("localpv_event_loop_held_seconds_total", "How long all others were held up, in all.")
        times.type = seconds.type = "counter"

        def look() -> None:
            times.set(watchdog.times)
            seconds.set(round(watchdog.seconds, 3))

        registry.before_scrape(look)
