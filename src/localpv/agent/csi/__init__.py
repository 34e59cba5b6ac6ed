"""The CSI driver `localpv.dev` on one node, over its pools: Identity, Controller and Node on a unix socket.

`plugin` opens the sockets and tells the kubelet, `identity`, `controller` and `node` answer calls, `staging` is what
happens to devices and mounts, `publications` remembers where volumes are shown. `requests` reads what callers send,
`operations` sees to it that a volume has one call at a time and that a call goes on when nobody waits for it any more.
"""
