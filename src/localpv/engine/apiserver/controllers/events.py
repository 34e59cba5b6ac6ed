"""Events are news, not records: they go after an hour, as on Kubernetes."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import datetime

from localpv.api.objects import Object
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.registry import Kinds
from localpv.engine.apiserver.storage import Storage, decode
from localpv.engine.apiserver.verbs.delete import Deletion, delete_object
from localpv.engine.store.store import Store
from localpv.errors import LocalpvError
from localpv.runtime.turns import Turn

log = logging.getLogger(__name__)

LIFE = 3600.0
"""Seconds that an event is kept after it last happened."""

LOOK_EVERY = 60.0


async def forget_old_events(*, store: Store, kinds: Kinds, storage: Storage) -> None:
    kind = kinds.stored_in("events")
    assert kind is not None
    while True:
        await asyncio.sleep(LOOK_EVERY)
        try:
            turn = Turn()
            for _, row in list(store.table("events").scan()):
                await turn.over()
                event = decode(row.value)
                if last_seen(event) < time.time() - LIFE:
                    metadata = event["metadata"]
                    call = Call(kind=kind, namespace=metadata.get("namespace", ""), name=metadata["name"])
                    await delete_object(call, Deletion(uid=metadata["uid"]), storage=storage)
        except LocalpvError as error:
            log.info("will try again task=old-events error=%s", error)


def last_seen(event: Object) -> float:
    """When it last happened, in seconds since 1970."""
    series = event.get("series") or {}
    for text in (
        series.get("lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        event["metadata"]["creationTimestamp"],
    ):
        if text:
            return datetime.fromisoformat(text).timestamp()
    return 0.0
