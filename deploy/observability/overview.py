"""The first page to open: do requests come through, how fast, and who serves them."""

from deploy.observability.panels import Dashboard, Panel, Query, Row, quantiles
from deploy.observability.promql import now, quantile, rate, ratio
from outrider import semconv as s

REQUESTS = Row(
    "Requests",
    (
        Panel(
            "Requests by outcome",
            "Requests that ended, per second: stop and length are complete answers, cancelled means that the client"
            " left, anything else is the class of an error.",
            "reqps",
            (Query(rate(s.M_REQUESTS, "outcome"), "{{outcome}}"),),
            stacked=True,
        ),
        Panel(
            "Refusals by reason",
            "Requests that were not let in, per second: crowded and waited mean too little room, tenant_rate is a"
            " tenant's own limit, deadline is the client's.",
            "reqps",
            (Query(rate(s.M_REFUSALS, "reason"), "{{reason}}"),),
            stacked=True,
        ),
        Panel(
            "Running and waiting",
            "Answers being made, and requests that wait for a place among them.",
            "short",
            (Query(now(s.M_RUNNING), "running"), Query(now(s.M_WAITING), "waiting")),
        ),
    ),
)
SPEED = Row(
    "Speed, as clients see it",
    (
        Panel(
            "Time to first token",
            "Seconds from a request's arrival to its first token; requests that never got one are not in it.",
            "s",
            quantiles(s.M_TTFT),
        ),
        Panel(
            "Time per output token",
            "Seconds per token after the first, of each request's mean.",
            "s",
            quantiles(s.M_TPOT),
        ),
        Panel(
            "End to end",
            "Seconds from a request's arrival to its end, whatever became of it.",
            "s",
            quantiles(s.M_REQUEST),
        ),
        Panel(
            "Wait for a place",
            "Of the time to first token, what a request waited before anybody worked on it.",
            "s",
            quantiles(s.M_QUEUE),
        ),
        Panel(
            "Tokens per second",
            "Tokens committed to answers, by what made their round: the target alone, a copy from the text, a block of"
            " the draft, or one prepared ahead.",
            "short",
            (Query(rate(s.M_EMITTED, "mode"), "{{mode}}"),),
            stacked=True,
        ),
        Panel(
            "Prompt tokens per second",
            "Tokens of prompts, and those of them that no target had to compute because they were cached.",
            "short",
            (Query(rate(s.M_PROMPT), "all"), Query(rate(s.M_CACHED), "cached")),
        ),
    ),
)
REPLICAS = Row(
    "Replicas and what they lose",
    (
        Panel(
            "Replicas by state",
            "Replicas as orchestrators see them, on average, so a fraction means that they disagree; unavailable does"
            " not answer, refused does not fit.",
            "short",
            (Query(now(s.M_REPLICAS, "tier, state", "avg"), "{{tier}} {{state}}"),),
        ),
        Panel(
            "Fail-overs by reason",
            "Streams to a replica that were given up, per second; answers go on at another one, or without a draft.",
            "ops",
            (Query(rate(s.M_FAILOVERS, "tier, reason"), "{{tier}} {{reason}}"),),
        ),
        Panel(
            "Caches not found",
            "Rounds per second whose tokens had to be sent again: moved to another replica, or lost by the same one.",
            "ops",
            (Query(rate(s.M_MISSES, "tier, reason"), "{{tier}} {{reason}}"),),
        ),
        Panel(
            "Journal",
            "1 while the journal takes what it is given, 0 while answers cannot be resumed; no line without a journal.",
            "short",
            (Query(now(s.M_JOURNAL, "instance", "min"), "{{instance}}"),),
        ),
        Panel(
            "Kept sessions",
            "Sessions that wait for their next turn.",
            "short",
            (Query(now(s.M_SESSIONS, "instance"), "{{instance}}"),),
        ),
        Panel(
            "Calls that failed",
            "gRPC calls to orchestrators per second that ended in another status than OK.",
            "reqps",
            (
                Query(
                    rate(s.M_CALLS, "rpc_method, rpc_response_status_code", "_count", rpc_response_status_code="!OK"),
                    "{{rpc_method}} {{rpc_response_status_code}}",
                ),
            ),
        ),
    ),
)
ROUNDS = Row(
    "Rounds",
    (
        Panel(
            "Time of a round",
            "Seconds of a round, from its plan to its commit, half of them and all but the slowest twentieth.",
            "s",
            (
                Query(quantile(0.5, s.M_ROUND, "mode"), "{{mode}} p50"),
                Query(quantile(0.95, s.M_ROUND, "mode"), "{{mode}} p95"),
            ),
        ),
        Panel(
            "Tokens per round",
            "Mean accepted length: tokens that a round commits, the target's own included, so 1 is no gain.",
            "short",
            (Query(ratio(rate(s.M_EMITTED), rate(s.M_ROUNDS)), "mean"),),
        ),
        Panel(
            "Time of an exchange",
            "Seconds from a message to a replica until its answer, all but the slowest twentieth.",
            "s",
            (Query(quantile(0.95, s.M_EXCHANGE, "tier"), "{{tier}} p95"),),
        ),
    ),
)

OVERVIEW = Dashboard(
    "outrider-overview",
    "Outrider: overview",
    "Whether requests come through, how fast, and who serves them. What to do about it: docs/why-is-it-slow.md.",
    s.M_RUNNING,
    (REQUESTS, SPEED, ROUNDS, REPLICAS),
)
