"""Volumes that are carved out of pools when a claim asks for them: what external-provisioner and external-resizer do.

request            what a claim and its class ask for, or why it is refused; computes
placement          which pool, of which node; computes
persistent_volume  the PersistentVolume of a volume in a pool; computes
provisioner        from a claim to a PoolVolume, which is the reservation, to a PersistentVolume
deleter            from a released PersistentVolume back to free space
resizer            larger volumes for claims that ask for more
capacity           what is free on each node, for kube-scheduler
controller         the loop that has all of them look at one volume after the other
"""
