#!/bin/sh
# A new file system on LOCAL_PV_BLKDEVICE, then its signatures removed: quick_reset.sh. Only metadata is destroyed.
here=$(dirname -- "$(readlink -f -- "$0")")
PYTHONPATH=${here%/localpv/scripts}${PYTHONPATH:+:$PYTHONPATH} exec "${LOCALPV_PYTHON:-python3}" -P -m localpv.scripts fs-reset "$@"
