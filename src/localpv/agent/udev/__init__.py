"""LocalStorages on a node: rules of udev that link the devices they mean, and what came of it.

rules_file    the text of our files of rules, made from configurations and read back
lock          one at a time, on the whole node
rules_folder  all our files on the node, changed together
report        what the LocalStorageNode says, read from udev's database
discoverer    the component; read this first
"""
