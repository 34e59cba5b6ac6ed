"""What a person is told about what lies on a disk."""

from __future__ import annotations

import pytest

from localpv.host.contents import BLANK, COUNTED, SHOWN, Contents, of_names


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        (BLANK, "it is empty"),
        (of_names([]), "it is empty"),
        (of_names(["b", "a"]), "it holds 'a', 'b'"),
        (of_names(["x" * 100]), "it holds '" + "x" * 59),
        (of_names(["new\nline"]), r"it holds 'new\nline'"),
        (of_names(str(number) for number in range(SHOWN + 1)), "and 1 more"),
        (of_names(str(number) for number in range(COUNTED - 1)), f"and {COUNTED - 1 - SHOWN} more"),
        (of_names(str(number) for number in range(COUNTED + 5)), f"and at least {COUNTED - SHOWN} more"),
        (Contents(data="partitions (sda1)"), "it holds partitions (sda1)"),
        (Contents(unknown="it hangs", data="x"), "whether it is empty cannot be told: it hangs"),
    ],
)
def test_contents_are_told_in_a_few_words(contents: Contents, said: str) -> None:
    assert str(contents).endswith(said)


def test_only_what_is_known_to_be_empty_is_blank() -> None:
    assert BLANK.blank and of_names([]).blank
    for contents in (of_names(["a"]), Contents(data="x"), Contents(unknown="x")):
        assert not contents.blank
