"""What requests and answers are written in, as their Content-Type says it."""

from __future__ import annotations

from typing import Final

JSON: Final = "application/json"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The text that Prometheus reads."""
