"""Claim and PersistentVolume become a bound pair, and are parted again: what kube-controller-manager does on Kubernetes.

`deciding` computes what is to be done about a claim or a volume, `writes` does it in an order that heals after any
crash, `binder` is the component.
"""
