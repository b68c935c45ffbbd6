"""Every name of Outrider's telemetry, once: spans, events, attributes and metrics, and what each of them means.

OpenTelemetry's own names are used where they exist (``gen_ai.*``, ``rpc.*``, ``error.type``, ``server.address``); the
rest is ``outrider.*``. Metrics whose meaning vLLM has a name for end like vLLM's (``outrider.prompt_tokens`` is its
``vllm:prompt_tokens``). ``python -m outrider.semconv`` prints docs/telemetry.md. It knows names, not how they are used.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Name:
    """A name and its meaning, in words."""

    name: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: counter, gauge or histogram; the unit as in UCUM; the attributes that its series differ in, in order;
    the upper bounds of a histogram's buckets; and which processes have it."""

    name: str
    kind: str
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    by: str = "orchestrator"

    @property
    def prometheus(self) -> str:
        """Its name in the Prometheus format."""
        plain = self.name.replace(".", "_")
        suffix = {"s": "_seconds", "By": "_bytes"}.get(self.unit, "")
        return plain + ("" if plain.endswith(suffix) else suffix) + ("_total" if self.kind == "counter" else "")


SPANS: list[Name] = []
EVENTS: list[Name] = []
ATTRIBUTES: list[Name] = []
METRICS: list[Metric] = []


def _span(name: str, meaning: str) -> str:
    SPANS.append(Name(name, meaning))
    return name


def _event(name: str, meaning: str) -> str:
    EVENTS.append(Name(name, meaning))
    return name


def _attribute(name: str, meaning: str) -> str:
    ATTRIBUTES.append(Name(name, meaning))
    return name


def _metric(metric: Metric) -> Metric:
    METRICS.append(metric)
    return metric


SPAN_GENERATE = _span("generate", "One request at the orchestrator, from its arrival to its last event.")
SPAN_QUEUE = _span("queue", "Its wait for a place among the answers that run. Child of `generate`.")
SPAN_PROMPT = _span("prompt", "Template and tokenizer. Child of `generate`.")
SPAN_PREFILL = _span(
    "prefill", "From the first message to a target until its first verdict: the prompt is read. Child of `generate`."
)
SPAN_ROUND = _span("round", "One round: guess, verify, commit. Child of `generate`.")
SPAN_PROPOSE_CLIENT = _span("draft.propose", "The orchestrator asks a draft for a block. Child of `round`.")
SPAN_VERIFY_CLIENT = _span(
    "target.verify",
    "The orchestrator asks a target for a verdict, or waits for the next one of a run. Child of `round`.",
)
SPAN_LOOK_AHEAD_CLIENT = _span(
    "draft.prepare", "It has a draft look ahead, until the answer is taken up or given up. Child of `round`."
)
SPAN_PROPOSE_SERVER = _span("draft.serve", "A draft makes a block. Child of `draft.propose`.")
SPAN_LOOK_AHEAD_SERVER = _span("draft.look_ahead", "A draft prepares blocks. Child of `draft.prepare`.")
SPAN_VERIFY_SERVER = _span("target.serve", "A target makes a verdict. Child of `target.verify`.")
SPAN_DRAFT_FORWARD = _span("draft.forward", "One forward pass of a draft; links to the rounds that it served.")
SPAN_TARGET_FORWARD = _span("target.forward", "One forward pass of a target; links to the rounds that it served.")

EVENT_CACHE_MISS = _event(
    "outrider.cache_miss", "On a client span: the replica did not hold the prefix, so the tokens are sent again."
)
EVENT_FAILOVER = _event("outrider.failover", "On `round`: the answer leaves a replica, and goes on at another one.")
EVENT_DRAFT_FAULT = _event("outrider.draft_fault", "On `round`: the draft failed, and the round went on without it.")
EVENT_ARRIVED = _event("outrider.look_ahead.arrived", "On `draft.prepare`: the prepared blocks came.")

