"""Kept conversations: one answer at a time, dropped by age or number, each drop told once."""

import pytest

from orchestrator.conversations import Conversation, Conversations
from orchestrator.history import History
from outrider.errors import InvalidArgument, SessionBusy
from tests.unit.clock import Clock


def kept(most: int = 10, ttl_s: float = 60.0) -> tuple[Conversations, list[str]]:
    dropped: list[str] = []
    return Conversations(ttl_s, most, lambda gone: dropped.append(gone.session_id)), dropped


def keep_new(conversations: Conversations) -> Conversation:
    conversation = conversations.begin("")
    conversations.end(conversation, keep=True)
    return conversation


def test_an_empty_id_begins_a_new_conversation_with_its_own_id() -> None:
    conversations, _ = kept()
    ids = {conversations.begin("").session_id for _ in range(20)}
    assert len(ids) == 20
    assert all(len(session_id) == 32 for session_id in ids)


def test_a_kept_conversation_is_continued() -> None:
    conversations, dropped = kept()
    first = keep_new(conversations)
    assert conversations.begin(first.session_id) is first
    assert dropped == []


def test_a_conversation_that_is_not_kept_is_dropped_and_unknown_from_then_on() -> None:
    conversations, dropped = kept()
    conversation = conversations.begin("")
    conversations.end(conversation, keep=False)
    assert (dropped, len(conversations)) == ([conversation.session_id], 0)
    with pytest.raises(InvalidArgument, match="unknown or expired") as caught:
        conversations.begin(conversation.session_id)
    assert caught.value.field == "session_id"


def test_a_last_turn_drops_a_kept_conversation() -> None:
    conversations, dropped = kept()
    first = keep_new(conversations)
    conversations.end(conversations.begin(first.session_id), keep=False)
    assert (dropped, len(conversations)) == ([first.session_id], 0)


def test_a_second_answer_at_the_same_time_is_refused() -> None:
    conversations, _ = kept()
    first = keep_new(conversations)
    conversations.begin(first.session_id)
    with pytest.raises(SessionBusy):
        conversations.begin(first.session_id)


def test_conversations_expire_at_their_time_to_live(clock: Clock) -> None:
    conversations, dropped = kept(ttl_s=60.0)
    first = keep_new(conversations)
    clock.now += 59.9
    conversations.expire()
    assert dropped == []
    clock.now += 0.1
    conversations.expire()
    assert dropped == [first.session_id]


def test_an_expired_conversation_cannot_be_continued_even_before_the_sweep(clock: Clock) -> None:
    conversations, dropped = kept(ttl_s=60.0)
    first = keep_new(conversations)
    clock.now += 60.0
    with pytest.raises(InvalidArgument):
        conversations.begin(first.session_id)
    assert dropped == [first.session_id]


def test_a_busy_conversation_does_not_expire(clock: Clock) -> None:
    conversations, dropped = kept(ttl_s=60.0)
    first = keep_new(conversations)
    conversations.begin(first.session_id)
    clock.now += 1000.0
    conversations.expire()
    assert dropped == []


def test_more_than_the_most_drops_the_least_recently_used() -> None:
    conversations, dropped = kept(most=2)
    first, second = keep_new(conversations), keep_new(conversations)
    conversations.end(conversations.begin(first.session_id), keep=True)
    keep_new(conversations)
    assert (dropped, len(conversations)) == ([second.session_id], 2)


def test_a_busy_conversation_is_not_dropped_for_room() -> None:
    conversations, dropped = kept(most=1)
    first = keep_new(conversations)
    conversations.begin(first.session_id)
    second = keep_new(conversations)
    assert dropped == [second.session_id]


def test_a_new_prompt_keeps_the_beliefs_about_what_it_shares() -> None:
    conversation = Conversation("s")
    conversation.set_prompt([1, 2, 3, 4])
    conversation.draft_view.length, conversation.target_view.length = 2, 4
    conversation.set_prompt([1, 2, 3, 9, 9])
    assert conversation.log.tokens == [1, 2, 3, 9, 9]
    assert (conversation.draft_view.length, conversation.target_view.length) == (2, 3)


