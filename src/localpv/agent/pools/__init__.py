"""Pools of this node: room from which volumes of any size are carved, one kind of pool a module.

pool        what every pool can do, and what is told of it
file_pool   volumes as files, with loop devices on top
lvm_pool    volumes as logical volumes, thick or thin
pools       the pools of this node, as its classes name them
"""
