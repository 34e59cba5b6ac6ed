"""The cleaning scripts that configurations of the classic provisioner name, for cleaning Jobs and for use by hand.

Each is a line of shell that calls `python3 -m localpv.scripts METHOD`, which cleans with the same parts as the agent:
the same checks before, and the same reading back after. The disk comes in the environment: LOCAL_PV_BLKDEVICE has the
path of a block device, LOCAL_PV_FILESYSTEM that of a directory.

    dd_zero.sh [PASSES]   shred.sh [PASSES]   zeroout.sh   blkdiscard.sh   quick_reset.sh   hdparm.sh
    nvme_format.sh   fsclean.sh

They need nothing but Python, so they also run from a copy of the package without its dependencies.
"""
