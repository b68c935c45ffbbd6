"""What the span of a round says: the decision, the estimates behind it, and what became of it."""

from opentelemetry.trace import Span

from orchestrator.plans import Plan
from orchestrator.totals import Round
from outrider import telemetry


def describe(span: Span, done: Round, plan: Plan) -> None:
    """Attributes of a round. Nothing for a span that nobody records."""
    if not span.is_recording():
        return
    estimates = plan.estimates
    span.set_attributes(
        {
            telemetry.ROUND: done.number,
            telemetry.PROPOSED: len(done.block),
            telemetry.ACCEPTED: done.num_accepted,
            telemetry.EMITTED: len(done.emitted),
            telemetry.NEXT_TOKEN_KIND: "bonus" if done.num_accepted == len(done.block) else "correction",
            telemetry.DRAFTER: done.drafter.value,
            telemetry.PREPARED: done.prepared,
            telemetry.RUN: plan.run,
            telemetry.BREAKS_OFF: plan.breaks_off,
            telemetry.PROBE: plan.probe,
            telemetry.LOOK_AHEAD: plan.look_ahead,
            telemetry.FANOUT: plan.fanout,
            telemetry.RATE_CHOSEN: estimates.chosen_rate,
            telemetry.RATE_PLAIN: estimates.plain_rate,
            telemetry.ACCEPTANCE: estimates.acceptance,
            telemetry.HIT_RATE: estimates.hit_rate,
            telemetry.DRAFT_S: estimates.draft_s,
            telemetry.VERIFY_S: estimates.verify_s,
            telemetry.RTT_DRAFT_S: estimates.rtt_draft_s,
            telemetry.RTT_TARGET_S: estimates.rtt_target_s,
        }
    )
    if done.hit is not None:
        span.set_attribute(telemetry.LOOK_AHEAD_HIT, done.hit)
