"""Every answer keeps browsers in bounds, and one that listens for this machine alone answers to no other name."""

import pytest
from starlette.responses import PlainTextResponse

from orchestrator.web.guard import HEADERS, Guard, is_loopback
from tests.unit.web.asgi import Client


async def ask(host: str, local: bool = True) -> Client:
    return await Client(headers={"host": host}).ask(Guard(PlainTextResponse("inside"), local))


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:50080", "127.0.0.1:50080", "127.0.0.9", "[::1]:50080", "[::1]"]
)
async def test_this_machine_s_own_names_lead_in(host: str) -> None:
    assert (await ask(host)).text == "inside"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:50080", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "["],
)
async def test_any_other_name_does_not(host: str) -> None:
    """It may be somebody else's, who has it resolve to this machine."""
    client = await ask(host)
    assert 400 <= client.status < 500
    assert "localhost only" in client.error["message"]


async def test_what_listens_for_others_answers_to_any_name() -> None:
    assert (await ask("outrider.example", local=False)).text == "inside"


@pytest.mark.parametrize("host", ["localhost", "evil.example"])
async def test_the_headers_are_on_every_answer(host: str) -> None:
    got = (await ask(host)).got
    assert {name: got[name.lower()] for name in HEADERS} == HEADERS
    assert not [name for name in got if name.startswith("access-control-")]


def test_the_policy_allows_nothing_from_elsewhere_and_nothing_inline() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert not [word for word in ("unsafe", "http:", "https:", "*", "data:", "blob:") if word in policy]


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False), ("node-7", False)],
)
def test_which_hosts_are_this_machine_alone(host: str, local: bool) -> None:
    assert is_loopback(host) is local
