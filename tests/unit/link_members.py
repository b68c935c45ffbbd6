"""Members that were greeted, over channels without a socket, and pools of them that nobody watches."""

from types import SimpleNamespace
from typing import Any

from orchestrator.member import Member
from orchestrator.pool import Pool
from outrider.errors import OutriderError
from outrider.status import to_status
from outrider.wire import ReplicaFacts
from tests.unit.test_clients import FACTS, Answer, FakeChannel
from tests.unit.test_status import as_received


async def ready(answer: Answer, address: str = "host:1", facts: ReplicaFacts = FACTS) -> tuple[Member, FakeChannel]:
    """A member that has been greeted, and its channel."""

    async def ask(channel: Any) -> Any:
        return facts

    channel: Any = FakeChannel(answer)
    member = Member(address, ask, lambda facts: "")
    line: Any = SimpleNamespace(channel=channel)
    member.line = line
    await member.handshake()
    return member, channel


def pool_of(*members: Member) -> Pool:
    """A pool that is watched by nobody."""
    pool = Pool(lambda address: members[0])
    for member in members:
        pool.add(member)
    return pool


def raising(error: OutriderError) -> Answer:
    return lambda request: as_received(to_status(error))
