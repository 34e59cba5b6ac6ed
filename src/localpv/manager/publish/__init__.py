"""From a LocalDisk to a PersistentVolume.

naming, capacity, volume   what the PersistentVolume is; they compute, never wait and touch nothing
ownership                  which volumes are ours, and of which disk
publishing                 intent, volume, UID: the steps, and how an offer is taken back; read this first
adoption                   volumes that the classic provisioner made
taint                      the taint that keeps pods off a node until its volumes are published
"""
