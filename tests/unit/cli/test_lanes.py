"""Spans become rounds with bars: a replica's time lies inside its exchange, whatever its clock says."""

from itertools import pairwise

import pytest

from outrider import otlp_json, semconv
from outrider.cli.bars import Bar, Kind, Lane
from outrider.cli.lanes import requests_of
from outrider.cli.traced import UNFINISHED, Fate, Request, Round
from tests.unit.cli.traces import DRAFT, ORIGIN_NS, TARGET, Trace, event, otlp, timings, two_rounds


def read(trace: Trace) -> Request:
    """As through a file."""
    (request,) = requests_of(otlp_json.read(otlp(trace.spans)))
    return request


def lane(done: Round, which: Lane) -> list[tuple[Kind, int, int]]:
    return [(bar.kind, bar.start_us, bar.end_us) for bar in done.bars if bar.lane is which]


def test_a_request_says_what_its_spans_say() -> None:
    request = read(two_rounds())
    assert (request.session_id, request.trace_id, request.model) == ("s" * 32, "a" * 32, "/models/big")
    assert (request.took_us, request.first_token_us, request.queue_us) == (50_000, 12_000, 500)
    assert (request.prefill_us, request.prompt_us, request.outcome) == (10_000, None, "stop")
    assert (request.prompt_tokens, request.cached_prompt_tokens) == (30, 8)
    assert (request.completion_tokens, request.proposed, request.accepted) == (3, 2, 1), "summed where it does not say"
    assert [(done.number, done.start_us, done.end_us) for done in request.rounds] == [
        (0, 1000, 12_000),
        (1, 20_000, 50_000),
    ]


def test_a_replica_s_time_is_half_the_network_in_then_its_queue_then_its_passes() -> None:
    done = read(two_rounds()).rounds[1]
    assert lane(done, Lane.TARGET) == [
        (Kind.NETWORK, 30_000, 32_000),
        (Kind.WAIT, 32_000, 34_000),
        (Kind.WORK, 34_000, 46_000),
        (Kind.NETWORK, 46_000, 48_000),
    ]
    assert lane(done, Lane.DRAFT) == [
        (Kind.NETWORK, 21_000, 23_000),
        (Kind.WORK, 23_000, 27_000),
        (Kind.NETWORK, 27_000, 29_000),
    ], "a wait of nothing is no bar"


def test_the_orchestrator_has_what_no_exchange_has_that_it_waits_for() -> None:
    done = read(two_rounds()).rounds[1]
    assert lane(done, Lane.ORCHESTRATOR) == [
        (Kind.WORK, 20_000, 21_000),
        (Kind.WORK, 29_000, 30_000),
        (Kind.WORK, 48_000, 50_000),
    ]


def test_all_bars_that_are_waited_for_fill_their_round_without_a_gap() -> None:
    for done in read(two_rounds()).rounds:
        bars = sorted(done.bars, key=lambda bar: bar.start_us)
        assert all(before.end_us == after.start_us for before, after in pairwise(bars))
        assert (bars[0].start_us, bars[-1].end_us) == (done.start_us, done.end_us)


def test_in_a_run_the_target_ends_its_pass_a_way_before_the_verdict_comes() -> None:
    """Nobody asked for it, so nobody knows what the network took; the quickest way that was seen stands in."""
    trace = two_rounds()
    root = trace.spans[0].span_id
    third = trace.round(root, 2, 50_000, 60_500)
    trace.add(semconv.SPAN_VERIFY_CLIENT, third, 50_000, 60_000, attributes={**timings(0, 9_500, None), **TARGET})
    done = read(trace).rounds[2]
    assert lane(done, Lane.TARGET) == [(Kind.WORK, 49_500, 59_000), (Kind.NETWORK, 59_000, 60_000)]


