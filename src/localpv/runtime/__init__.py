"""The loop all components share: clock, work queue, back-off, reconcile loop, start and stop in order."""
