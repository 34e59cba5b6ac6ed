"""Classes from two sources: those of the ConfigMap, and those of LocalStorages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from localpv.config import overlaps
from localpv.config.reading import Loaded
from localpv.config.settings import ClassSettings, Configuration
from localpv.config.values import Problem


def united(
    configuration: Configuration, classes: Mapping[str, ClassSettings], others: Iterable[Problem] = ()
) -> Loaded:
    """A configuration with the classes of LocalStorages in it, and what cannot be taken over of those.

    The ConfigMap wins: it is read by the agents of all nodes, and what it says was in force before. A class of a
    LocalStorage that it has too, or whose directory it has in another class, is left out as a whole.
    """
    problems = list(others)
    taken: dict[str, ClassSettings] = {}
    for name, settings in sorted(classes.items()):
        if name in configuration.classes:
            problems.append(Problem(f"LocalStorage class {name}", f"storageClassMap.{name} has this class already"))
        elif clash := next(_clashes(configuration, settings), None):
            problems.append(Problem(f"LocalStorage class {name}", clash.message))
        else:
            taken[name] = settings
    made = replace(configuration, classes={**configuration.classes, **taken}) if taken else configuration
    return Loaded(made, tuple(problems))


def _clashes(configuration: Configuration, settings: ClassSettings) -> Iterator[Problem]:
    return (problem for each in configuration.classes.values() for problem in overlaps.problems((each, settings)))
