"""String formats, decided as kube-apiserver 1.35 decides them."""

from __future__ import annotations

import re

import pytest

from localpv.api.schema import formats

RIGHT = {
    "date-time": ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.123+02:00", "2024-01-01t00:00:00z"],
    "datetime": ["2024-01-01T00:00:00Z"],
    "date": ["2024-01-01"],
    "byte": ["YQ==", "YWI=", "YWJj"],
    "uuid": ["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6BA7B8109DAD11D180B400C04FD430C8"],
    "uuid4": ["6ba7b810-9dad-41d1-80b4-00c04fd430c8"],
    "ipv4": ["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"],
    "ipv6": ["::1", "::ffff:1.2.3.4"],
    "cidr": ["10.0.0.0/8", "10.0.0.1/8", "::/0", "01.2.3.4/8"],
    "mac": ["01:23:45:67:89:ab", "01-23-45-67-89-ab", "0123.4567.89AB"],
    "email": ["a@b", "a@b.c", "a <b@c>", "<a@b>"],
    "hostname": ["localhost", "A", "a-b.com", "a.b.co", "münchen.de", "x" * 63],
    "uri": ["http://x", "/x", "//x", "http://", "a:b", "urn:x", "http://x:80", "http://[::1]/", "mailto:a@b.c"],
    "duration": ["1h", "1h30m", "22 ns", "1 day", "P1D", "-1h", "1.5h", "2 weeks", "1d", "0"],
    "k8s-short-name": ["a", "a-1"],
    "k8s-long-name": ["a.b"],
    "bsonobjectid": ["507f1f77bcf86cd799439011"],
    "hexcolor": ["#fff", "a0B1c2"],
    "rgbcolor": ["rgb(1,2,3)"],
    "isbn": ["0321751043", "978-0321751041"],
    "creditcard": ["4111111111111111", "4111-1111-1111-1111"],
    "ssn": ["111-11-1111"],
}

WRONG = {
    "date-time": ["2024-01-01", "2024-01-01T00:00:00", "2024-01-01 00:00:00Z", "2024-01-01T24:00:00Z",
                  "2024-02-30T00:00:00Z"],
    "date": ["x", "2024-02-30", "2024-1-1"],
    "byte": ["!", "YQ", "Y", "", "YQ==\n"],
    "uuid": ["x"],
    "uuid4": ["6ba7b810-9dad-11d1-80b4-00c04fd430c8"],
    "ipv4": ["1.2.3", "::1"],
    "ipv6": ["1.2.3.4", "fe80::1%eth0", "1::2::3", ""],
    "cidr": ["10.0.0.0", "1.2.3.4/33", "1.2.3.4/", "::1/129"],
    "mac": ["x", "01:23:45:67:89", "01-23:45-67-89-ab"],
    "email": ["a", "a@b@c", "a@", "@b", "a b@c"],
    "hostname": ["a.b", "-a", "a_b", "x" * 64, "1.2.3.4", "a.", "my-host", "a..b", ".a", ""],
    "uri": ["x", "http://x y", "http://x:a", "", "%zz", "?x"],
    "duration": ["5", "", "1.5", "3 fortnights"],
    "k8s-short-name": ["A", "a.b", "-a", "a" * 64],
    "k8s-long-name": ["A", ""],
    "bsonobjectid": ["x"],
    "hexcolor": ["x"],
    "rgbcolor": ["x", "rgb(256,1,1)"],
    "isbn": ["x", "9780321751040"],
    "creditcard": ["x", "4111111111111112"],
    "ssn": ["x"],
}  # fmt: skip


def cases(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(name, text) for name, texts in table.items() for text in texts]


@pytest.mark.parametrize(("name", "text"), cases(RIGHT))
def test_what_has_the_format_is_right(name: str, text: str) -> None:
    check = formats.check_of(name)
    assert check is not None and check(text)


@pytest.mark.parametrize(("name", "text"), cases(WRONG))
def test_what_does_not_have_the_format_is_wrong(name: str, text: str) -> None:
    check = formats.check_of(name)
    assert check is not None and not check(text)


def test_a_format_that_kubernetes_does_not_know_is_never_wrong() -> None:
    assert formats.check_of("int32") is None
    assert formats.check_of("password") is None
    assert formats.check_of("") is None


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^a+$", "aaa"),
        ("b", "abc"),
        (r"^\d+\z", "12"),
        ("^[[:alpha:]_]+$", "ab_c"),
        ("^[]a]+$", "]a"),
        ("^[^]a]+$", "bc"),
        ("^[$]$", "$"),
        (r"^\$$", "$"),
        (r"^\Qa.b\E$", "a.b"),
        (r"^\x{41}$", "A"),
        ("^(?P<x>a)(?<y>b)$", "ab"),
        ("(?i)^abc$", "ABC"),
        ("^[a&&b~~|[]+$", "a&b~|["),
        ("^(a|b){2,3}?$", "ab"),
        (r"^[\w.-]+$", "a.b-c"),
    ],
)
def test_a_pattern_finds_what_go_finds(pattern: str, text: str) -> None:
    assert formats.found(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("^a$", "a\n"), (r"^\d$", "\u0663"), (r"^\w$", "ä"), (r"^\Qa.b\E$", "axb"), ("^[[:digit:]]$", "a")],
)
def test_a_pattern_does_not_find_more(pattern: str, text: str) -> None:
    assert not formats.found(pattern, text)


@pytest.mark.parametrize(("pattern", "text"), [(r"^\pL+$", "äa"), (r"^\p{Greek}$", "λ"), ("^[[:^digit:]]$", "a")])
def test_a_pattern_may_name_classes_of_characters(pattern: str, text: str) -> None:
    assert formats.found(pattern, text)
    assert not formats.found(pattern, "1")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "missing )"),
        ("[a", "missing ]"),
        ("(?=a)", "invalid perl operator"),
        ("(?<!a)b", "invalid"),
        (r"(a)\1", "invalid escape sequence"),
        ("a++", "bad repetition operator"),
        ("(?>a)", "invalid perl operator"),
        (r"\Z", "invalid escape sequence"),
        ("[[:nonsense:]]", "invalid character class range"),
        ("*a", "no argument for repetition operator"),
        (r"\x{110000}", "invalid escape sequence"),
        ("a{1001}", "invalid repetition size"),
    ],
)
def test_what_go_refuses_is_refused_in_the_words_of_re2(pattern: str, words: str) -> None:
    with pytest.raises(formats.UnusablePattern, match=re.escape(words)):
        formats.Effort().check(pattern)


def test_the_expressions_of_strangers_take_time_that_grows_with_the_text_alone() -> None:
    # A hundred thousand characters; twenty-six were enough for seconds before.
    assert not formats.found("^(a+)+$", "a" * 100_000 + "b")


def test_a_schema_cannot_have_patterns_that_take_long_to_compile_together() -> None:
    effort = formats.Effort()
    effort.check(r"\pL{250}")
    effort.check(r"\pL{250}")  # twice the same is compiled once
    effort.check(r"\pL{251}")
    effort.check(r"\pL{252}")
    with pytest.raises(formats.UnusablePattern, match="too large together"):
        effort.check("a")


def test_patterns_that_are_refused_count_as_well() -> None:
    effort = formats.Effort()
    for size in range(1001, 1007):
        with pytest.raises(formats.UnusablePattern, match="repetition"):
            effort.check(f"a{{{size}}}")
    with pytest.raises(formats.UnusablePattern, match="too large together"):
        effort.check("a")
