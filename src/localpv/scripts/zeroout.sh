#!/bin/sh
# Makes the block device in LOCAL_PV_BLKDEVICE read as zeroes by the fastest way it has, and checks that: zeroout.sh
here=$(dirname -- "$(readlink -f -- "$0")")
PYTHONPATH=${here%/localpv/scripts}${PYTHONPATH:+:$PYTHONPATH} exec "${LOCALPV_PYTHON:-python3}" -P -m localpv.scripts zeroout "$@"
