"""What both pools do together: a session's caches are freed where it was, whether or not the replica is in use."""

from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator import pools as module
from orchestrator.member import Member, State
from orchestrator.pools import Pools
from outrider.errors import OutriderError, Unavailable

NO_TOKENIZER: Any = None


def member(address: str, state: State) -> Member:
    """One that has a channel, named like itself."""

    async def ask(channel: Any) -> Any:
        raise AssertionError("nobody asks")

    made = Member(address, ask, lambda facts: "", state=state)
    line: Any = SimpleNamespace(channel=address)
    made.line = line
    return made


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("error", [None, Unavailable("gone")])
async def test_caches_are_freed_where_they_are(
    state: State, error: OutriderError | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str, str]] = []

    async def release(channel: Any, session_id: str, tenant: str) -> None:
        told.append((channel, session_id, tenant))
        if error is not None:
            raise error

    monkeypatch.setattr(module, "release_target", release)
    monkeypatch.setattr(module, "release_draft", release)
    pools = Pools(NO_TOKENIZER, 1.0)
    pools.targets.add(member("target", State.READY))
    pools.drafts.add(member("draft", state))
    await pools.release("session", "tenant", "target", "draft")
    assert told == [("target", "session", "tenant"), ("draft", "session", "tenant")]
    await pools.release("session", "tenant", "elsewhere", "")
    assert len(told) == 2
