"""One replica from inside: its passes, the rounds that wait for them, and its cache. Drafts and targets are alike."""

from deploy.observability.panels import Dashboard, Panel, Query, Row, quantiles
from deploy.observability.promql import now, rate, ratio
from outrider import semconv as s

PASSES = Row(
    "Passes",
    (
        Panel(
            "Time of a pass",
            "Seconds of a forward pass of the model.",
            "s",
            quantiles(s.M_PASS),
        ),
        Panel(
            "Rows of a pass",
            "Token positions that a pass computes, of all sessions together, without padding.",
            "short",
            quantiles(s.M_ROWS),
        ),
        Panel(
            "Busy ratio",
            "Share of the time in which the model runs; close to 1 it is the bottleneck.",
            "percentunit",
            (Query(rate(s.M_BUSY, "instance"), "{{instance}}"),),
        ),
    ),
)
WAITING = Row(
    "Rounds",
    (
        Panel(
            "Wait before the first pass",
            "Seconds that a round waits at the replica before the model begins with it: for the pass that runs, or for"
            " room in the cache.",
            "s",
            quantiles(s.M_ROUND_QUEUE),
        ),
        Panel(
            "Pending rounds",
            "Rounds that wait for a pass or take part in one.",
            "short",
            (Query(now(s.M_PENDING, "instance"), "{{instance}}"),),
        ),
        Panel(
            "Rounds served",
            "Rounds answered per second, those left out whose cache was not found.",
            "ops",
            (Query(rate(s.M_SERVED, "instance"), "{{instance}}"),),
        ),
        Panel(
            "Caches not found by reason",
            "Rounds per second answered with a CacheMiss, so that their tokens are sent again: nothing was cached"
            " (empty), or less than the caller believed (shorter).",
            "ops",
            (Query(rate(s.M_MISSED, "reason"), "{{reason}}"),),
        ),
        Panel(
            "Calls by status",
            "gRPC calls that ended, per second; a stream is one call and lasts as long as its answer.",
            "reqps",
            (
                Query(
                    rate(s.M_CALLS, "rpc_method, rpc_response_status_code", "_count"),
                    "{{rpc_method}} {{rpc_response_status_code}}",
                ),
            ),
        ),
    ),
)
CACHE = Row(
    "Cache",
    (
        Panel(
            "KV cache in use",
            "Share of the blocks that sessions hold; blocks that are only kept to be found again count as free.",
            "percentunit",
            (Query(now(s.M_KV, "instance", "max"), "{{instance}}"),),
        ),
        Panel(
            "KV blocks",
            "Blocks of the cache that sessions hold, and those that are to be had.",
            "short",
            (Query(now(s.M_BLOCKS, "state"), "{{state}}"),),
            stacked=True,
        ),
        Panel(
            "Evictions",
            "Sessions per second that lost their cache to others and must be computed again when they go on.",
            "ops",
            (Query(rate(s.M_EVICTIONS, "instance"), "{{instance}}"),),
        ),
        Panel(
            "Prefix hit ratio",
            "Of the tokens looked up in the prefix cache, the share that was found and not computed again.",
            "percentunit",
            (Query(ratio(rate(s.M_FOUND), rate(s.M_LOOKED_UP)), "hits"),),
        ),
        Panel(
            "Sessions",
            "Sessions that hold cache here.",
            "short",
            (Query(now(s.M_HELD, "instance"), "{{instance}}"),),
        ),
    ),
)

REPLICA = Dashboard(
    "outrider-replica",
    "Outrider: one replica",
    "A draft or a target from inside; choose it above. What to do about it: docs/why-is-it-slow.md.",
    s.M_KV,
    (PASSES, WAITING, CACHE),
)