def test_looking_ahead_runs_beside_the_target_and_beyond_the_round() -> None:
    trace = Trace()
    root = trace.request(40_000)
    done = trace.round(root, 0, 0, 20_000, ["a"], ["a", "b"], 1, mode="look_ahead")
    trace.add(semconv.SPAN_VERIFY_CLIENT, done, 0, 20_000, attributes={**timings(0, 18_000, 2_000), **TARGET})
    trace.add(semconv.SPAN_LOOK_AHEAD_CLIENT, done, 500, 26_000, attributes={**timings(0, 20_000, 2_000), **DRAFT})
    shown = read(trace).rounds[0]
    assert lane(shown, Lane.DRAFT)[1] == (Kind.WORK, 1_500, 21_500)
    assert lane(shown, Lane.ORCHESTRATOR) == [], "it does not wait for a look-ahead, so that leaves it nothing"


def test_an_answer_that_nobody_waited_for_and_one_that_failed_are_told_apart() -> None:
    trace = Trace()
    done = trace.round(trace.request(9_000), 0, 0, 9_000)
    trace.add(semconv.SPAN_LOOK_AHEAD_CLIENT, done, 0, 4_000, attributes=DRAFT)
    trace.add(semconv.SPAN_PROPOSE_CLIENT, done, 4_000, 6_000, attributes=DRAFT, error="gone")
    bars = [bar for bar in read(trace).rounds[0].bars if bar.lane is Lane.DRAFT]
    assert bars == [
        Bar(Lane.DRAFT, Kind.ASKED, 0, 4_000, semconv.SPAN_LOOK_AHEAD_CLIENT),
        Bar(Lane.DRAFT, Kind.FAILED, 4_000, 6_000, semconv.SPAN_PROPOSE_CLIENT),
    ]


def test_tokens_have_their_fate_and_their_text() -> None:
    first, second = read(two_rounds()).rounds
    assert [(token.fate, token.text) for token in first.tokens] == [(Fate.PLAIN, "The")]
    assert [(token.fate, token.text) for token in second.tokens] == [
        (Fate.ACCEPTED, " fox"),
        (Fate.REJECTED, " ran"),
        (Fate.CORRECTION, " is"),
    ]


def test_a_whole_block_ends_with_a_bonus_unless_the_answer_was_cut_before_it() -> None:
    trace = Trace()
    root = trace.request(9_000)
    trace.round(root, 0, 0, 1_000, ["a", "b"], ["a", "b", "c"], 2)
    trace.round(root, 1, 1_000, 2_000, ["a", "b"], ["a"], 2)
    whole, cut = read(trace).rounds
    assert [token.fate for token in whole.tokens] == [Fate.ACCEPTED, Fate.ACCEPTED, Fate.BONUS]
    assert [token.fate for token in cut.tokens] == [Fate.ACCEPTED]


def test_without_texts_there_are_ids_and_without_those_the_fates() -> None:
    trace = Trace()
    root = trace.request(9_000)
    ids = {semconv.BLOCK_TOKENS: [5, 6], semconv.EMITTED_TOKENS: [5, 7]}
    trace.round(root, 0, 0, 1_000, ["a", "b"], ["a", "c"], 1, texts=False, attributes=ids)
    trace.round(root, 1, 1_000, 2_000, ["a", "b"], ["a", "c"], 1, texts=False)
    told, silent = read(trace).rounds
    assert [(token.text, token.id) for token in told.tokens] == [(None, 5), (None, 6), (None, 7)]
    assert [(token.text, token.id) for token in silent.tokens] == [(None, None)] * 3
    assert [token.fate for token in told.tokens] == [token.fate for token in silent.tokens]


