"""Volumes of pods on this machine: a bound claim becomes a path or device inside the pod, and back out.

    volumes        all volumes of all pods of a node; read this first
    layout         where on the disk everything stands
    waiting        why a volume cannot be served now, and what it is when it can
    claims         from a pod's volume to the PersistentVolume behind it
    others         sources that are not of this machine, and what to do instead
    specs          a local volume as the node sees it
    mounter        volumes with a file system: bound for each pod
    global_mounts  devices with a file system: mounted once, made first if they are blank
    mapper         raw devices: linked for each pod, held while one uses them
    tearing        a pod's volumes taken away, in order
    recorded       is it still the disk that was published?
    scratch        emptyDir, and the folders of what comes from the API
    contents       files that come from the API: configMap, secret, downwardAPI, projected
    downward       what a pod is told about itself
    tokens         tokens of service accounts
    host_paths     paths of the node itself
    lookup         what is asked of the API
    hands          the parts of the machine that do it

Whatever a pod has stands on the disk, in names of folders and links, before it counts. So every step can die and be
repeated, and a pod is torn down from its uid alone.
"""

from localpv.engine.kubelet.volumes.host_parts import Hands, on_this_machine
from localpv.engine.kubelet.volumes.lookup import ApiLookup, Lookup
from localpv.engine.kubelet.volumes.results import NotReady, Prepared
from localpv.engine.kubelet.volumes.volume_manager import PodVolumes

__all__ = ["ApiLookup", "Hands", "Lookup", "NotReady", "PodVolumes", "Prepared", "on_this_machine"]
