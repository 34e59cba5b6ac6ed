"""Namespaces of the tests and the paths inside them."""

from __future__ import annotations

from dataclasses import dataclass

CORE = "/api/v1"


@dataclass(frozen=True, slots=True)
class Space:
    """One namespace, and how to address what is in it."""

    name: str

    def core(self, *parts: str) -> str:
        """A path of core/v1, for example core("pods", name, "status")."""
        return "/".join((CORE, "namespaces", self.name, *parts))

    def of(self, group_version: str, *parts: str) -> str:
        """A path of another group, for example of("apps/v1", "deployments", name)."""
        return "/".join(("/apis", group_version, "namespaces", self.name, *parts))
