"""From a LocalDisk to a PersistentVolume.

`publisher` has the steps, intent, volume, UID, and how an offer is taken back: read this first. `persistent_volume`,
`names` and `capacity` say what the PersistentVolume is; they compute, never wait and touch nothing. `ownership` says
which volumes are ours, and of which disk, `adoption` is for those that the classic provisioner made, `class_warnings`
for what a StorageClass does not keep, `startup_taint` keeps pods off a node until its volumes are published.
"""
