"""LocalStorages into classes, pods on nodes and a status.

`operator` puts it together and says what wakes whom. One step for a LocalStorage (`reconciler`) judges it, makes the
classes (`classes`), and a ConfigMap and a DaemonSet for each group of nodes (`node_groups`); `deletion` takes a
LocalStorage away. `tally` counts what came of it on the nodes as reports come in, and `status` writes that down.
"""
