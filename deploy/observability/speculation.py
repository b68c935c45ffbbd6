"""Whether guessing pays: how much of it is accepted, what it costs, and what it gains over the target alone."""

from deploy.observability.panels import Dashboard, Panel, Query, Row
from deploy.observability.promql import mean, now, quantile, rate, ratio, share
from outrider import semconv as s


def _rate_of_tokens(**where: str) -> str:
    return ratio(rate(s.M_EMITTED, **where), rate(s.M_ROUND, "", "_sum", **where))


GAIN = Row(
    "Does it pay?",
    (
        Panel(
            "Tokens per second of round time",
            "Tokens that a second spent in rounds commits, speculating against the target alone, whose rounds include"
            " the reading of prompts; speculation loses where its line is lower.",
            "short",
            (
                Query(_rate_of_tokens(mode="!target_only"), "speculating"),
                Query(_rate_of_tokens(mode="target_only"), "target_only"),
            ),
        ),
        Panel(
            "The same by mode",
            "Tokens per second of round time, by what made the block.",
            "short",
            (Query(ratio(rate(s.M_EMITTED, "mode"), rate(s.M_ROUND, "mode", "_sum")), "{{mode}}"),),
        ),
        Panel(
            "Mean accepted length",
            "Tokens committed per round, the target's own included; 1 is the target alone.",
            "short",
            (
                Query(ratio(rate(s.M_EMITTED), rate(s.M_ROUNDS)), "all rounds"),
                Query(ratio(rate(s.M_EMITTED, "mode"), rate(s.M_ROUNDS, "mode")), "{{mode}}"),
            ),
        ),
    ),
)
ACCEPTANCE = Row(
    "Is the guess right?",
    (
        Panel(
            "Acceptance rate",
            "Of the draft tokens sent to verify, the share that equals the target's choices, by who guessed: the draft"
            " model, or a copy from the text (ngram).",
            "percentunit",
            (Query(share(rate(s.M_ACCEPTED, "drafter"), rate(s.M_PROPOSED, "drafter")), "{{drafter}}"),),
        ),
        Panel(
            "Acceptance by position",
            "The same by place in the block, from 0, where a token behind a wrong one is wrong too; where it gets low,"
            " longer blocks only cost.",
            "percentunit",
            (Query(share(rate(s.M_ACCEPTED_AT, "position"), rate(s.M_PROPOSED_AT, "position")), "{{position}}"),),
        ),
        Panel(
            "Draft tokens per block",
            "Mean length of the blocks that were sent to verify.",
            "short",
            (Query(ratio(rate(s.M_PROPOSED), rate(s.M_DRAFTS)), "mean"),),
        ),
    ),
)
ROUNDS = Row(
    "What do rounds do?",
    (
        Panel(
            "Rounds by mode",
            "Rounds per second: the target alone, a copy from the text, a block asked for (serial), or one prepared"
            " ahead.",
            "ops",
            (Query(rate(s.M_ROUNDS, "mode"), "{{mode}}"),),
            stacked=True,
        ),
        Panel(
            "Rounds by draft tokens",
            "Rounds per second by the number of draft tokens in them; 0 is the target alone.",
            "ops",
            (Query(rate(s.M_ROUNDS, "draft_tokens"), "k = {{draft_tokens}}"),),
            stacked=True,
        ),
        Panel(
            "Draft faults",
            "Rounds per second in which the draft should have guessed and did not, counted when their answers end.",
            "ops",
            (Query(rate(s.M_FAULTS), "faults"),),
        ),
    ),
)
LOOKING_AHEAD = Row(
    "Does looking ahead hit?",
    (
        Panel(
            "Look-ahead hit rate",
            "Of the rounds in which the draft looked ahead, the share for whose outcome it had a block ready.",
            "percentunit",
            (Query(share(rate(s.M_LOOK_AHEADS, result="hit"), rate(s.M_LOOK_AHEADS)), "hits"),),
        ),
        Panel(
            "Wasted tokens per token",
            "Draft tokens prepared for outcomes that did not come, per token of the answers: work that only the draft"
            " pays for.",
            "short",
            (Query(ratio(rate(s.M_WASTED), rate(s.M_EMITTED)), "wasted"),),
        ),
        Panel(
            "Look-aheads",
            "Rounds per second in which the draft looked ahead, by result.",
            "ops",
            (Query(rate(s.M_LOOK_AHEADS, "result"), "{{result}}"),),
            stacked=True,
        ),
    ),
)
DISTANCE = Row(
    "How far away are the replicas?",
    (
        Panel(
            "Network's share of an exchange",
            "Of the time from a message to its answer, the share that the replica spent neither waiting nor in passes:"
            " the way there and back, and both programs' own work.",
            "percentunit",
            (Query(ratio(rate(s.M_NETWORK, "tier", "_sum"), rate(s.M_EXCHANGE, "tier", "_sum")), "{{tier}}"),),
        ),
        Panel(
            "Network time of an exchange",
            "Seconds of that, median and all but the slowest twentieth; rounds of a run send nothing and are left out.",
            "s",
            (
                Query(quantile(0.5, s.M_NETWORK, "tier"), "{{tier}} p50"),
                Query(quantile(0.95, s.M_NETWORK, "tier"), "{{tier}} p95"),
            ),
        ),
        Panel(
            "Bytes per round",
            "Bytes of messages to and from each tier, per round, without gRPC's framing; long prompts and lost caches"
            " make it jump.",
            "bytes",
            (
                Query(
                    f"{rate(s.M_BYTES, 'tier, direction')} / scalar({rate(s.M_ROUNDS)})",
                    "{{tier}} {{direction}}",
                ),
            ),
        ),
    ),
)
PAIR = Row(
    "What does an exchange take?",
    (
        Panel(
            "Mean time of an exchange",
            "Seconds from a message to its answer; in a run, from one verdict to the next.",
            "s",
            (Query(mean(s.M_EXCHANGE, "tier"), "{{tier}}"),),
        ),
        Panel(
            "Mean time of a round",
            "Seconds of a round, from its plan to its commit.",
            "s",
            (Query(mean(s.M_ROUND, "mode"), "{{mode}}"),),
        ),
        Panel(
            "Answers sharing a target",
            "Answers being made per target that is ready; the more rows a pass has anyway, the less speculation gains.",
            "short",
            (
                Query(
                    f"{now(s.M_RUNNING)} / {now(s.M_REPLICAS, '', 'avg', tier='target', state='ready')}",
                    "answers per target",
                ),
            ),
        ),
    ),
)

SPECULATION = Dashboard(
    "outrider-speculation",
    "Outrider: speculation",
    "Whether guessing pays, and if not, why. What to do about it: docs/why-is-it-slow.md#speculation-does-not-pay.",
    s.M_RUNNING,
    (GAIN, ACCEPTANCE, ROUNDS, LOOKING_AHEAD, DISTANCE, PAIR),
)
