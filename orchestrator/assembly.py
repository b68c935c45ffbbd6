"""What one answer is made with: its prompt, its ways to the replicas, its controller, and what bounds it.

It puts these together and runs nothing; it knows neither calls nor messages.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from opentelemetry.trace import Span

from orchestrator.answer import Answer, Ending
from orchestrator.config import OrchestratorConfig
from orchestrator.conversations import Conversation
from orchestrator.draft_link import DraftLink
from orchestrator.drafting import Drafting
from orchestrator.estimates import PoolEstimates
from orchestrator.pool import Needs
from orchestrator.pools import Pools
from orchestrator.prompting import prompt_tokens
from orchestrator.request import Turn
from orchestrator.round_stream import StreamOptions
from orchestrator.session import Generation, Limits
from orchestrator.speculation import Controller, Mode
from orchestrator.target_link import TargetLink
from outrider.errors import InvalidArgument
from outrider.tokenizer import Tokenizer
from outrider.wire import Numerics, ReplicaFacts

_RUN = 16
"""Plain rounds asked for at once. More would save little, and cost more when an answer ends early."""

_ALIKE = 64
"""Tokens of a prompt that decide with which other sessions it shares a replica: two blocks of a cache."""


def _key(conversation: Conversation) -> str:
    """Equal for answers of one tenant whose prompts begin with the same _ALIKE tokens: they share cached prefixes.
    Shorter prompts have nothing to share."""
    tokens = conversation.log.tokens
    if len(tokens) < _ALIKE:
        return conversation.session_id
    return f"{conversation.tenant} {tokens[:_ALIKE]}"


@dataclass(frozen=True, slots=True)
class Assembly:
    """What all answers of an orchestrator are made from. ``active`` counts those being made."""

    config: OrchestratorConfig
    pools: Pools
    tokenizer: Tokenizer
    active: Callable[[], int]
    estimates: PoolEstimates = field(default_factory=PoolEstimates)

    async def prompt(self, turn: Turn, conversation: Conversation, facts: ReplicaFacts) -> list[int]:
        """The turn's prompt, tokenized beside the event loop: a long text takes longer than other rounds can wait.

        Raises InvalidArgument when it leaves no room for an answer.
        """
        prompt = await asyncio.to_thread(prompt_tokens, conversation, turn.input, self.tokenizer)
        most = facts.room
        if len(prompt) >= most:
            limits = f"{facts.max_positions} positions and a KV cache of {facts.kv_capacity_tokens} tokens"
            words = f"has {len(prompt)} tokens with its history, at most {most - 1} fit beside one token of an answer"
            raise InvalidArgument(turn.input.field, f"{words} (the target has {limits})")
        return prompt

    def generation(
        self,
        turn: Turn,
        conversation: Conversation,
        facts: ReplicaFacts,
        span: Span,
        deadline_s: float | None,
        given: tuple[int, ...] = (),
        like: Numerics | None = None,
    ) -> tuple[Generation, tuple[DraftLink, TargetLink]]:
        """The loop of an answer to the conversation's prompt, whose first tokens may be ``given``, made with numerics
        ``like`` those, and its links, which the caller must close."""
        draft, target = self._links(turn, conversation, facts, deadline_s, like)
        answer = self._answer(turn, conversation, facts)
        conversation.log.extend(given[: answer.extend(given)])
        generation = Generation(
            log=conversation.log,
            answer=answer,
            policy=Controller(turn.speculation, self.estimates, max(0, min(_RUN, facts.max_run + 1) - 1)),
            limits=self._limits(turn, facts),
            drafting=Drafting(conversation.log, draft, conversation.draft_view),
            target=target,
            target_view=conversation.target_view,
            span=span,
        )
        return generation, (draft, target)

    def _answer(self, turn: Turn, conversation: Conversation, facts: ReplicaFacts) -> Answer:
        room = facts.room - len(conversation.log)
        end_ids = frozenset(turn.stop_token_ids) | (frozenset() if turn.ignore_eos else frozenset(facts.eos_token_ids))
        return Answer(Ending(min(turn.max_new_tokens, room), end_ids, turn.stops), self.tokenizer.decode)

    def _links(
        self,
        turn: Turn,
        conversation: Conversation,
        facts: ReplicaFacts,
        deadline_s: float | None,
        like: Numerics | None,
    ) -> tuple[DraftLink, TargetLink]:
        config, pools, session_id = self.config, self.pools, conversation.cache_id
        asking = StreamOptions(session_id, turn.params, deadline_s, config.draft_timeout_s, tenant=turn.tenant)
        judging = StreamOptions(
            session_id, turn.params, deadline_s, config.verify_timeout_s, turn.logprobs, turn.tenant
        )
        key = _key(conversation)
        for place in (conversation.draft_place, conversation.target_place):
            place.key = key
        needs = Needs(facts.weights, min(facts.room, len(conversation.log) + turn.max_new_tokens), like)
        target = TargetLink(pools.targets, conversation.target_place, judging, config.target_patience_s, needs)
        return DraftLink(pools.drafts, conversation.draft_place, asking, facts.vocab_size), target

    def _limits(self, turn: Turn, facts: ReplicaFacts) -> Limits:
        """What bounds the speculation of an answer."""
        most = 0 if turn.speculation.mode is Mode.OFF else min(self.config.max_draft_tokens, facts.max_draft_tokens)
        return Limits(
            most, bool(self.pools.drafts.members), self.active, self.config.look_ahead, self.config.trace_tokens
        )
