"""The CustomResourceDefinitions of localpv, generated from the structs in `api/kinds`.

`schema` turns a struct into a structural schema, `definitions` adds the rest of a definition, a module for each kind
has the columns of its table, and tools/generate_crds.py writes the YAML files in this folder. Programs install those
files (`load`): building a definition reads the source of the structs, which an installation need not have.
"""

from __future__ import annotations

from importlib import resources

from localpv.api import yamls
from localpv.api.objects import Object

NAMES = ("localdisks", "localstorages", "localstoragenodes", "localpools", "poolvolumes", "poolsnapshots")
"""The definitions there are; each is the file NAME.yaml in this folder."""


def text(name: str) -> str:
    """A definition as YAML, as `kubectl apply -f` takes it."""
    return resources.files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def load(name: str) -> Object:
    """A definition as an object."""
    loaded: Object = yamls.load(text(name))
    return loaded
