"""What a request is about: a new session, the next turn of one, or an answer whose stream was lost.

Where the journal knows better than this process, the journal counts. It does not know rounds or replies.
"""

import dataclasses
from dataclasses import dataclass

from orchestrator.config import OrchestratorConfig
from orchestrator.conversations import Conversation, Conversations
from orchestrator.entry import Entry
from orchestrator.journal import Journal, JournalState, Kept
from orchestrator.journal_messages import write_answer
from orchestrator.request import Turn, read_resumption, read_turn
from outrider.errors import IncompatibleReplica, InvalidArgument, NotFound, SessionBusy, Unavailable
from outrider.v1.orchestrator_pb2 import GenerateRequest
from outrider.wire import ReplicaFacts

_NEW = Kept(None, False)


@dataclass(frozen=True, slots=True)
class Taken:
    """A checked request with its conversation, busy from now on. Of an answer that was lost: its ``given`` first
    tokens, and the number of tokens that the client has ``heard``."""

    turn: Turn
    conversation: Conversation
    entry: Entry
    given: tuple[int, ...] = ()
    heard: int = 0


class Reception:
    """Takes requests."""

    def __init__(self, config: OrchestratorConfig, conversations: Conversations, journal: Journal) -> None:
        self._config = config
        self._conversations = conversations
        self._journal = journal

    async def take(self, request: GenerateRequest, tenant: str, facts: ReplicaFacts) -> Taken:
        """Raises InvalidArgument naming the field that is wrong, SessionBusy, or Unavailable where only the journal
        could know. Whoever takes it ends it."""
        resumption = read_resumption(request)
        if resumption is not None:
            return await self._resume(*resumption, tenant, facts)
        turn = self._read(request, tenant, facts)
        kept = await self._kept(turn, facts) if turn.session_id else _NEW
        conversation = self._conversations.begin(turn.session_id, tenant, kept.history)
        head = self._head(request, turn, conversation, facts)
        entry = self._journal.begin(conversation.key, head, former=kept.owner or conversation.owner)
        conversation.owner = entry.owner
        return Taken(turn, conversation, entry)

    def _head(self, request: GenerateRequest, turn: Turn, conversation: Conversation, facts: ReplicaFacts) -> bytes:
        """What the journal is to know of it; without one there is nothing to say."""
        if self._journal.state is JournalState.ABSENT:
            return b""
        return write_answer(request, turn, conversation.history(facts.tokenizer_fingerprint), facts.weights)

    def _read(self, request: GenerateRequest, tenant: str, facts: ReplicaFacts) -> Turn:
        """The turn, which is the caller's tenant's, whether the request says so or not."""
        turn = read_turn(request, self._config, facts.vocab_size, facts.max_draft_tokens)
        return dataclasses.replace(turn, tenant=tenant)

    async def _kept(self, turn: Turn, facts: ReplicaFacts) -> Kept:
        """A session as the journal has it. With the journal away one goes on as it is here, if the request says that
        this is how it should be. Raises Unavailable, SessionBusy and InvalidArgument."""
        key = (turn.tenant, turn.session_id)
        here = self._conversations.turns(turn.session_id, turn.tenant)
        try:
            kept = await self._journal.session(key)
        except Unavailable:
            if turn.turn is None or here != turn.turn:
                raise
            return _NEW
        if kept.answering:
            raise SessionBusy(f"session {turn.session_id} is answering another request at another orchestrator")
        if kept.history is not None and kept.history.fingerprint != facts.tokenizer_fingerprint:
            kept = dataclasses.replace(kept, history=None)
        turns = max(here, kept.history.turns if kept.history is not None else 0)
        if turns and turn.turn not in (None, turns):
            raise InvalidArgument("turn", f"the session has {turns} complete turns here, not {turn.turn}")
        return kept

    async def _resume(self, session_id: str, heard: int, tenant: str, facts: ReplicaFacts) -> Taken:
        if self._journal.state is JournalState.ABSENT:
            raise InvalidArgument("resume_from", "this orchestrator keeps no journal (OUTRIDER_JOURNAL)")
        lost = await self._journal.lost((tenant, session_id))
        if lost is None:
            raise NotFound("session_id", "no answer of this session can be resumed: unknown or expired")
        if lost.weights != facts.weights:
            raise IncompatibleReplica("the answer was begun by targets of other weights than this orchestrator's")
        turn = self._read(lost.request, tenant, facts)
        if heard > turn.max_new_tokens:
            raise InvalidArgument("resume_from", f"at most {turn.max_new_tokens} tokens were asked for, got {heard}")
        given = lost.tokens[:heard]
        if lost.complete or self._conversations.turns(session_id, tenant) > lost.history.turns:
            conversation = self._conversations.again(session_id, tenant, lost.history)
            entry = Entry(conversation.key, "", lost.head, list(given), numerics=lost.numerics)
            return Taken(turn, conversation, entry, given, heard)
        conversation = self._conversations.resume(session_id, tenant, lost.history)
        entry = self._journal.begin(conversation.key, lost.head, given, lost.owner)
        entry.numerics = lost.numerics
        conversation.owner = entry.owner
        return Taken(turn, conversation, entry, given, heard)
