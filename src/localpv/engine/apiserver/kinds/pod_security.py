"""Security contexts of pods and containers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from localpv.api import fields
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import checks, rules
from localpv.engine.apiserver.kinds.checks import inside
from localpv.engine.apiserver.kinds.rules import Field

Errors = Iterator[FieldError]

PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
MAX_SYSCTL = 253
_segment = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_is_sysctl = re.compile(rf"({_segment}[./])*{_segment}").fullmatch
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")

_FS_GROUP = Field("fsGroup", least=0, most=checks.MAX_ID)
_USER = (Field("runAsUser", least=0, most=checks.MAX_ID), Field("runAsGroup", least=0, most=checks.MAX_ID))
_POLICIES = (
    Field("fsGroupChangePolicy", enum=("Always", "OnRootMismatch")),
    Field("supplementalGroupsPolicy", enum=("Merge", "Strict")),
    Field("seLinuxChangePolicy", enum=("MountOption", "Recursive")),
)
_CONTAINER = (*_USER, Field("procMount", enum=("Default", "Unmasked")))
_PROFILE = (Field("type", required=True, enum=PROFILE_TYPES),)


def pod_errors(spec: Object, path: str) -> Errors:
    context = spec.get("securityContext")
    if not context:
        return
    at = f"{path}.securityContext"
    yield from rules.errors((_FS_GROUP, *_USER), context, at)
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        yield from checks.identity(group, f"{at}.supplementalGroups[{index}]")
    yield from rules.errors(_POLICIES, context, at)
    yield from _sysctls(context.get("sysctls") or [], f"{at}.sysctls", spec)
    yield from _profiles(context, at)


def namespace_errors(spec: Object, path: str) -> Errors:
    """Namespaces of the host that exclude each other."""
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        where = f"{path}.securityContext.shareProcessNamespace"
        yield fields.invalid(where, True, "does not go with hostPID")
    if spec.get("hostUsers", True):
        return
    for name, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(name):
            yield fields.forbidden(f"{path}.{shown}", "does not go with hostUsers: false")
    for list_name in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(list_name) or ()):
            if container.get("volumeDevices"):
                where = f"{path}.{list_name}[{index}].volumeDevices"
                yield fields.forbidden(where, "does not go with hostUsers: false")


def container_errors(context: Object, path: str, *, host_users: bool) -> Errors:
    yield from rules.errors(_CONTAINER, context, path)
    if context.get("procMount") == "Unmasked" and host_users:
        yield fields.invalid(f"{path}.procMount", "Unmasked", "Unmasked goes with hostUsers: false only")
    if context.get("allowPrivilegeEscalation") is False:
        added = (context.get("capabilities") or {}).get("add") or ()
        if context.get("privileged"):
            yield fields.invalid(path, context, "a privileged container can always gain privileges")
        if "CAP_SYS_ADMIN" in added:
            yield fields.invalid(path, context, "a container with CAP_SYS_ADMIN can always gain privileges")
    yield from _profiles(context, path)


def _profiles(context: Object, path: str) -> Errors:
    if (profile := context.get("seccompProfile")) is not None:
        yield from _profile(profile, f"{path}.seccompProfile", is_path=True)
    if (profile := context.get("appArmorProfile")) is not None:
        yield from _profile(profile, f"{path}.appArmorProfile", is_path=False)


def _profile(profile: Object, path: str, *, is_path: bool) -> Errors:
    yield from rules.errors(_PROFILE, profile, path)
    kind, name = profile.get("type", ""), profile.get("localhostProfile")
    if kind == "Localhost":
        if name is None or (not name and not is_path):
            yield fields.required(f"{path}.localhostProfile", "Localhost needs the name of a profile on the node")
        elif is_path:
            yield from inside(name, f"{path}.localhostProfile")
        elif name != name.strip():
            yield fields.invalid(f"{path}.localhostProfile", name, "must not begin or end with white space")
    elif name is not None and (is_path or kind in PROFILE_TYPES):
        yield fields.invalid(f"{path}.localhostProfile", name, "goes with type Localhost only")


def _sysctls(settings: list[Object], path: str, spec: Object) -> Errors:
    seen: set[str] = set()
    for index, setting in enumerate(settings):
        at, name = f"{path}[{index}].name", setting.get("name", "")
        if not name:
            yield fields.required(at)
        elif len(name) > MAX_SYSCTL or not _is_sysctl(name):
            yield fields.invalid(
                at, name, "must be a kernel parameter such as kernel.msgmax or net/ipv4/tcp_syncookies"
            )
        elif name in seen:
            yield fields.duplicate(at, name)
        seen.add(name)
        dotted = name.replace("/", ".")
        if spec.get("hostNetwork") and dotted.startswith("net."):
            yield fields.invalid(at, name, "would change the host's network: hostNetwork is set")
        elif spec.get("hostIPC") and dotted.startswith(_IPC_SYSCTLS):
            yield fields.invalid(at, name, "would change the host's IPC: hostIPC is set")
