#!/bin/sh
# Random bytes, then zeroes over the block device in LOCAL_PV_BLKDEVICE: shred.sh [PASSES, 3 unless told]
here=$(dirname -- "$(readlink -f -- "$0")")
PYTHONPATH=${here%/localpv/scripts}${PYTHONPATH:+:$PYTHONPATH} exec "${LOCALPV_PYTHON:-python3}" -P -m localpv.scripts shred "$@"