def test_going_back_to_a_shorter_history_cuts_the_beliefs() -> None:
    conversation = Conversation("s")
    conversation.set_prompt([1, 2, 3, 4])
    conversation.target_view.length = 4
    conversation.set_prompt([1, 2])
    assert (conversation.log.tokens, conversation.target_view.length) == ([1, 2], 2)


def test_a_conversation_goes_on_for_its_own_tenant_only() -> None:
    """Another tenant that learned the id hears what it would hear of any id that does not exist."""
    conversations, dropped = kept()
    first = conversations.begin("", "red")
    conversations.end(first, keep=True)
    for stranger in ("blue", ""):
        with pytest.raises(InvalidArgument, match="unknown or expired") as caught:
            conversations.begin(first.session_id, stranger)
        assert caught.value.field == "session_id"
    assert conversations.begin(first.session_id, "red") is first
    with pytest.raises(InvalidArgument, match="unknown or expired"):
        conversations.begin(first.session_id, "blue")
    assert dropped == []


ELSEWHERE = History((1, 2, 3, 4), [{"role": "user", "content": "hi"}], 3, "print")


def test_what_another_orchestrator_kept_is_continued_here() -> None:
    conversations, _ = kept()
    made = conversations.begin("s", "t", ELSEWHERE)
    assert (made.log.tokens, made.messages, made.turns) == ([1, 2, 3, 4], ELSEWHERE.messages, 3)
    assert made.history("print") == ELSEWHERE
    with pytest.raises(SessionBusy):
        conversations.begin("s", "t", ELSEWHERE)


@pytest.mark.parametrize(("turns", "tokens"), [(2, [1, 2, 3, 4]), (3, [1, 9]), (4, [1, 9])])
def test_of_two_accounts_the_one_with_more_turns_counts(turns: int, tokens: list[int]) -> None:
    conversations, _ = kept()
    mine = conversations.begin("")
    mine.set_prompt([1, 9])
    mine.turns, mine.target_view.length = turns, 2
    conversations.end(mine, keep=True)
    made = conversations.begin(mine.session_id, "", ELSEWHERE)
    assert made is mine
    assert made.log.tokens == tokens
    assert made.target_view.length == (1 if turns < 3 else 2), "what the caches share with it stays useful"


def test_a_resumed_answer_has_caches_of_its_own_and_its_former_maker_changes_nothing_any_more() -> None:
    conversations, dropped = kept()
    first = keep_new(conversations)
    former = conversations.begin(first.session_id)
    resumed = conversations.resume(first.session_id, "", History((5,), None, 1))
    assert resumed.cache_id not in (former.cache_id, resumed.session_id)
    assert (dropped, resumed.busy, resumed.log.tokens) == ([], True, [5])
    conversations.end(former, keep=True)
    assert dropped == [first.session_id], "its caches are freed"
    with pytest.raises(SessionBusy):
        conversations.begin(first.session_id)
    conversations.end(resumed, keep=True)
    assert conversations.begin(first.session_id) is resumed


def test_resuming_frees_what_idles_under_the_same_id() -> None:
    conversations, dropped = kept()
    first = keep_new(conversations)
    conversations.end(conversations.resume(first.session_id, "", History()), keep=False)
    assert dropped == [first.session_id] * 2
    assert len(conversations) == 0


def test_what_has_expired_has_no_turns(clock: Clock) -> None:
    conversations, _ = kept(ttl_s=60.0)
    mine = conversations.begin("")
    mine.turns = 3
    conversations.end(mine, keep=True)
    assert conversations.turns(mine.session_id, "") == 3
    clock.now += 60.0
    assert conversations.turns(mine.session_id, "") == 0
