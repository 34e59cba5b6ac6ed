"""What a pod asks for that this node cannot do: refused by name before anything of the pod is there, as a kubelet does.

Nothing that protects may be overlooked: whoever asks for it relies on it. What is enforced, what is refused here and
what is harmless to leave out is written down for every field of a pod in a table of the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from localpv.api import well_known
from localpv.api.kinds.containers import Container, Lifecycle, SecurityContext, SecurityProfile
from localpv.api.kinds.pods import Pod, PodSecurityContext
from localpv.engine.kubelet import etc_files, seccomp
from localpv.host.containers import Features

UNSUPPORTED = "PodFeatureUnsupported"
SYSCTL, APP_ARMOR, POD_RESOURCES = "SysctlForbidden", "AppArmor", "PodLevelResourcesNotSupported"
"""Reasons in the status of a pod, as a kubelet has them."""

SAFE_SYSCTLS = frozenset(
    {
        *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports"),
        *("net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout"),
        *("net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time"),
        *("net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem"),
    }
)
"""Kernel parameters that each pod has for itself and with which it harms nobody else; those of a kubelet."""

_SELINUX = Path("/sys/fs/selinux/enforce")

Refusal = tuple[str, str]
"""A reason and a message."""


def refusal(pod: Pod, *, features: Features) -> Refusal | None:
    """Why the pod cannot run here as it asks to; None when it can."""
    return next(_refusals(pod, features), None)


def sysctls(pod: Pod) -> dict[str, str]:
    """Kernel parameters of the pod, as the runtime names them."""
    context = pod.spec.security_context
    return {one.name.replace("/", "."): one.value for one in (context.sysctls if context is not None else ())}


def _refusals(pod: Pod, features: Features) -> Iterator[Refusal]:
    spec = pod.spec
    for name in sysctls(pod):
        if name not in SAFE_SYSCTLS:
            yield SYSCTL, f'forbidden sysctl: "{name}" not allowlisted'
        elif name.startswith("net.") and spec.host_network:
            yield SYSCTL, f'forbidden sysctl: "{name}" not allowed with host net enabled'
        elif name.startswith("kernel.") and spec.host_ipc:
            yield SYSCTL, f'forbidden sysctl: "{name}" not allowed with host ipc enabled'
    if spec.host_users is False:
        yield _unsupported("spec.hostUsers: false (user namespaces)")
    if spec.resources is not None and spec.resources.limits:
        yield POD_RESOURCES, "spec.resources.limits of the pod as a whole are not supported on this node"
    if spec.share_process_namespace:
        yield _unsupported("spec.shareProcessNamespace")
    if len(name := etc_files.host_name(pod, node="")) > etc_files.LONGEST_IN_KERNEL:
        yield _unsupported(f"spec.setHostnameAsFQDN with {name}, more than {etc_files.LONGEST_IN_KERNEL} characters,")
    if spec.os is not None and spec.os.name not in ("", "linux"):
        yield "PodOSNotSupported", f"Failed to admit pod as the OS field ({spec.os.name}) doesn't match node OS (linux)"
    for container in (*spec.init_containers, *spec.containers):
        yield from _of_container(pod, container, features)


def _of_container(pod: Pod, container: Container, features: Features) -> Iterator[Refusal]:
    own = container.security_context or SecurityContext()
    whole = pod.spec.security_context or PodSecurityContext()
    where = f"container {container.name}: "
    if _wants_app_armor(pod, container, own.app_armor_profile or whole.app_armor_profile):
        yield APP_ARMOR, f"Cannot enforce AppArmor: {where}profiles are not applied on this node"
    chosen = seccomp.choice(pod, container)
    if chosen is not None and chosen.type != seccomp.UNCONFINED and not features.seccomp:
        yield _unsupported(f"{where}seccompProfile {chosen.type}: the container runtime was built without seccomp")
    if own.proc_mount not in (None, "Default"):
        yield _unsupported(f"{where}securityContext.procMount {own.proc_mount}")
    if (own.se_linux_options or whole.se_linux_options) and _SELINUX.exists():
        yield _unsupported(f"{where}securityContext.seLinuxOptions")
    for mount in container.volume_mounts:
        if mount.mount_propagation not in (None, "None"):
            yield _unsupported(f"{where}mountPropagation {mount.mount_propagation} of {mount.mount_path}")
        if mount.recursive_read_only == "Enabled" and not features.recursive_read_only:
            yield _unsupported(f"{where}recursiveReadOnly of {mount.mount_path}: the container runtime lacks it")
    for name in ("liveness_probe", "readiness_probe", "startup_probe"):
        probe = getattr(container, name)
        if probe is not None and probe.grpc is not None:
            yield _unsupported(f"{where}a probe by gRPC; use exec, httpGet or tcpSocket")
    hooks = container.lifecycle or Lifecycle()
    if any(hook is not None and hook.tcp_socket is not None for hook in (hooks.post_start, hooks.pre_stop)):
        yield _unsupported(f"{where}a lifecycle hook by tcpSocket; use exec, httpGet or sleep")
    if container.resources.claims or container.restart_policy_rules:
        field = "resources.claims" if container.resources.claims else "restartPolicyRules"
        yield _unsupported(f"{where}{field}")
    for variable in container.env:
        if variable.value_from is not None and variable.value_from.file_key_ref is not None:
            yield _unsupported(f"{where}env {variable.name} from a file (fileKeyRef)")


def _wants_app_armor(pod: Pod, container: Container, profile: SecurityProfile | None) -> bool:
    if profile is not None:
        return profile.type != seccomp.UNCONFINED
    annotated = pod.metadata.annotations.get(f"{well_known.APPARMOR_PREFIX}{container.name}", "")
    return annotated not in ("", "unconfined")


def _unsupported(what: str) -> Refusal:
    return UNSUPPORTED, f"{what} is not supported on this node"
