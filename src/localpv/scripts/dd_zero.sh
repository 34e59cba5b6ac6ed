#!/bin/sh
# Zeroes over the block device in LOCAL_PV_BLKDEVICE, read back at the end: dd_zero.sh [PASSES, 1 unless told]
here=$(dirname -- "$(readlink -f -- "$0")")
PYTHONPATH=${here%/localpv/scripts}${PYTHONPATH:+:$PYTHONPATH} exec "${LOCALPV_PYTHON:-python3}" -P -m localpv.scripts zero "$@"
