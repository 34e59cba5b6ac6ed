"""A pod finds the node that can serve it and all of its claims together: what kube-scheduler does on Kubernetes.

`pod_info` reads what a pod asks for, `node_info` keeps what each node has left, `filters` says why a node will not do,
`scores` which of those that will is best, and `schedule_one` puts them together: all of this computes and never waits.
`assume_cache` remembers what is given away but not yet written, `writes` writes it in an order that heals after any
crash, `bind_cycle` goes from the one to the other, `scheduling_queue` knows what a pod without a node waits for, and
`scheduler` is the component. `admission` is what a node itself asks about a pod that somebody sent there without the
scheduler.
"""
