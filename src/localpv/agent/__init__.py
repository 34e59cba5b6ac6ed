"""What runs on each node: finds its disks, and cleans released ones. It has no access to PersistentVolumes."""
