"""Whether two values of an object mean the same, which is more than whether they are written the same."""

from __future__ import annotations

from typing import Any

from localpv.api.objects import Object
from localpv.engine.apiserver.kinds.volume_access import read_amount

_UNSET_IS_NOT_ZERO = frozenset(
    {
        "activeDeadlineSeconds",
        "allowPrivilegeEscalation",
        "automountServiceAccountToken",
        "defaultMode",
        "fsGroup",
        "hostUsers",
        "lun",
        "mode",
        "optional",
        "privileged",
        "readOnlyRootFilesystem",
        "runAsGroup",
        "runAsNonRoot",
        "runAsUser",
        "shareProcessNamespace",
        "storageClassName",
        "terminationGracePeriodSeconds",
        "tolerationSeconds",
        "volumeAttributesClassName",
    }
)
"""Fields whose zero value says something that leaving them out does not say."""

_QUANTITIES = frozenset({"capacity", "limits", "overhead", "requests"})


def same(new: Any, old: Any) -> bool:
    """Equal, where a field left out equals one that is empty, false or zero.

    Clients written in Go drop such fields when they send an object back, so a comparison to the
    letter would take an untouched object for a changed one.
    """
    if new == old:
        return True
    if isinstance(new, dict) and isinstance(old, dict):
        return all(_same_field(key, new.get(key), old.get(key)) for key in new.keys() | old.keys())
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(same, new, old))
    return not new and not old


def _same_field(key: str, new: Any, old: Any) -> bool:
    if new == old:
        return True
    if key in _UNSET_IS_NOT_ZERO:
        return False
    if key in _QUANTITIES and isinstance(new, dict) and isinstance(old, dict):
        return same_quantities(new, old)
    return same(new, old)


def same_quantities(new: Object, old: Object) -> bool:
    """Whether two resource lists name the same amounts: `1Gi` is `1024Mi`."""
    if new.keys() != old.keys():
        return False
    return all(_same_amount(new[key], old[key]) for key in new)


def _same_amount(new: Any, old: Any) -> bool:
    if new == old:
        return True
    try:
        return read_amount(new) == read_amount(old)
    except (TypeError, ValueError):
        return same(new, old)  # no amounts: some fields have the name and are something else


def without(value: Object, *keys: str) -> Object:
    """A shallow copy that leaves some fields out of a comparison."""
    return {key: each for key, each in value.items() if key not in keys}
