"""How every component talks to an API server, and cannot tell which one it is.

`config` finds the server and the credentials, `transport` carries requests, `client` and `objects` make the calls,
`cache` follows a kind by list and watch, `lease` elects a leader.
"""
