"""What the server does on its own account: collect garbage, empty namespaces, serve custom kinds, forget old events.

On Kubernetes these are controllers of kube-controller-manager. Here they listen to the store directly and write
through the same functions as clients do, so admission, validation and watches see no difference.
"""
