"""A pod finds the node that can serve it and all of its claims together: what kube-scheduler does on Kubernetes.

`demands` reads what a pod asks for, `places` keeps what each node has left, `rules` says why a node will not do,
`scores` which of those that will is best, and `choosing` puts them together: all of this computes and never waits.
`promises` remembers what is given away but not yet written, `writes` writes it in an order that heals after any crash,
`waiting` knows what a pod without a node waits for, and `scheduler` is the component. `admission` is what a node itself
asks about a pod that somebody sent there without the scheduler.
"""
