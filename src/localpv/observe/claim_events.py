"""What people are told about claims and volumes that do not come together: reasons as on Kubernetes, words our own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim, StorageClass
from localpv.observe.recorder import Notice
from localpv.volume import fit
from localpv.volume.fit import Mismatch

COMPONENT = "localpv-binder"
FAILED_BINDING = "FailedBinding"
VOLUME_MISMATCH = "VolumeMismatch"
PROVISIONING_FAILED = "ProvisioningFailed"


def waits_for_pod(pods: Sequence[str]) -> Notice:
    """A claim of a class that waits, and the pods that use it and have no node yet."""
    if not pods:
        message = "waiting for first consumer to be created before binding"
        return Notice(reason="WaitForFirstConsumer", message=message)
    named = f"pod {pods[0]}" if len(pods) == 1 else f"pods {','.join(pods)}"
    return Notice(reason="WaitForPodScheduled", message=f"waiting for {named} to be scheduled")


def no_volume(
    claim: PersistentVolumeClaim, storage_class: StorageClass | None, misses: Counter[Mismatch]
) -> list[Notice]:
    """No volume suits the claim, and nobody makes one."""
    name = fit.class_of(claim)
    found = []
    if not name:
        message = "no persistent volumes available for this claim and no storage class is set"
        if misses:
            message += f": of the free volumes without a class {_listed(misses)}"
        return [Notice(reason=FAILED_BINDING, message=message)]
    if storage_class is None:
        message = f'storageclass.storage.k8s.io "{name}" not found'
    else:
        message = f"no volume is free for this claim, and {storage_class.provisioner} makes none"
    found.append(Notice(reason=PROVISIONING_FAILED, message=message, warning=True))
    if misses:
        message = f"none of the free volumes of class {name} suits the claim: {_listed(misses)}"
        found.append(Notice(reason=FAILED_BINDING, message=message, warning=True))
    return found


def external(provisioner: str) -> Notice:
    message = (
        f"waiting for {provisioner} to make a volume, or for an administrator to do so;"
        " if it takes long, see whether that provisioner is running"
    )
    return Notice(reason="ExternalProvisioning", message=message)


def mismatched(volume: PersistentVolume, wrong: Mismatch) -> Notice:
    """The claim asks for a volume by name that cannot be its own."""
    message = f'the volume "{volume.key}" that this claim asks for is {wrong.value}'
    return Notice(reason=VOLUME_MISMATCH, message=message, warning=True)


def other_mode(volume: PersistentVolume, claim: PersistentVolumeClaim) -> tuple[Notice, Notice]:
    """For the claim, and for the volume that is reserved for it but of the other mode."""
    modes = (
        f"the volume has volumeMode {volume.spec.volume_mode or fit.FILESYSTEM},"
        f" the claim {claim.spec.volume_mode or fit.FILESYSTEM}"
    )
    for_claim = f'volume "{volume.key}" is reserved for this claim and cannot be bound: {modes}'
    for_volume = f'cannot be bound to claim "{claim.key}": {modes}'
    return (
        Notice(reason=VOLUME_MISMATCH, message=for_claim, warning=True),
        Notice(reason=VOLUME_MISMATCH, message=for_volume, warning=True),
    )


def differs_in_mode(volume: PersistentVolume, claim: PersistentVolumeClaim) -> Notice:
    """For a claim that waits: a free volume would do, if it were not for this."""
    message = (
        f'volume "{volume.key}" is free and suits this claim but for its volumeMode, which is'
        f" {volume.spec.volume_mode or fit.FILESYSTEM}: the claim asks for"
        f" {claim.spec.volume_mode or fit.FILESYSTEM}. If the mode of the claim is a mistake, make it anew"
    )
    return Notice(reason=VOLUME_MISMATCH, message=message, warning=True)


def taken(name: str) -> Notice:
    message = f'volume "{name}" already bound to a different claim.'
    return Notice(reason=FAILED_BINDING, message=message, warning=True)


def not_there(name: str) -> Notice:
    message = f'the volume "{name}" that this claim asks for does not exist'
    return Notice(reason=FAILED_BINDING, message=message, warning=True)


LOST_REFERENCE = Notice(
    reason="ClaimLost", message="This claim was bound and names no volume any more; its data is lost.", warning=True
)
LOST_VOLUME = Notice(
    reason="ClaimLost", message="The volume of this claim does not exist any more; its data is lost.", warning=True
)
MISBOUND = Notice(
    reason="ClaimMisbound", message="The volume that this claim names is bound to another claim.", warning=True
)


def _listed(misses: Counter[Mismatch]) -> str:
    return ", ".join(f"{count} {'is' if count == 1 else 'are'} {wrong.value}" for wrong, count in misses.most_common())
