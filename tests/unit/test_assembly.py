"""What an answer is made with: room for it, what ends it, and how far it may speculate."""

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import INVALID_SPAN

from orchestrator.assembly import Assembly
from orchestrator.clients import draft_facts
from orchestrator.config import OrchestratorConfig
from orchestrator.conversations import Conversation
from orchestrator.member import Member
from orchestrator.pools import Pools
from orchestrator.request import Turn, read_turn
from orchestrator.session import Generation
from outrider.errors import InvalidArgument
from outrider.tokenizer import Tokenizer
from outrider.v1 import orchestrator_pb2 as pb
from outrider.wire import ReplicaFacts
from tests.unit.byte_tokenizers import byte_level, save

FACTS = ReplicaFacts(7, "m", "f", 200, (4,), 64, True, 4096, 8, max_run=64)
SMALL = ReplicaFacts(7, "m", "f", 200, (4,), 64, True, 32, 8)
OFF = pb.SPECULATION_MODE_OFF


@pytest.fixture
def assembly(tmp_path: Path) -> Assembly:
    tokenizer = Tokenizer.load(save(byte_level(), tmp_path))
    config = OrchestratorConfig(str(tmp_path), max_draft_tokens=6)
    return Assembly(config, Pools(tokenizer, 0.0), tokenizer, lambda: 3)


def turn(**fields: Any) -> Turn:
    request = pb.GenerateRequest(**{"token_ids": pb.TokenIds(ids=[1, 2]), "max_new_tokens": 500, **fields})
    return read_turn(request, OrchestratorConfig("folder"), 200, 8)


def made(assembly: Assembly, asked: Turn, facts: ReplicaFacts = FACTS, prompt: int = 10) -> Generation:
    conversation = Conversation("s")
    conversation.set_prompt([1] * prompt)
    generation, links = assembly.generation(asked, conversation, facts, INVALID_SPAN, None)
    for link in links:
        link.close()
    return generation


@pytest.mark.parametrize(("facts", "room"), [(FACTS, 64), (SMALL, 32)])
async def test_a_prompt_leaves_room_for_one_token_at_least(assembly: Assembly, facts: ReplicaFacts, room: int) -> None:
    fits, too_long = (turn(token_ids=pb.TokenIds(ids=[1] * count)) for count in (room - 1, room))
    assert len(await assembly.prompt(fits, Conversation("s"), facts)) == room - 1
    with pytest.raises(InvalidArgument, match=f"at most {room - 1} fit") as caught:
        await assembly.prompt(too_long, Conversation("s"), facts)
    assert caught.value.field == "token_ids"


@pytest.mark.parametrize(("facts", "most"), [(FACTS, 54), (SMALL, 22)])
def test_an_answer_ends_where_the_target_has_no_room(assembly: Assembly, facts: ReplicaFacts, most: int) -> None:
    assert made(assembly, turn(), facts).answer.remaining == most
    assert made(assembly, turn(max_new_tokens=5), facts).answer.remaining == 5


@pytest.mark.parametrize(
    ("fields", "ends"), [({}, {4}), ({"stop_token_ids": [9]}, {4, 9}), ({"ignore_eos": True}, set())]
)
def test_an_answer_ends_at_the_targets_and_the_requests_ids(
    assembly: Assembly, fields: dict[str, Any], ends: set[int]
) -> None:
    for token in (4, 9, 10):
        answer = made(assembly, turn(**fields)).answer
        answer.extend([token])
        assert (answer.finished is not None) is (token in ends)


def test_blocks_are_as_long_as_both_replicas_settings_and_the_request_allow(assembly: Assembly) -> None:
    off = made(assembly, turn(speculation=pb.Speculation(mode=OFF)))
    assert off.limits.max_draft_tokens == 0
    limits = made(assembly, turn()).limits
    assert (limits.max_draft_tokens, limits.answers()) == (6, 3)


def test_a_draft_is_expected_where_one_is_known(assembly: Assembly) -> None:
    assert not made(assembly, turn()).limits.draft_expected
    assembly.pools.drafts.add(Member("host:2", draft_facts, lambda facts: ""))
    assert made(assembly, turn()).limits.draft_expected


def test_prompts_of_a_tenant_that_begin_alike_go_to_one_replica(assembly: Assembly) -> None:
    """And short ones, which share nothing, anywhere."""

    def key(tokens: list[int], tenant: str = "") -> str:
        conversation = Conversation("an id", tenant)
        conversation.set_prompt(tokens)
        assembly.generation(turn(), conversation, FACTS, INVALID_SPAN, None)
        assert conversation.draft_place.key == conversation.target_place.key
        return conversation.target_place.key

    system = list(range(100))
    assert key([*system, 1]) == key([*system, 2]) != key([*system, 1], "another tenant")
    assert key([1, 2, 3]) == "an id"
