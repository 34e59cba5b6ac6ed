"""How every component talks to an API server, and cannot tell which one it is.

`config` finds the server and the credentials, `transport` carries requests, `client` and `objects` make the calls,
`informer` follows a kind by list and watch, `informer_factory` has one of each for a process, `lease` elects a leader.
"""
