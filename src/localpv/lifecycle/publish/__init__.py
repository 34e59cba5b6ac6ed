"""From a LocalDisk to a PersistentVolume.

`naming`, `capacity` and `volume` compute what the PersistentVolume is; they never wait and touch nothing.
"""
