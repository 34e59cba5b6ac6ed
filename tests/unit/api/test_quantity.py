"""Quantities are exact, ordered by amount, and stored in one form. The pairs here are what kube-apiserver stores."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from localpv.api.quantity import Format, Quantity, canonical

SUFFIXES = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "k": Fraction(10**3),
    "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50),
    "e3": Fraction(10**3), "e-3": Fraction(1, 1000), "E5": Fraction(10**5), "e0": Fraction(1),
}  # fmt: skip


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("1", "1"), ("0", "0"), ("00", "0"), ("-0", "0"), ("0Gi", "0"), ("1000", "1k"), ("1024", "1024"),
        ("1024Mi", "1Gi"), ("2048Ki", "2Mi"), ("1025Ki", "1025Ki"), ("12Ki", "12Ki"), ("8Ki", "8Ki"), ("10Gi", "10Gi"),
        ("0.5Gi", "512Mi"), ("1.5Gi", "1536Mi"), ("1.1Gi", "1181116006400m"), ("0.1Ki", "102400m"), ("1.0Ki", "1Ki"),
        ("0.5", "500m"), (".5", "500m"), ("1.50", "1500m"), ("1.5k", "1500"), ("1000m", "1"), ("100m", "100m"),
        ("1000n", "1u"), ("0.1n", "1n"), ("0.0000000001", "1n"), ("1.2345678912345", "1234567892n"), ("-0.1n", "-1n"),
        ("1e3", "1e3"), ("1E3", "1E3"), ("1e2", "100"), ("120e2", "12e3"), ("1.5e3", "1500"), ("1e-10", "1e-9"),
        ("1e19", "10e18"), ("1E", "1E"), ("100000000000000000000", "100E"), ("9223372036854775808",) * 2,
        ("7Ei", "7Ei"), ("8Ei", "9223372036854775807"), ("100Ei", "9223372036854775807"), ("-2048Ki", "-2Mi"),
        ("1000000000000Ki", "976562500Mi"), ("1023.5Ki", "1048064"), (" 1Gi ", "1Gi"),
    ],
)  # fmt: skip
def test_quantities_are_stored_in_their_canonical_form(written: str, stored: str) -> None:
    assert canonical(written) == stored


@pytest.mark.parametrize("written", ["1.500", "+1", "01", "5.", "1e+3", "3e0", "+3Ki"])
def test_unusual_spellings_that_kubernetes_keeps_are_kept(written: str) -> None:
    assert canonical(written) == written


@pytest.mark.parametrize(
    ("number", "stored"),
    [(5, "5"), (1000, "1k"), (0, "0"), (0.5, "500m"), (1.1, "1100m"), (-3, "-3"), (1e30, "1e30"), (2.0, "2")],
)
def test_json_numbers_are_quantities_too(number: int | float, stored: str) -> None:
    assert canonical(number) == stored


@pytest.mark.parametrize(
    "text", ["", " ", ".", "Ki", "e3", "+", "abc", "1K", "1GB", "1ki", "1e", "1e+", "1e3k", "1..2", "1.2.3", "--1",
             "1 Gi", "१", "1e3.5", "1" * 1001],
)  # fmt: skip
def test_other_text_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        Quantity.parse(text)


def test_the_refusal_names_the_suffix_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match='"GB" is no suffix'):
        Quantity.parse("10GB")


@pytest.mark.parametrize("value", [True, float("inf"), float("nan")])
def test_numbers_that_are_no_amounts_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        Quantity.parse(value)


@pytest.mark.parametrize("text", ["1e1001", "1e999999999", "1e99999999999999999999"])
def test_an_exponent_that_would_keep_the_server_busy_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="exponent"):
        Quantity.parse(text)


def test_tiny_amounts_are_never_nothing() -> None:
    assert Quantity.parse("1e-9999999").nanos == 1
    assert Quantity.parse("1n").value == 1
    assert Quantity.parse("1n").milli_value == 1


def test_values_are_rounded_up() -> None:
    assert Quantity.parse("1.1Gi").value == 1181116007
    assert Quantity.parse("1500m").value == 2
    assert Quantity.parse("1500u").milli_value == 2
    assert Quantity.parse("-0.5").value == -1


def test_numbers_beyond_the_last_suffix_keep_their_amount() -> None:
    assert canonical("1000E") == "1e21"
    assert Quantity.parse("1e21") == Quantity.parse("1000E")


def test_sums_keep_the_way_of_writing() -> None:
    assert str(Quantity.parse("1Gi") + Quantity.parse("1Gi")) == "2Gi"
    assert str(Quantity.parse("0") + Quantity.parse("1Gi")) == "1Gi"
    assert str(Quantity.parse("1Gi") - Quantity.parse("512Mi")) == "512Mi"
    assert str(-Quantity.parse("1Gi")) == "-1Gi"
    assert not Quantity.parse("1Gi") - Quantity.parse("1Gi")


written = st.builds(
    lambda sign, whole, fraction, suffix: (sign + whole + (f".{fraction}" if fraction else "") + suffix, suffix),
    st.sampled_from(["", "-", "+"]),
    st.text("0123456789", min_size=1, max_size=6),
    st.text("0123456789", max_size=6),
    st.sampled_from(sorted(SUFFIXES)),
)


def exact(text: str, suffix: str) -> Fraction:
    return Fraction(text.removesuffix(suffix) if suffix else text) * SUFFIXES[suffix]


def is_exact(text: str, suffix: str) -> bool:
    return abs(exact(text, suffix)) < 2**63 and (exact(text, suffix) * 10**9).denominator == 1


@given(written.filter(lambda w: is_exact(*w)), written.filter(lambda w: is_exact(*w)))
@example(("1Gi", "Gi"), ("1.073741824e3", "e3"))
def test_order_and_sum_agree_with_exact_arithmetic(a: tuple[str, str], b: tuple[str, str]) -> None:
    x, y = Quantity.parse(a[0]), Quantity.parse(b[0])
    assert (x < y, x == y, x > y) == (exact(*a) < exact(*b), exact(*a) == exact(*b), exact(*a) > exact(*b))
    assert Fraction((x + y).nanos, 10**9) == exact(*a) + exact(*b)
    assert (x <= y, x >= y) == (exact(*a) <= exact(*b), exact(*a) >= exact(*b))
    assert (hash(x) == hash(y)) or x != y


@given(written)
def test_the_canonical_form_is_equal_in_value_and_final(value: tuple[str, str]) -> None:
    text, _ = value
    stored = canonical(text)
    assert Quantity.parse(stored) == Quantity.parse(text)
    assert canonical(stored) == stored


@given(st.integers(-(10**40), 10**40), st.sampled_from(Format))
def test_what_is_written_can_be_read_again(nanos: int, form: Format) -> None:
    quantity = Quantity(nanos, form)
    if form is not Format.BINARY or abs(quantity.value) < 2**63:
        assert Quantity.parse(str(quantity)) == quantity


@given(st.text(max_size=12))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except ValueError as error:
        assert "quantity" in str(error)
    else:
        assert Quantity.parse(str(quantity)) == quantity
