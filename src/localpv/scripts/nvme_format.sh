#!/bin/sh
# The NVMe drive in LOCAL_PV_BLKDEVICE erases itself, and what it says is checked: nvme_format.sh
here=$(dirname -- "$(readlink -f -- "$0")")
PYTHONPATH=${here%/localpv/scripts}${PYTHONPATH:+:$PYTHONPATH} exec "${LOCALPV_PYTHON:-python3}" -P -m localpv.scripts nvme-format "$@"
