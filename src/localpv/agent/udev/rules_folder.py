"""Our files of rules on this node, all together: each holds the configuration that it was made from.

What stands in the files is the node's memory of what it was told. A file is changed by reading all of them, changing
the configurations, and generating all of them anew, since an older LocalStorage guards its devices in the files of
younger ones. That is done under one lock. Files without our mark are somebody else's and are left as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from localpv import errors
from localpv.agent.udev import lock, rules_file
from localpv.config.local_storage import NodeConfiguration, WrongConfiguration
from localpv.host.udev import Udev
from localpv.runtime.clock import Clock

log = logging.getLogger(__name__)

Configurations = Mapping[str, NodeConfiguration]
"""By NAMESPACE/NAME of the LocalStorage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """What the files say."""

    texts: Mapping[str, str] = field(default_factory=dict)
    """By name of the file, of those that carry our mark."""

    configurations: Configurations = field(default_factory=dict)
    strange: frozenset[str] = frozenset()
    """Names of files that are called like ours and are not, or that are those of another engine."""

    damaged: Mapping[str, str] = field(default_factory=dict)
    """Names of files with our mark whose configuration cannot be read, and why."""


class RulesFolder:
    """The folder of rules of the host, as far as it is ours."""

    def __init__(self, *, udev: Udev, state: Path, clock: Clock, namespace: str, engine: str = "") -> None:
        """`namespace` is the one whose LocalStorages have files without a namespace in their name; `engine` says whose
        files are ours."""
        self._udev, self._state, self._clock, self._namespace = udev, state, clock, namespace
        self._engine = engine

    async def read(self) -> Present:
        texts, configurations, strange, damaged = {}, {}, set(), {}
        for name, text in (await self._udev.files(rules_file.PREFIX)).items():
            if not rules_file.is_ours(text):
                strange.add(name)
                continue
            try:
                found = rules_file.configuration(text)
                if found.engine != self._engine:
                    strange.add(name)
                    continue
                texts[name] = text
            except WrongConfiguration as error:
                texts[name] = text
                damaged[name] = str(error)
                log.warning("a rules file of ours is damaged file=%s error=%s", name, error)
                continue
            configurations[found.key] = found
        return Present(texts=texts, configurations=configurations, strange=frozenset(strange), damaged=damaged)

    def name_of(self, configuration: NodeConfiguration) -> str:
        """The file of a LocalStorage."""
        return rules_file.file_name(configuration, namespace=self._namespace)

    async def change(self, change: Callable[[Present], Awaitable[Configurations]]) -> tuple[Configurations, bool]:
        """Let configurations of now become others; what they are then, and whether any file changed. What that depends
        on is asked by `change`, while nobody else changes anything."""
        async with lock.held(self._state, clock=self._clock):
            before = await self.read()
            after = {key: each for key, each in (await change(before)).items() if each.groups}
            wanted = rules_file.files([*after.values()], namespace=self._namespace)
            if foreign := sorted(wanted.keys() & before.strange):
                raise errors.ConfigurationError(
                    f"{foreign[0]} is in the folder of rules and was not written by localpv, or for another cluster",
                    hint="remove it, or give the LocalStorage another name",
                )
            changed = {name: text for name, text in wanted.items() if before.texts.get(name) != text}
            of_now = rules_file.files([*before.configurations.values()], namespace=self._namespace)
            gone = [name for name in before.texts if name in of_now and name not in wanted]
            # Younger files first: for a moment a device may be guarded twice, and never not at all.
            for name, text in changed.items():
                log.info("writes rules file=%s", name)
                await self._udev.write(name, text)
            for name in gone:
                log.info("removes rules file=%s", name)
                await self._udev.remove(name)
        return after, bool(changed or gone)
