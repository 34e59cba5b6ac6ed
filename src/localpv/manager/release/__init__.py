"""From a released PersistentVolume to a free disk: the manager orders the cleaning, and only a verified one ends it.

`deciding` computes what to do with a disk and its volume, `releasing` does it; `node_loss` is for volumes whose node
is gone.
"""
