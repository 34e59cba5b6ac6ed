"""From a released PersistentVolume to a free disk: the manager orders the cleaning, and only a verified one ends it.

`decision` computes what to do with a disk and its volume, `releaser` does it; `node_loss` is for volumes whose node
is gone.
"""