SESSION_ID = _attribute("outrider.session.id", "Session of the request.")
TENANT = _attribute("outrider.tenant", "Tenant that the request belongs to; left out for none.")
ROUND = _attribute("outrider.round", "Number of the round in its answer, from 0.")
MODE = _attribute("outrider.round.mode", "`target_only`, `copy`, `serial` (a block of the draft) or `look_ahead`.")
DRAFT_TOKENS = _attribute("outrider.round.draft_tokens", "k: draft tokens that the plan asked for.")
PROPOSED = _attribute("outrider.round.proposed", "Draft tokens sent to verify.")
ACCEPTED = _attribute("outrider.round.accepted", "Of those, equal to the target's choices.")
EMITTED = _attribute("outrider.round.emitted", "Tokens committed to the answer.")
NEXT_TOKEN_KIND = _attribute("outrider.round.next_token_kind", "`correction`, or `bonus` when all were accepted.")
DRAFTER = _attribute("outrider.round.drafter", "`none`, `ngram` (copied from the text) or `model`.")
PREPARED = _attribute("outrider.round.prepared", "Whether look-ahead had the block ready.")
LOOK_AHEAD_HIT = _attribute(
    "outrider.round.look_ahead_hit",
    "Whether look-ahead had prepared this round's outcome; left out without it.",
)
BLOCK_TOKENS = _attribute("outrider.round.block", "Ids of the draft tokens. Only with OUTRIDER_TRACE_TOKENS.")
EMITTED_TOKENS = _attribute("outrider.round.tokens", "Ids of the tokens committed. Only with OUTRIDER_TRACE_TOKENS.")
BLOCK_TEXTS = _attribute(
    "outrider.round.block_texts", "The draft tokens as text, one each. Only in an orchestrator's ring."
)
EMITTED_TEXTS = _attribute(
    "outrider.round.texts", "The tokens committed as text, one each. Only in an orchestrator's ring."
)
RUN_FIRST = _attribute("outrider.run.first_round", "The round whose message asked for this one.")
RUN = _attribute("outrider.plan.run", "Further plain rounds asked for at once.")
BREAKS_OFF = _attribute("outrider.plan.breaks_off", "Whether a run was given up for this round.")
PROBE = _attribute("outrider.plan.probe", "Whether it was done to learn, not because it was thought best.")
LOOK_AHEAD = _attribute("outrider.plan.look_ahead", "Whether the draft was to look ahead.")
FANOUT = _attribute("outrider.plan.fanout", "Outcomes to prepare for each number of accepted tokens.")
OUTCOMES = _attribute("outrider.look_ahead.outcomes", "Outcomes that a look-ahead was asked for.")
CONTINUATIONS = _attribute("outrider.look_ahead.continuations", "Blocks that it brought.")
TAKEN_UP = _attribute("outrider.look_ahead.taken_up", "Whether anybody was left to use them.")
RATE_CHOSEN = _attribute("outrider.estimate.tokens_per_s", "What the plan was expected to give.")
RATE_PLAIN = _attribute("outrider.estimate.plain_tokens_per_s", "What the target alone was expected to give.")
ACCEPTANCE = _attribute("outrider.estimate.acceptance", "Expected acceptance at positions from 1.")
HIT_RATE = _attribute("outrider.estimate.hit_rate", "Expected share of look-aheads that prepare the outcome.")
DRAFT_S = _attribute("outrider.estimate.draft_token_s", "Expected seconds of a draft token.")
VERIFY_S = _attribute("outrider.estimate.verify_s", "Expected seconds of the verdict.")
RTT_DRAFT_S = _attribute("outrider.estimate.draft_round_trip_s", "Expected seconds on the way to the draft and back.")
RTT_TARGET_S = _attribute("outrider.estimate.target_round_trip_s", "And to the target.")
PREFIX_LEN = _attribute("outrider.prefix_len", "Tokens that the caller believed to be cached.")
CACHE_MISS = _attribute("outrider.cache_miss", "Whether the replica held less than that.")
CACHED_LEN = _attribute("outrider.cached_len", "Tokens of the session that the replica holds now.")
REASON = _attribute("outrider.reason", "Why, in one word (of a CacheMiss or a fail-over).")
QUEUE_US = _attribute("outrider.queue_us", "Microseconds at the replica before the round's first pass.")
FORWARD_US = _attribute("outrider.forward_us", "Microseconds in passes that the round took part in.")
PASSES = _attribute("outrider.passes", "Number of those passes.")
BYTES_SENT = _attribute(
    "outrider.bytes_sent", "Bytes of the message, without gRPC's framing; 0 in a run's further rounds."
)
BYTES_RECEIVED = _attribute("outrider.bytes_received", "Bytes of the answer.")
NETWORK_US = _attribute("outrider.network_us", "From sending to the answer, less the replica's queue and passes.")
BATCH_ROWS = _attribute("outrider.batch.rows", "Rows of the last pass, all sessions together.")
BATCH_ROUNDS = _attribute("outrider.batch.rounds", "Traced rounds that a pass served.")
QUEUE_S = _attribute("outrider.request.queue_s", "Seconds that the request waited for a place.")
TTFT_S = _attribute("outrider.request.time_to_first_token_s", "Seconds from its arrival to its first token.")
TPOT_S = _attribute("outrider.request.time_per_output_token_s", "Seconds per token after the first.")
KEPT_BECAUSE = _attribute("outrider.kept_because", "`slow` or `failed`, where the tail rule kept an unsampled request.")
SPANS_LEFT_OUT = _attribute("outrider.spans_left_out", "Spans that an orchestrator did not keep, for want of room.")
REQUEST_ROUNDS = _attribute("outrider.request.rounds", "Verify rounds of the answer.")
REQUEST_PROPOSED = _attribute("outrider.request.proposed", "Draft tokens sent to verify.")
REQUEST_ACCEPTED = _attribute("outrider.request.accepted", "Of those, accepted.")
CACHED_PROMPT = _attribute("outrider.request.cached_prompt_tokens", "Prompt tokens that the target did not compute.")
OPERATION = _attribute("gen_ai.operation.name", "`chat` or `text_completion`.")
PROVIDER = _attribute("gen_ai.provider.name", "`outrider`.")
REQUEST_MODEL = _attribute("gen_ai.request.model", "The target's model.")
REQUEST_TEMPERATURE = _attribute("gen_ai.request.temperature", "As asked for.")
REQUEST_TOP_P = _attribute("gen_ai.request.top_p", "As asked for.")
REQUEST_TOP_K = _attribute("gen_ai.request.top_k", "As asked for.")
REQUEST_SEED = _attribute("gen_ai.request.seed", "Key of the noise, as text: it has 64 bits.")
REQUEST_MAX_TOKENS = _attribute("gen_ai.request.max_tokens", "As asked for.")
INPUT_TOKENS = _attribute("gen_ai.usage.input_tokens", "Tokens of the prompt, earlier turns included.")
OUTPUT_TOKENS = _attribute("gen_ai.usage.output_tokens", "Tokens emitted.")
FINISH_REASONS = _attribute("gen_ai.response.finish_reasons", "`stop` or `length`.")
RPC_SYSTEM = _attribute("rpc.system.name", "`grpc`.")
RPC_METHOD = _attribute("rpc.method", "Service and method of the call.")
RPC_STATUS = _attribute("rpc.response.status_code", "The gRPC status by name.")
SERVER_ADDRESS = _attribute("server.address", "Replica that a client span asks.")
ERROR_TYPE = _attribute("error.type", "Class of the error.")

