"""One short module per process: the only place where real parts are put together."""
