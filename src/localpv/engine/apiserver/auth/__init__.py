"""Who asks, and may they: identities, tokens, impersonation, RBAC and the reviews that tell of them.

Nothing here waits or does I/O once it has started: requests are judged from objects in memory. The order for a
request is `authentication` (with whom the user speaks for), `rbac`, `node_rule`.
"""
