"""Look-alike strings with a type of their own."""

from __future__ import annotations

from typing import NewType

NodeName = NewType("NodeName", str)
VolumeName = NewType("VolumeName", str)
ClassName = NewType("ClassName", str)
