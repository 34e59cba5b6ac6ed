"""The live view of `localpv up` on a terminal: volumes, claims, pods and the latest events, as they change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from localpv.api.objects import Object
from localpv.client.client import Client
from localpv.engine.apiserver import tables
from localpv.engine.apiserver.registry import Kind
from localpv.engine.apiserver.server import ApiServer

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable

REFRESH = 0.5
"""Seconds between two looks; a look costs a few short lists from memory."""

EVENTS_SHOWN = 5
VOLUMES_SHOWN = 15


async def show(client: Client, server: ApiServer, *, hints: Sequence[str]) -> None:
    """Draw until cancelled."""
    from rich.live import Live

    began = time.monotonic()
    with Live(refresh_per_second=4, transient=False) as screen:
        while True:
            screen.update(await _picture(client, server, time.monotonic() - began, hints))
            await asyncio.sleep(REFRESH)


async def _picture(client: Client, server: ApiServer, seconds: float, hints: Sequence[str]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    volumes = _kind(server, "v1", "PersistentVolume")
    claims = _kind(server, "v1", "PersistentVolumeClaim")
    pods = _kind(server, "v1", "Pod")
    events = _kind(server, "v1", "Event")
    head = Text.assemble(
        ("localpv ", "bold"),
        f"{server.url}   up {int(seconds)} s   revision {server.store.revision}   Ctrl-C stops",
    )
    parts: list[RenderableType] = [head]
    parts.append(_table("Volumes", volumes, await _items(client, volumes), VOLUMES_SHOWN))
    parts.append(_table("Claims", claims, await _items(client, claims), VOLUMES_SHOWN))
    parts.append(_table("Pods", pods, await _items(client, pods), VOLUMES_SHOWN))
    latest = await _items(client, events)
    if latest:
        latest.sort(key=lambda event: str(event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]))
        parts.append(_table("Latest events", events, latest[-EVENTS_SHOWN:], EVENTS_SHOWN))
    commands = "\n".join(f"  {line}" for line in hints)
    parts.append(Text(f"\nIn another terminal:\n  export KUBECONFIG={server.kubeconfig}\n{commands}", style="dim"))
    return Group(*parts)


def _kind(server: ApiServer, api_version: str, name: str) -> Kind:
    kind = server.kinds.by_kind(api_version, name)
    assert kind is not None
    return kind


async def _items(client: Client, kind: Kind) -> list[Object]:
    return (await client.untyped(kind.resource).list()).items


def _table(title: str, kind: Kind, objects: list[Object], most: int) -> RichTable:
    from rich.table import Table

    columns = tables.columns(kind)
    shown = [index for index, column in enumerate(columns) if not column.get("priority")]
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for index in shown:
        table.add_column(str(columns[index]["name"]).upper(), no_wrap=True)
    for obj in objects[:most]:
        cells = tables.cells(kind, obj)
        table.add_row(*(str(cells[index]) for index in shown))
    if len(objects) > most:
        table.caption = f"and {len(objects) - most} more"
    if not objects:
        table.add_row("none")
    return table
