"""The containers of a pod: what they run, with which rights, and how far they are."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from localpv.api.kinds.meta import Part
from localpv.api.kinds.volumes import VolumeResourceRequirements


class ResourceClaim(Part, frozen=True, kw_only=True):
    """A device that a container asks for by the name of a claim of the pod."""

    name: str
    request: str = ""


class ResourceRequirements(VolumeResourceRequirements, frozen=True, kw_only=True):
    claims: tuple[ResourceClaim, ...] = ()


class KeySelector(Part, frozen=True, kw_only=True):
    """One key of a ConfigMap or of a Secret."""

    name: str = ""
    key: str
    optional: bool = False


class FieldSelector(Part, frozen=True, kw_only=True):
    """A field of the pod itself."""

    field_path: str
    api_version: str = ""


class ResourceFieldSelector(Part, frozen=True, kw_only=True):
    """A request or limit of a container."""

    resource: str
    container_name: str = ""
    divisor: str = ""


class FileKeySelector(Part, frozen=True, kw_only=True):
    """One key of a file in a volume."""

    key: str = ""
    path: str = ""
    volume_name: str = ""


class EnvVarSource(Part, frozen=True, kw_only=True):
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None
    field_ref: FieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    file_key_ref: FileKeySelector | None = None


class EnvVar(Part, frozen=True, kw_only=True):
    name: str
    value: str = ""
    value_from: EnvVarSource | None = None


class NamedSource(Part, frozen=True, kw_only=True):
    """A whole ConfigMap or Secret."""

    name: str = ""
    optional: bool = False


class EnvFromSource(Part, frozen=True, kw_only=True):
    prefix: str = ""
    config_map_ref: NamedSource | None = None
    secret_ref: NamedSource | None = None


class ContainerPort(Part, frozen=True, kw_only=True):
    container_port: int
    host_port: int = 0
    host_ip: str = msgspec.field(name="hostIP", default="")
    name: str = ""
    protocol: str = ""


class VolumeMount(Part, frozen=True, kw_only=True):
    name: str
    mount_path: str
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False
    mount_propagation: str | None = None
    recursive_read_only: str | None = None


class VolumeDevice(Part, frozen=True, kw_only=True):
    name: str
    device_path: str


class Capabilities(Part, frozen=True, kw_only=True):
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SecurityProfile(Part, frozen=True, kw_only=True):
    """A seccomp or AppArmor profile: RuntimeDefault, Unconfined, or Localhost with its name on the node."""

    type: str = ""
    localhost_profile: str | None = None


class SecurityContext(Part, frozen=True, kw_only=True):
    """Rights of one container; what it leaves out is the pod's word."""

    privileged: bool = False
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool = False
    allow_privilege_escalation: bool | None = None
    capabilities: Capabilities = Capabilities()
    seccomp_profile: SecurityProfile | None = None
    app_armor_profile: SecurityProfile | None = None
    proc_mount: str | None = None
    se_linux_options: Mapping[str, str] | None = None


class ExecAction(Part, frozen=True, kw_only=True):
    command: tuple[str, ...] = ()


class HTTPHeader(Part, frozen=True, kw_only=True):
    name: str
    value: str = ""


class HTTPGetAction(Part, frozen=True, kw_only=True):
    port: int | str
    path: str = ""
    host: str = ""
    scheme: str = ""
    http_headers: tuple[HTTPHeader, ...] = ()


class TCPSocketAction(Part, frozen=True, kw_only=True):
    port: int | str
    host: str = ""


class GRPCAction(Part, frozen=True, kw_only=True):
    port: int
    service: str | None = None


class Probe(Part, frozen=True, kw_only=True):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class SleepAction(Part, frozen=True, kw_only=True):
    seconds: int = 0


class LifecycleHandler(Part, frozen=True, kw_only=True):
    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    sleep: SleepAction | None = None
    tcp_socket: TCPSocketAction | None = None


class Lifecycle(Part, frozen=True, kw_only=True):
    stop_signal: str | None = None
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None


class RestartPolicyRule(Part, frozen=True, kw_only=True):
    action: str = ""


class Container(Part, frozen=True, kw_only=True):
    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    security_context: SecurityContext | None = None
    restart_policy: str | None = None
    """Always makes an init container a sidecar."""

    restart_policy_rules: tuple[RestartPolicyRule, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    stdin: bool = False
    tty: bool = False
    termination_message_path: str = ""
    termination_message_policy: str = ""


class StateWaiting(Part, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""


class StateRunning(Part, frozen=True, kw_only=True):
    started_at: str | None = None


class StateTerminated(Part, frozen=True, kw_only=True):
    exit_code: int
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str = msgspec.field(name="containerID", default="")


class ContainerState(Part, frozen=True, kw_only=True):
    """At most one of the three is set."""

    waiting: StateWaiting | None = None
    running: StateRunning | None = None
    terminated: StateTerminated | None = None


class ContainerStatus(Part, frozen=True, kw_only=True):
    name: str
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = False
    restart_count: int = 0
    image: str = ""
    image_id: str = msgspec.field(name="imageID", default="")
    container_id: str = msgspec.field(name="containerID", default="")
    started: bool | None = None
