"""Which volume modes of a volume and a claim go together: those that are left out are Filesystem."""

import pytest

each_pair = pytest.mark.parametrize(
    ("of_volume", "of_claim", "binds"),
    [
        (None, None, True),
        (None, "Block", False),
        (None, "Filesystem", True),
        ("Block", None, False),
        ("Block", "Block", True),
        ("Block", "Filesystem", False),
        ("Filesystem", "Filesystem", True),
        ("Filesystem", "Block", False),
        ("Filesystem", None, True),
    ],
)
