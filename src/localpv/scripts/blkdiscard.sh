#!/bin/sh
# Discards the block device in LOCAL_PV_BLKDEVICE and checks that it reads as zeroes: blkdiscard.sh
here=$(dirname -- "$(readlink -f -- "$0")")
PYTHONPATH=${here%/localpv/scripts}${PYTHONPATH:+:$PYTHONPATH} exec "${LOCALPV_PYTHON:-python3}" -P -m localpv.scripts discard "$@"