OUTCOME = _attribute("outcome", "Of a request: `stop`, `length`, `cancelled`, or the class of its error.")
LABEL_MODE = _attribute("mode", "As `outrider.round.mode`.")
LABEL_K = _attribute("draft_tokens", "Draft tokens sent to verify in the round.")
LABEL_DRAFTER = _attribute("drafter", "`ngram` or `model`.")
LABEL_POSITION = _attribute("position", "Place in the block, from 0 as in vLLM.")
LABEL_RESULT = _attribute("result", "Of a look-ahead: `hit` (in time) or `miss`; a late one may still be used.")
LABEL_TIER = _attribute("tier", "`draft` or `target`.")
LABEL_DIRECTION = _attribute("direction", "`sent` or `received`, as the orchestrator sees it.")
LABEL_REASON = _attribute("reason", "Why, in one word.")
LABEL_STATE = _attribute("state", "Of a replica: `ready`, `unavailable` or `refused`; of KV blocks: `used` or `free`.")
LABEL_CERTIFICATE = _attribute(
    "certificate", "`own`: the one that this process shows; `ca`: all that sign those of its peers, as one."
)

_REQUEST_S = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_FIRST_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_TOKEN_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_SHORT_S = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_BOTH = "draft, target"


def _counter(name: str, unit: str, meaning: str, *labels: str, by: str = "orchestrator") -> Metric:
    return _metric(Metric(name, "counter", unit, meaning, labels, by=by))


