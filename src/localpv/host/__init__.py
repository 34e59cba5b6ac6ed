"""The only door to the kernel: mounts, devices, folders, uevents, deletion, wiping, loop devices.

Each module has a small Protocol and the part that really does it; `localpv.testing.fake_host` has the other side, and
`localpv.testing.fake_volume_host` that of what serves pods.
Whatever can hang on a disk runs in a worker thread of its own with a time limit (`workers`), and every system tool is
run by `commands`.
"""
