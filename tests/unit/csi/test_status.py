"""Codes, messages and time limits as headers say them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpv.csi import status
from localpv.csi.status import Code


@given(st.sampled_from([code for code in Code if code]), st.text(st.characters(codec="utf-8"), max_size=200))
def test_an_error_comes_over_as_it_was(code: Code, message: str) -> None:
    headers = dict(status.trailers(code, message))
    assert all(value.isascii() and value.isprintable() for value in headers.values())
    error = status.error_of(headers)
    assert error is not None
    assert (error.code, error.message) == (code, message)


def test_a_message_is_written_as_grpc_says() -> None:
    assert dict(status.trailers(Code.NOT_FOUND, "100 % weg: ä\n"))["grpc-message"] == "100 %25 weg: %C3%A4%0A"


def test_a_long_message_is_cut() -> None:
    assert len(dict(status.trailers(Code.INTERNAL, "x" * 10_000))["grpc-message"]) == status.MAX_MESSAGE


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({":status": "200", "grpc-status": "5"}, Code.NOT_FOUND),
        ({":status": "200", "grpc-status": "77"}, Code.UNKNOWN),
        ({":status": "200", "grpc-status": "9" * 5000}, Code.UNKNOWN),
        ({":status": "200", "grpc-status": "²"}, Code.UNKNOWN),
        ({":status": "200"}, Code.INTERNAL),
        ({":status": "404"}, Code.UNIMPLEMENTED),
        ({":status": "503"}, Code.UNAVAILABLE),
        ({":status": "418"}, Code.UNKNOWN),
    ],
)
def test_what_headers_say_becomes_a_code(headers: dict[str, str], code: Code) -> None:
    error = status.error_of(headers)
    assert error is not None
    assert error.code is code


def test_ok_is_no_error() -> None:
    assert status.error_of({"grpc-status": "0"}) is None


@pytest.mark.parametrize(
    ("written", "seconds"), [("1S", 1), ("250m", 0.25), ("2M", 120), ("1H", 3600), ("5000u", 0.005), ("1000000n", 1e-3)]
)
def test_a_time_limit_is_read(written: str, seconds: float) -> None:
    assert status.read_timeout(written) == pytest.approx(seconds)


@pytest.mark.parametrize("written", ["", "1", "S", "-1S", "123456789S", "1s", "1S ", "1.5S", "\u0661S"])
def test_what_is_no_time_limit_is_not_taken_for_one(written: str) -> None:
    assert status.read_timeout(written) is None


@given(st.floats(0, 1e12))
def test_a_time_limit_is_written_in_eight_digits(seconds: float) -> None:
    written = status.write_timeout(seconds)
    assert len(written) <= 9
    back = status.read_timeout(written)
    assert back is not None
    assert back == pytest.approx(min(seconds, 99999999), rel=1e-3, abs=1e-6)
