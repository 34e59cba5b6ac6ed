"""What a namespace on its way out tells stays short, whatever is in it, and keeps nothing from going."""

from __future__ import annotations

from collections import Counter

import pytest

from localpv.engine.apiserver.controllers.namespaces import _AS_WISHED, _Left

LONGEST = 32 << 10


@pytest.mark.parametrize("condition", list(_AS_WISHED))
def test_messages_are_short_however_much_is_left(condition: str) -> None:
    names = [f"{number}.example.com/{'x' * 1000}" for number in range(10_000)]
    left = _Left(
        counts=dict.fromkeys((f"{number}.example.com" for number in range(10_000)), 3),
        finalizers=Counter(names),
        failures=[name * 100 for name in names[:100]],
    )
    reason, message = left.trouble(condition) or ("", "")
    assert len(message) < LONGEST
    if reason.startswith("Some"):
        assert message.endswith(", and 9950 more")
