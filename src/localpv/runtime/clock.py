"""The clock that the parts of the runtime take; the client needs it too, so it is kept there."""

from localpv.client.pacing import Clock, SystemClock, Timer, deadline

__all__ = ["Clock", "SystemClock", "Timer", "deadline"]
