"""Claim and PersistentVolume become a bound pair, and are parted again; on Kubernetes kube-controller-manager does it.

`claims` and `volumes` compute what is to be done about one of them, `writes` does it in an order that heals after any
crash, `binder` is the component.
"""
