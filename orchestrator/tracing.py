"""What the span of a round says: the decision, the estimates behind it, and what became of it."""

from typing import Any

from orchestrator.plans import Plan
from orchestrator.totals import Round
from outrider import semconv


def round_attributes(done: Round, plan: Plan, with_tokens: bool) -> dict[str, Any]:
    """Attributes of the span of a round; the tokens only ``with_tokens``: they are somebody's text."""
    estimates = plan.estimates
    attributes: dict[str, Any] = {
        semconv.ROUND: done.number,
        semconv.MODE: done.mode,
        semconv.DRAFT_TOKENS: plan.draft_tokens,
        semconv.PROPOSED: len(done.block),
        semconv.ACCEPTED: done.num_accepted,
        semconv.EMITTED: len(done.emitted),
        semconv.NEXT_TOKEN_KIND: "bonus" if done.num_accepted == len(done.block) else "correction",
        semconv.DRAFTER: done.drafter.value,
        semconv.PREPARED: done.prepared,
        semconv.RUN: plan.run,
        semconv.BREAKS_OFF: plan.breaks_off,
        semconv.PROBE: plan.probe,
        semconv.LOOK_AHEAD: plan.look_ahead,
        semconv.FANOUT: plan.fanout,
        semconv.RATE_CHOSEN: estimates.chosen_rate,
        semconv.RATE_PLAIN: estimates.plain_rate,
        semconv.ACCEPTANCE: estimates.acceptance,
        semconv.HIT_RATE: estimates.hit_rate,
        semconv.DRAFT_S: estimates.draft_s,
        semconv.VERIFY_S: estimates.verify_s,
        semconv.RTT_DRAFT_S: estimates.rtt_draft_s,
        semconv.RTT_TARGET_S: estimates.rtt_target_s,
    }
    if done.hit is not None:
        attributes[semconv.LOOK_AHEAD_HIT] = done.hit
    if with_tokens:
        attributes |= {semconv.BLOCK_TOKENS: done.block, semconv.EMITTED_TOKENS: done.emitted}
    return attributes
