"""ServiceAccounts: of the secrets they list only the names are kept."""

from __future__ import annotations

from localpv.api.objects import Object
from localpv.engine.apiserver.kinds.base import Strategy

_MOUNTABLE_SECRETS = "kubernetes.io/enforce-mountable-secrets"


class ServiceAccount(Strategy):
    generation = False
    returns_deleted = True

    def prepare_for_create(self, obj: Object) -> None:
        _keep_names(obj)

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        _keep_names(obj)

    def warnings(self, obj: Object) -> list[str]:
        if _MOUNTABLE_SECRETS in (obj["metadata"].get("annotations") or {}):
            return [
                f"metadata.annotations[{_MOUNTABLE_SECRETS}]: deprecated since v1.32;"
                " keep secrets apart by namespace instead"
            ]
        return []


def _keep_names(obj: Object) -> None:
    if secrets := obj.get("secrets"):
        obj["secrets"] = [{"name": secret["name"]} if "name" in secret else {} for secret in secrets]
