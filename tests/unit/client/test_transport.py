"""Answers to errors, and asking again when the server says when."""

from __future__ import annotations

import asyncio

import pytest

from localpv import errors
from localpv.client.transport import Answer, Request, Retrying, error_of
from localpv.testing.api import FakeApi
from localpv.testing.clock import FakeClock

BUSY = Answer(code=429, body=b"{}", headers={"retry-after": "2"})
DOWN = Answer(code=503, body=b"{}", headers={"retry-after": "1"})
FOUND = Request(method="GET", path="/api/v1/nodes")


def test_status_becomes_the_error_it_means() -> None:
    body = b'{"kind":"Status","reason":"AlreadyExists","message":"there","code":409,"details":{"name":"x"}}'
    error = error_of(Answer(code=409, body=body))
    assert isinstance(error, errors.AlreadyExists)
    assert (error.message, error.details) == ("there", {"name": "x"})


def test_expired_list_keeps_the_token_to_go_on_with() -> None:
    body = b'{"reason":"Expired","message":"old","metadata":{"continue":"token"}}'
    error = error_of(Answer(code=410, body=body))
    assert isinstance(error, errors.Gone)
    assert error.list_metadata == {"continue": "token"}


@pytest.mark.parametrize(
    ("code", "kind"), [(502, errors.InternalError), (404, errors.NotFound), (401, errors.Unauthorized)]
)
def test_answer_of_a_proxy_is_told_by_its_code(code: int, kind: type[errors.ApiError]) -> None:
    error = error_of(Answer(code=code, body=b"<html>Bad</html>"))
    assert isinstance(error, kind)
    assert "<html>Bad</html>" in error.message


async def test_busy_server_is_asked_again_when_it_said_so() -> None:
    api, clock = FakeApi(), FakeClock()
    api.failures = [BUSY, DOWN]
    asking = asyncio.create_task(Retrying(api, clock=clock).request(FOUND))
    await clock.advance(1.9)
    assert len(api.requests) == 1
    await clock.advance(0.1)
    assert len(api.requests) == 2
    await clock.advance(1)
    assert (await asking).code == 200


async def test_server_that_stays_busy_is_not_asked_for_ever() -> None:
    api, clock = FakeApi(), FakeClock()
    api.failures = [BUSY] * 100
    asking = asyncio.create_task(Retrying(api, clock=clock).request(FOUND))
    await clock.advance(60)
    assert (await asking).code == 429
    assert len(api.requests) == Retrying.MOST_TRIES


@pytest.mark.parametrize(
    "answer",
    [
        Answer(code=503, body=b"{}"),
        Answer(code=429, body=b"{}", headers={"retry-after": "Wed, 21 Oct 2030 07:28:00 GMT"}),
        Answer(code=429, body=b"{}", headers={"retry-after": "3600"}),
        Answer(code=500, body=b"{}", headers={"retry-after": "1"}),
    ],
)
async def test_other_refusals_reach_the_caller_at_once(answer: Answer) -> None:
    api = FakeApi()
    api.failures = [answer]
    assert await Retrying(api, clock=FakeClock()).request(FOUND) == answer
