"""Deployments: ReplicaSets that replace each other as the template changes."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import replace

from localpv import errors
from localpv.api import selectors
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.workloads import Deployment, ReplicaSet
from localpv.api.objects import Object
from localpv.engine.controllers import cached_objects, controller_refs, pods, progress, rollouts, statuses, templates
from localpv.engine.controllers.cached_objects import CachedObjects
from localpv.engine.controllers.rollouts import Family, Sizes
from localpv.observe.recorder import Recorder
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Done, LookAgain, Outcome


class Deployments:
    """Reconciles Deployments by their keys."""

    def __init__(
        self,
        *,
        deployments: CachedObjects[Deployment],
        sets: CachedObjects[ReplicaSet],
        members: CachedObjects[Pod],
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self._deployments = deployments
        self._sets = sets
        self._pods = members
        self._recorder = recorder
        self._clock = clock

    async def reconcile(self, key: str) -> Outcome:
        deployment = self._deployments.by_key(key)
        if deployment is None:
            return Done()
        mine = await controller_refs.gather(
            deployment,
            self._sets,
            selectors.from_object(deployment.spec.selector),
            still_there=partial(self._deployments.fetch, deployment),
        )
        family = rollouts.family(deployment, mine)
        if deployment.metadata.deleting:
            return await self._tell(family, rolling_out=False)
        family = await self._note_pause(family)
        if deployment.spec.paused or rollouts.was_resized(family):
            family = await self._number(family)
            family = await self._resize(family, rollouts.proportional(family))
            if deployment.spec.paused:
                await self._forget_old(family)
            return await self._tell(family, rolling_out=False)
        if deployment.spec.strategy.type == rollouts.RECREATE:
            family = await self._recreate(family)
        else:
            family = await self._ensure_new(family)
            family = await self._resize(family, rollouts.rolling(family))
        if progress.is_complete(family.deployment, progress.counts(family)):
            await self._forget_old(family)
        return await self._tell(family, rolling_out=True)

    # Steps.

    async def _recreate(self, family: Family) -> Family:
        """All old pods go before the first new one comes: two of them may not share what they work on."""
        if any(each.spec.replicas for each in family.old):
            return await self._resize(family, {each.metadata.name: 0 for each in family.old})
        if self._old_pods(family):
            return family
        family = await self._ensure_new(family)
        assert family.new is not None
        return await self._resize(family, {family.new.metadata.name: family.deployment.spec.replicas})

    def _old_pods(self, family: Family) -> bool:
        ended = (pods.SUCCEEDED, pods.FAILED)
        return any(
            each.status.get("replicas", 0)
            or any(pod.status.phase not in ended for pod in self._pods.find("owner", each.metadata.uid))
            for each in family.old
        )

    async def _ensure_new(self, family: Family) -> Family:
        """There is a set for the present template, with the highest number of all."""
        if family.new is not None:
            return await self._number(family)
        deployment = family.deployment
        collisions = deployment.status.get("collisionCount", 0)
        mark = templates.fingerprint(deployment.spec.template, collisions)
        revision = rollouts.next_revision(family.old)
        body = _new_set(family, mark, revision)
        name = body["metadata"]["name"]
        try:
            made = await self._sets.create(body)
        except errors.AlreadyExists:
            # Either ours, and not seen yet, or a stranger with our name: then another name is needed.
            await self._count_collision(family, name)
            raise
        except errors.ApiError as error:
            if not cached_objects.namespace_ends(error):
                await self._tell_failure(family, name, error)
            raise
        if made.spec.replicas:
            self._recorder.event(
                deployment, "ScalingReplicaSet", f"scaled up replica set {name} from 0 to {made.spec.replicas}"
            )
        family = Family(deployment=deployment, new=made, old=family.old)
        return await self._condition(
            family, "True", progress.NEW_SET_CREATED, f"created ReplicaSet {name}", revision=revision
        )

    async def _number(self, family: Family) -> Family:
        """The set of the present template has the highest number, and what its Deployment hands down to it."""
        new, deployment = family.new, family.deployment
        if new is None:
            return family
        revision = rollouts.next_revision(family.old)
        wanted = rollouts.inherited_annotations(deployment, revision, new.metadata.annotations)
        missing = {key: value for key, value in wanted.items() if new.metadata.annotations.get(key) != value}
        patch: dict[str, Any] = {"metadata": {"uid": new.metadata.uid, "annotations": missing}} if missing else {}
        if new.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
            patch["spec"] = {"minReadySeconds": deployment.spec.min_ready_seconds}
        if patch:
            new = await self._sets.patch(new, patch)
            family = Family(deployment=deployment, new=new, old=family.old)
        known = statuses.find(deployment.status.get("conditions", ()), "Progressing")
        number = rollouts.revision_of(new)
        if known is None:
            found = f"found ReplicaSet {new.metadata.name}"
            return await self._condition(family, "True", progress.NEW_SET_FOUND, found, revision=number)
        if rollouts.revision_of(deployment) != number:
            return await self._save(family, dict(deployment.status), revision=number)
        return family

    async def _resize(self, family: Family, sizes: Sizes) -> Family:
        """Write new sizes, each with what the set must remember of the size of the whole."""
        changed: dict[str, ReplicaSet] = {}
        remembered = rollouts.memory(family.deployment)
        for each in family.everyone:
            size = sizes.get(each.metadata.name)
            if size is None:
                continue
            outdated = any(each.metadata.annotations.get(key) != value for key, value in remembered.items())
            before = each.spec.replicas
            if size == before and not outdated:
                continue
            meta = {
                "uid": each.metadata.uid,
                "resourceVersion": each.metadata.resource_version,
                "annotations": remembered,
            }
            changed[each.metadata.name] = await self._sets.patch(each, {"metadata": meta, "spec": {"replicas": size}})
            if size != before:
                way = "up" if size > before else "down"
                message = f"scaled {way} replica set {each.metadata.name} from {before} to {size}"
                self._recorder.event(family.deployment, "ScalingReplicaSet", message)
        if not changed:
            return family
        new = family.new
        return Family(
            deployment=family.deployment,
            new=changed.get(new.metadata.name, new) if new is not None else None,
            old=[changed.get(each.metadata.name, each) for each in family.old],
        )

    async def _forget_old(self, family: Family) -> None:
        """Delete the oldest sets that nobody would want to go back to."""
        limit = family.deployment.spec.revision_history_limit
        old = sorted(
            (each for each in family.old if not each.metadata.deleting),
            key=lambda each: (rollouts.revision_of(each), each.metadata.creation_timestamp or ""),
        )
        for each in old[: max(0, len(old) - limit)]:
            seen = each.status.get("observedGeneration", 0) >= each.metadata.generation
            if seen and not each.spec.replicas and not each.status.get("replicas", 0):
                await self._sets.delete(each, propagation="Background")

    # Telling.

    async def _note_pause(self, family: Family) -> Family:
        """A pause stops the clock of the deadline; going on starts it anew."""
        deployment = family.deployment
        known = statuses.find(deployment.status.get("conditions", ()), "Progressing") or {}
        paused = known.get("reason") == progress.PAUSED
        if known.get("reason") == progress.TIMED_OUT or deployment.spec.paused == paused:
            return family
        if deployment.spec.paused:
            return await self._condition(family, "Unknown", progress.PAUSED, "the Deployment is paused")
        return await self._condition(family, "Unknown", progress.RESUMED, "the Deployment goes on")

    async def _condition(self, family: Family, value: str, reason: str, message: str, *, revision: int = 0) -> Family:
        status = dict(family.deployment.status)
        if progress.has_deadline(family.deployment):
            status = progress.with_condition(status, "Progressing", value, reason, message, self._clock.now())
        return await self._save(family, status, revision=revision)

    async def _save(self, family: Family, status: dict[str, Any], *, revision: int = 0) -> Family:
        marks = {rollouts.REVISION: str(revision)} if revision else None
        began = family.deployment
        saved = await statuses.write(began, status, to=self._deployments, annotations=marks)
        # What is wanted may have changed meanwhile: this pass goes on with what it began with, the next one sees that.
        meta = replace(saved.metadata, generation=began.metadata.generation)
        return Family(deployment=replace(saved, spec=began.spec, metadata=meta), new=family.new, old=family.old)

    async def _tell(self, family: Family, *, rolling_out: bool) -> Outcome:
        now = self._clock.now()
        if rolling_out:
            said = progress.of_rollout(family, now)
        else:
            said = progress.Said(progress.availability(family, progress.counts(family), now))
        await statuses.write(family.deployment, said.status, to=self._deployments)
        return Done() if said.again is None else LookAgain(after=said.again)

    async def _tell_failure(self, family: Family, name: str, error: errors.ApiError) -> None:
        message = f"cannot create ReplicaSet {name}: {error.message}"
        await self._condition(family, "False", progress.CREATE_FAILED, message)
        self._recorder.event(family.deployment, progress.CREATE_FAILED, message, warning=True)

    async def _count_collision(self, family: Family, name: str) -> None:
        known = self._sets.get(name, family.deployment.metadata.namespace)
        if known is None or controller_refs.controls(family.deployment, known):
            return
        status = dict(family.deployment.status)
        await self._save(family, {**status, "collisionCount": status.get("collisionCount", 0) + 1})


def _new_set(family: Family, mark: str, revision: int) -> Object:
    deployment = family.deployment
    template = deployment.spec.template
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), templates.TEMPLATE_HASH: mark}
    selector = dict(deployment.spec.selector)
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), templates.TEMPLATE_HASH: mark}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": templates.named(deployment.metadata.name, mark),
            "namespace": deployment.metadata.namespace,
            "labels": labels,
            "annotations": {
                **rollouts.inherited_annotations(deployment, revision, {}),
                **rollouts.memory(deployment),
            },
            "ownerReferences": [controller_refs.reference(deployment)],
        },
        "spec": {
            "replicas": rollouts.first_size(family),
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": selector,
            "template": {**template, "metadata": {**metadata, "labels": labels}},
        },
    }