def test_what_went_wrong_is_told_with_its_reason_in_order_of_time() -> None:
    trace = Trace()
    failed = (event(semconv.EVENT_FAILOVER, 7_000, outrider__reason="Unavailable", server__address="target:1"),)
    fault = (event(semconv.EVENT_DRAFT_FAULT, 3_000, error__type="DeadlineExceeded"),)
    done = trace.round(trace.request(9_000), 0, 0, 9_000, events=(*failed, *fault))
    trace.add(
        semconv.SPAN_PROPOSE_CLIENT, done, 0, 3_000, error="no answer within 2 s",
        attributes={**DRAFT, semconv.ERROR_TYPE: "DeadlineExceeded"},
    )  # fmt: skip
    trace.add(
        semconv.SPAN_VERIFY_CLIENT, done, 3_000, 7_000, error="the stream broke",
        attributes={**TARGET, semconv.ERROR_TYPE: "Unavailable"},
    )  # fmt: skip
    missed = (event(semconv.EVENT_CACHE_MISS, 8_000, outrider__reason="moved"),)
    trace.add(
        semconv.SPAN_VERIFY_CLIENT, done, 7_000, 8_000, attributes={semconv.SERVER_ADDRESS: "target:2"}, events=missed
    )
    notes = read(trace).rounds[0].notes
    assert [(note.at_us, note.text) for note in notes] == [
        (3_000, "draft fault: draft draft:1: DeadlineExceeded: no answer within 2 s"),
        (7_000, "fail-over: the answer leaves target target:1: Unavailable: the stream broke"),
        (8_000, "CacheMiss: target target:2 did not hold the prefix: the session was elsewhere before; "
                "the tokens are sent again"),
    ]  # fmt: skip


def test_a_round_that_never_ended_well_has_the_number_of_its_exchange() -> None:
    trace = Trace()
    done = trace.add(semconv.SPAN_ROUND, trace.request(9_000, error="no target"), 0, 9_000, error="no target")
    trace.add(semconv.SPAN_VERIFY_CLIENT, done, 0, 9_000, attributes={semconv.ROUND: 6, **TARGET}, error="gone")
    request = read(trace)
    assert (request.error, request.rounds[0].number, request.rounds[0].mode) == ("no target", 6, UNFINISHED)
    assert request.rounds[0].notes[-1].text == "the round failed: no target"


def test_requests_of_several_traces_come_in_order_and_each_keeps_its_own_rounds() -> None:
    late, early = two_rounds(trace_id="b" * 32, came_us=10_000), two_rounds(trace_id="c" * 32)
    found = requests_of([*late.spans, *early.spans, *early.spans])
    assert [each.trace_id for each in found] == ["c" * 32, "b" * 32]
    assert [len(each.rounds) for each in found] == [2, 2], "a span that was exported twice is one"
    assert found[1].started_unix_ns == ORIGIN_NS + 10_000_000
    assert found[1].rounds[0].start_us == 1_000, "times begin with the request"


def test_somebody_else_s_span_of_that_name_is_no_request() -> None:
    trace = Trace()
    trace.add(semconv.SPAN_GENERATE, "", 0, 100, attributes={"gen_ai.request.model": "other"})
    assert requests_of(trace.spans) == []


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({semconv.ROUND: "one"}, semconv.ROUND),
        ({semconv.PROPOSED: 10**9}, "1000000000 tokens"),
        ({semconv.EMITTED: -1}, "-1 tokens"),
        ({semconv.ACCEPTED: float("inf")}, semconv.ACCEPTED),
        ({semconv.BLOCK_TEXTS: "text"}, semconv.BLOCK_TEXTS),
        ({semconv.EMITTED_TOKENS: ["1"]}, semconv.EMITTED_TOKENS),
    ],
)
def test_an_attribute_of_a_wrong_kind_is_named(wrong: dict[str, object], name: str) -> None:
    trace = Trace()
    trace.round(trace.request(9_000), 0, 0, 9_000, attributes=wrong)
    with pytest.raises(ValueError, match=name):
        requests_of(trace.spans)


def test_as_json_each_lane_has_its_bars() -> None:
    told = read(two_rounds()).as_dict()
    (first, second) = told["rounds"]
    assert list(second["lanes"]) == ["orchestrator", "draft", "target"]
    assert second["lanes"]["target"][2] == {
        "kind": "work", "start_us": 34_000, "end_us": 46_000, "span": semconv.SPAN_VERIFY_CLIENT,
    }  # fmt: skip
    assert second["tokens"][1] == {"fate": "rejected", "text": " ran"}
    assert (first["round"], first["mode"], told["session_id"]) == (0, "target_only", "s" * 32)
