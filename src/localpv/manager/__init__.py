"""The only writer of PersistentVolumes: publishes disks, orders their cleaning, places groups of claims."""
