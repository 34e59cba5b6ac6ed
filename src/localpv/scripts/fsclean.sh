#!/bin/sh
# Removes all that is in the directory in LOCAL_PV_FILESYSTEM: fsclean.sh
here=$(dirname -- "$(readlink -f -- "$0")")
PYTHONPATH=${here%/localpv/scripts}${PYTHONPATH:+:$PYTHONPATH} exec "${LOCALPV_PYTHON:-python3}" -P -m localpv.scripts fs-clean "$@"
