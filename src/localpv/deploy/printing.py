"""Objects as YAML for `kubectl apply -f -`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from localpv.api.objects import Object


def documents(objects: Iterable[Object]) -> str:
    """One document per object; texts of several lines stay readable, and nothing is abbreviated by references."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return yaml.dump_all(objects, Dumper=Dumper, sort_keys=False, width=120, explicit_start=True)
