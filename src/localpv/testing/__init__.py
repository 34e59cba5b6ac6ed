"""Public helpers for tests: a clock that is moved by hand, an API server in a dictionary, bounded waiting."""
