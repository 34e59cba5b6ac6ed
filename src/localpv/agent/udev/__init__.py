"""LocalStorages on a node: rules of udev that link the devices they mean, and what came of it.

rules_file    the text of our files of rules, made from configurations and read back
"""
