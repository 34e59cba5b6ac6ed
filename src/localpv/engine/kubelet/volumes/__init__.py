"""Volumes of pods on this machine: a bound claim becomes a path or device inside the pod, and back out.

    volume_manager     all volumes of all pods of a node, set up and torn down in order; read this first
    volume_spec        a volume as the node sees it, and why one cannot be served now
    claims             from a pod's volume to the PersistentVolume behind it, and what is asked of the API
    identity_check     is it still the disk that was published?
    mounter            volumes with a file system: devices mounted once, made first if blank; bound for each pod
    mapper             raw devices: linked for each pod, held while one uses them
    csi_plugins        CSI drivers of this node, registered and forgotten
    csi_mounter        volumes with a file system that a CSI driver serves; csi_mapper the raw ones
    csi_driver         the calls to a driver; csi_request what is told with them, csi_expander a volume that grew
    ephemeral_volumes  emptyDir, the folders of what comes from the API, hostPath
    projected          files that come from the API: configMap, secret, downwardAPI, tokens
    host_parts         the parts of the machine that do it

Whatever a pod has stands on the disk, in names of folders and links, before it counts. So every step can die and be
repeated, and a pod is torn down from its uid alone.
"""

from localpv.engine.kubelet.volumes.claims import ApiLookup, Lookup
from localpv.engine.kubelet.volumes.host_parts import HostParts, on_this_machine
from localpv.engine.kubelet.volumes.volume_manager import PodVolumes
from localpv.engine.kubelet.volumes.volume_spec import NotReady, Prepared

__all__ = ["ApiLookup", "HostParts", "Lookup", "NotReady", "PodVolumes", "Prepared", "on_this_machine"]
