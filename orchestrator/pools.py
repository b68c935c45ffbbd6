"""The pools that sessions draw on: targets and drafts, independent of each other, and what makes a replica fit.

It does not know sessions or rounds.
"""

import logging
from collections.abc import Iterable

from orchestrator.clients import draft_facts, release_draft, release_target, target_facts
from orchestrator.member import Member, State
from orchestrator.meters import Meters
from orchestrator.pairing import draft_mismatch, target_mismatch
from orchestrator.patience import Patience
from orchestrator.pool import Pool
from outrider.credentials import PLAIN, Dialer
from outrider.errors import OutriderError
from outrider.tokenizer import Tokenizer
from outrider.wire import ReplicaFacts

log = logging.getLogger(__name__)
_TARGET_BACKOFF_MOST_S = 0.5
"""Answers wait for a target and for nothing else, so it is asked again soon."""


class Pools:
    """Owner of both pools, and of what is counted of them and of all answers."""

    def __init__(
        self, tokenizer: Tokenizer, grace_s: float, to_targets: Dialer = PLAIN, to_drafts: Dialer = PLAIN
    ) -> None:
        """``grace_s``: as in ``Member``; how replicas of each role are dialled."""
        self._tokenizer = tokenizer
        self._grace_s = grace_s
        self._to_targets = to_targets
        self._to_drafts = to_drafts
        self.meters = Meters()
        self.targets = Pool(self._target, self.meters)
        self.drafts = Pool(self._draft, self.meters)

    def _target(self, address: str) -> Member:
        return Member(
            address,
            target_facts,
            self._judge_target,
            patience=Patience(_TARGET_BACKOFF_MOST_S),
            grace_s=self._grace_s,
            dialer=self._to_targets,
        )

    def _draft(self, address: str) -> Member:
        return Member(address, draft_facts, self._judge_draft, grace_s=self._grace_s, dialer=self._to_drafts)

    def _judge_target(self, facts: ReplicaFacts) -> str:
        others = [m.facts for m in self.targets.members if m.state is State.READY and m.facts is not None]
        other = next((each for each in others if each.weights != facts.weights), None)
        if other is not None:
            theirs, its = (f"{each.model_id} (weights {each.weights[:12]})" for each in (other, facts))
            return f"the other targets serve {theirs}, this one {its}"
        return target_mismatch(facts, self._tokenizer.vocab_size, self._tokenizer.fingerprint)

    def _judge_draft(self, facts: ReplicaFacts) -> str:
        target = self.targets.facts
        if target is not None:
            return draft_mismatch(facts, f"target {target.model_id}", target.vocab_size, target.tokenizer_fingerprint)
        return draft_mismatch(facts, "the orchestrator", self._tokenizer.vocab_size, self._tokenizer.fingerprint)

    async def set(self, targets: Iterable[str], drafts: Iterable[str]) -> None:
        """Make these the members."""
        await self.targets.set(targets)
        await self.drafts.set(drafts)

    async def close(self) -> None:
        """Close all members."""
        await self.targets.close()
        await self.drafts.close()

    async def release(self, session_id: str, tenant: str, target: str, draft: str) -> None:
        """Free a session's caches where it was last. One that is left alone for a while (a draft that is too slow, say)
        may well hold them; one that is gone has lost them, and the attempt is short."""
        for member, release in ((self.targets.at(target), release_target), (self.drafts.at(draft), release_draft)):
            if member is not None and member.line is not None:
                try:
                    await release(member.channel, session_id, tenant)
                except OutriderError as error:
                    log.debug("release of %s at %s: %s", session_id, member.address, error)
