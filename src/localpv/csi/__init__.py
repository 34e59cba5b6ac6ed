"""The Container Storage Interface on the wire: gRPC over unix sockets, for agents that serve and kubelets that call.

`codec` turns messages into dictionaries and back (which field has which number are generated facts), `connection` is
what both ends of an HTTP/2 connection do, `server` answers calls, `channel` makes them, `status` has the codes that an
answer ends with. Only calls with one request and one answer: the interface has no others that matter to us.
"""