def _gauge(name: str, unit: str, meaning: str, *labels: str, by: str = "orchestrator") -> Metric:
    return _metric(Metric(name, "gauge", unit, meaning, labels, by=by))


def _histogram(
    name: str, unit: str, meaning: str, bounds: tuple[float, ...], *labels: str, by: str = "orchestrator"
) -> Metric:
    return _metric(Metric(name, "histogram", unit, meaning, labels, bounds, by))


M_REQUEST = _histogram(
    "gen_ai.server.request.duration", "s", "A request, whatever became of it.", _REQUEST_S, REQUEST_MODEL, ERROR_TYPE
)
M_TTFT = _histogram(
    "gen_ai.server.time_to_first_token", "s", "From a request's arrival to its first token.", _FIRST_S, REQUEST_MODEL
)
M_TPOT = _histogram(
    "gen_ai.server.time_per_output_token", "s", "Per token after the first, per request.", _TOKEN_S, REQUEST_MODEL
)
M_QUEUE = _histogram("outrider.request_queue_time", "s", "Wait for a place among the answers that run.", _FIRST_S)
M_REQUESTS = _counter("outrider.requests", "{request}", "Requests that have ended.", OUTCOME)
M_REFUSALS = _counter("outrider.refusals", "{request}", "Requests that were not let in.", LABEL_REASON)
M_PROMPT = _counter("outrider.prompt_tokens", "{token}", "Tokens of prompts.")
M_CACHED = _counter("outrider.cached_prompt_tokens", "{token}", "Of those, what targets did not compute.")
M_EMITTED = _counter("outrider.generation_tokens", "{token}", "Tokens emitted, by the mode of their round.", LABEL_MODE)
M_ROUNDS = _counter("outrider.rounds", "{round}", "Verify rounds.", LABEL_MODE, LABEL_K)
M_DRAFTS = _counter("outrider.spec_decode_num_drafts", "{round}", "Rounds with draft tokens.")
M_PROPOSED = _counter("outrider.spec_decode_num_draft_tokens", "{token}", "Draft tokens sent to verify.", LABEL_DRAFTER)
M_ACCEPTED = _counter(
    "outrider.spec_decode_num_accepted_tokens", "{token}", "Of those, equal to the target's choices.", LABEL_DRAFTER
)
M_PROPOSED_AT = _counter(
    "outrider.spec_decode_num_draft_tokens_per_pos", "{token}", "Draft tokens at a place of the block.", LABEL_POSITION
)
M_ACCEPTED_AT = _counter(
    "outrider.spec_decode_num_accepted_tokens_per_pos", "{token}", "Of those, accepted.", LABEL_POSITION
)
M_LOOK_AHEADS = _counter("outrider.look_aheads", "{round}", "Rounds in which the draft looked ahead.", LABEL_RESULT)
M_WASTED = _counter(
    "outrider.look_ahead_wasted_tokens", "{token}", "Draft tokens that came in time, for what did not happen."
)
M_ROUND = _histogram("outrider.round.duration", "s", "A round, from its plan to its commit.", _SHORT_S, LABEL_MODE)
M_EXCHANGE = _histogram(
    "outrider.exchange.duration", "s", "From a message to its answer; in a run from verdict to verdict.", _SHORT_S,
    LABEL_TIER,
)  # fmt: skip
M_NETWORK = _histogram(
    "outrider.exchange.network_time",
    "s",
    "Of an exchange, what the replica does not account for.",
    _SHORT_S,
    LABEL_TIER,
)
M_BYTES = _counter("outrider.exchange.io", "By", "Bytes of messages, without framing.", LABEL_TIER, LABEL_DIRECTION)
M_MISSES = _counter(
    "outrider.cache_misses", "{round}", "Answers that the prefix is not cached: `moved` (another replica) or `lost`.",
    LABEL_TIER, LABEL_REASON,
)  # fmt: skip
M_FAILOVERS = _counter("outrider.failovers", "{stream}", "Streams that were given up.", LABEL_TIER, LABEL_REASON)
M_FAULTS = _counter("outrider.draft_faults", "{round}", "Rounds in which the draft should have guessed and did not.")
M_RUNNING = _gauge("outrider.num_requests_running", "{request}", "Answers being made.")
M_WAITING = _gauge("outrider.num_requests_waiting", "{request}", "Requests that wait for a place.")
M_SESSIONS = _gauge("outrider.sessions", "{session}", "Sessions kept for another turn.")
M_REPLICAS = _gauge("outrider.replicas", "{replica}", "Replicas that are known.", LABEL_TIER, LABEL_STATE)
M_JOURNAL = _gauge("outrider.journal_ready", "1", "1 while the journal takes what it is given; left out without one.")

