"""A requirement counts only through what a program uses: the tool that `make check` asks tells when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

import unused

SOURCE = {
    "__main__.py": "from shop.cli import main\nmain.start()\n",
    "cli/__init__.py": "",
    "cli/main.py": "from shop import offers\n\ndef start():\n    return offers.Offer().price()\n",
    "offers.py": (
        "class Offer:\n    def price(self):\n        return _half(2)\n"
        "    def supports(self):\n        return _only_here()\n\n"
        "def _half(n):\n    return n\n\ndef _only_here():\n    return 1\n"
    ),
    "orphan.py": "def price():\n    return 3\n",
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = tmp_path / "src" / "shop"
    for name, text in SOURCE.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_what_only_unused_code_calls_is_unused_too(shop: Path) -> None:
    found = unused.unused(unused.read(shop, leaving_out=shop / "testing"))
    assert [one.full for one in found] == ["Offer.supports", "_only_here", "price"]


@pytest.mark.parametrize(
    ("base", "reading", "left"),
    [
        ("", "", ["Coin.worth"]),
        ("", "coin.worth = 2", ["Coin.worth"]),
        ("", "Coin(worth=2)", ["Coin.worth"]),
        ("", "coin.worth + 1", []),
        ("", "getattr(coin, 'worth')", []),
        ("", "match coin:\n    case Coin(worth=2): ...", []),
        ("", "match coin:\n    case Coin(2): ...", []),
        ("(msgspec.Struct)", "", ["Coin.worth"]),
        ("(msgspec.Struct)", "Coin(worth=2)", []),
        ("(Enum)", "", []),
    ],
)
def test_a_field_is_used_when_something_reads_or_sends_it(
    tmp_path: Path, base: str, reading: str, left: list[str]
) -> None:
    root = tmp_path / "src" / "bank"
    root.mkdir(parents=True)
    (root / "__main__.py").write_text(
        f"class Coin{base}:\n    worth: int = 1\n\ncoin = Coin()\nprint(coin)\n{reading}\n"
    )
    assert [one.full for one in unused.unused(unused.read(root))] == left


def test_a_module_that_no_program_imports_is_unused_whatever_its_names(shop: Path) -> None:
    (found,) = unused.unused_modules(shop, leaving_out=shop / "testing")
    assert (found.name, found.where) == ("shop.orphan", "src/shop/orphan.py")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("def test_it():\n    assert Offer().supports()\n", {"supports"}),
        (
            "def test_it():\n    helper()\n\ndef helper():\n    deeper()\n\ndef deeper():\n    x.supports()\n",
            {"supports"},
        ),
        ("from shop import orphan\n\ndef test_it():\n    orphan.price()\n", {"shop.orphan"}),
        ("def test_it():\n    orphan.price()\n", set()),
    ],
)
def test_a_test_that_carries_an_id_is_held_to_all_names_that_it_reaches(
    tmp_path: Path, body: str, named: set[str]
) -> None:
    path = tmp_path / "test_one.py"
    path.write_text(body.replace("def test_it", '@pytest.mark.seed("PLG-1")\ndef test_it'))
    ((test, ids, names),) = unused.marked_tests(path)
    assert (test, ids) == ("test_it", ["PLG-1"])
    assert names & {"supports", "shop.orphan"} == named