M_PASS = _histogram("outrider.pass.duration", "s", "A forward pass.", _SHORT_S, by=_BOTH)
M_ROWS = _histogram("outrider.pass.rows", "{row}", "Rows of a forward pass, without padding.", _ROWS, by=_BOTH)
M_ROUND_QUEUE = _histogram(
    "outrider.round_queue_time", "s", "Wait of a round before its first pass.", _SHORT_S, by=_BOTH
)
M_BUSY = _counter("outrider.busy_time", "s", "Time in forward passes; its rate is the busy ratio.", by=_BOTH)
M_SERVED = _counter("outrider.rounds_served", "{round}", "Rounds answered, CacheMisses left out.", by=_BOTH)
M_MISSED = _counter(
    "outrider.rounds_missed", "{round}",
    "Rounds answered with a CacheMiss: nothing cached (`empty`) or less than believed (`shorter`).",
    LABEL_REASON, by=_BOTH,
)  # fmt: skip
M_PENDING = _gauge("outrider.rounds_pending", "{round}", "Rounds that wait for or take part in a pass.", by=_BOTH)
M_HELD = _gauge("outrider.sessions_cached", "{session}", "Sessions that hold cache.", by=_BOTH)
M_BLOCKS = _gauge("outrider.kv_cache.blocks", "{block}", "Blocks of the KV cache.", LABEL_STATE, by=_BOTH)
M_KV = _gauge("outrider.kv_cache_usage", "1", "Share of the KV cache in use.", by=_BOTH)
M_EVICTIONS = _counter(
    "outrider.kv_cache.evictions", "{session}", "Sessions that lost their cache to others.", by=_BOTH
)
M_LOOKED_UP = _counter("outrider.prefix_cache_queries", "{token}", "Tokens looked up in the prefix cache.", by=_BOTH)
M_FOUND = _counter("outrider.prefix_cache_hits", "{token}", "Of those, found, so not computed.", by=_BOTH)
M_CALLS = _histogram(
    "rpc.server.call.duration", "s", "A gRPC call, not one over HTTP.", _REQUEST_S,
    RPC_METHOD, RPC_STATUS, by="all",
)  # fmt: skip
M_CERTIFICATE_BEGINS = _gauge(
    "outrider.certificate.not_before_timestamp", "s",
    "Unix time from which the certificate in use is valid; left out without TLS.", LABEL_CERTIFICATE, by="all",
)  # fmt: skip
M_CERTIFICATE_ENDS = _gauge(
    "outrider.certificate.not_after_timestamp", "s", "Unix time at which it expires.", LABEL_CERTIFICATE, by="all"
)


def _table(title: str, names: list[Name]) -> list[str]:
    rows = [f"| `{each.name}` | {each.meaning} |" for each in names]
    return ["", f"## {title}", "", "| name | meaning |", "| --- | --- |", *rows]


def _metric_row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    cells = (f"`{metric.name}`", f"`{metric.prometheus}`", metric.kind, f"`{metric.unit}`", labels, metric.by)
    return f"| {' | '.join(cells)} | {metric.meaning} |"


def document() -> str:
    """docs/telemetry.md."""
    lines = [
        "# Telemetry",
        "",
        "Made from `outrider/semconv.py` by `make docs`; do not edit. What the numbers are good for:",
        "[why-is-it-slow.md](why-is-it-slow.md).",
        *_table("Spans", SPANS),
        *_table("Events", EVENTS),
        *_table("Attributes of spans and metrics", ATTRIBUTES),
        "",
        "## Metrics",
        "",
        "| name | in Prometheus | kind | unit | attributes | of | meaning |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *map(_metric_row, METRICS),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")
