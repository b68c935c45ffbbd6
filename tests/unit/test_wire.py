"""Values survive the wire; what a peer sent wrong is named."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider import wire
from outrider.errors import InvalidArgument
from outrider.round_timings import RoundTimings
from outrider.sampling import SamplingParams
from outrider.tokens import CacheMiss, Claim
from outrider.v1 import common_pb2, draft_pb2, target_pb2

FACTS = wire.ReplicaFacts(
    incarnation=2**64 - 1,
    model_id="m",
    tokenizer_fingerprint="f",
    vocab_size=49152,
    eos_token_ids=(0, 2),
    max_positions=8192,
    row_invariant=True,
    kv_capacity_tokens=2**40,
    max_draft_tokens=16,
    max_run=64,
    numerics=wire.Numerics("h", "b", "bfloat16", "p"),
    load=wire.LoadFacts(3, 2, 2**35, 4, 5, 6),
    weights="w" * 32,
    protocol_version=1,
)


def over_the_wire(facts: wire.ReplicaFacts) -> wire.ReplicaFacts:
    data = wire.facts_to_pb(facts).SerializeToString()
    return wire.facts_from_pb(common_pb2.ReplicaInfo.FromString(data))


def test_replica_facts_survive_the_round_trip() -> None:
    assert over_the_wire(FACTS) == FACTS


def test_no_field_of_the_handshake_is_forgotten() -> None:
    """Every field of the test's facts differs from its default, so a field that is not carried would show."""
    info = wire.facts_to_pb(FACTS)
    assert {field.name for field, _ in info.ListFields()} == {f.name for f in info.DESCRIPTOR.fields}


single = st.floats(width=32, allow_nan=False)


@given(
    temperature=st.floats(0.0625, 100.0, width=32),
    top_k=st.integers(0, 2**31 - 1),
    top_p=st.floats(0.0625, 1.0, width=32),
    min_p=st.floats(0.0, 1.0, width=32),
    seed=st.integers(0, 2**64 - 1),
)
def test_sampling_parameters_survive_the_round_trip(
    temperature: float, top_k: int, top_p: float, min_p: float, seed: int
) -> None:
    params = SamplingParams(temperature, top_k, top_p, min_p, seed)
    data = wire.sampling_to_pb(params).SerializeToString()
    assert wire.sampling_from_pb(common_pb2.SamplingParams.FromString(data)) == params


def test_draft_and_target_see_the_same_parameters_as_the_orchestrator() -> None:
    """0.8 is not a single-precision number: after the first hop it must not change again."""
    first = wire.sampling_from_pb(common_pb2.SamplingParams(temperature=0.8, top_p=0.95, min_p=0.05))
    again = wire.sampling_from_pb(wire.sampling_to_pb(first))
    assert again == first


def test_unset_sampling_is_greedy_and_keeps_all() -> None:
    assert wire.sampling_from_pb(common_pb2.SamplingParams()) == SamplingParams()


def test_a_top_p_of_zero_is_refused_and_not_taken_for_unset() -> None:
    with pytest.raises(InvalidArgument, match=r"sampling\.top_p"):
        wire.sampling_from_pb(common_pb2.SamplingParams(top_p=0.0))


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_bad_parameters_of_a_peer_are_named(value: float) -> None:
    with pytest.raises(InvalidArgument, match=r"sampling\.temperature"):
        wire.sampling_from_pb(common_pb2.SamplingParams(temperature=value))


@pytest.mark.parametrize("length", [1, 128])
def test_session_ids_of_allowed_lengths(length: int) -> None:
    assert wire.check_session_id("s" * length) == "s" * length


@pytest.mark.parametrize("length", [0, 129])
def test_session_ids_of_other_lengths_are_refused(length: int) -> None:
    with pytest.raises(InvalidArgument, match="session_id"):
        wire.check_session_id("s" * length)


def test_the_first_token_outside_the_vocabulary_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"tokens\[2\]: must be 0 to 9, got 10") as caught:
        wire.check_tokens("tokens", [0, 9, 10, 11], 10)
    assert caught.value.field == "tokens[2]"


def test_tokens_inside_the_vocabulary_pass() -> None:
    assert wire.check_tokens("tokens", [0, 9], 10) == (0, 9)
    assert wire.check_tokens("tokens", [], 10) == ()


def test_a_claim_needs_a_token() -> None:
    assert wire.claim_from(3, 7, [1], 10) == Claim(3, 7, (1,))
    with pytest.raises(InvalidArgument, match="at least one token"):
        wire.claim_from(3, 7, [], 10)


def test_misses_loads_and_timings_become_messages() -> None:
    assert wire.miss_to_pb(CacheMiss(5)).cached_len == 5
    timings = RoundTimings(1, 2, 3, 4)
    assert wire.timings_from_pb(wire.timings_to_pb(timings)) == timings
    load = wire.load_to_pb(wire.LoadFacts(1, 2, 3))
    assert (load.sessions, load.pending_rounds, load.kv_used_tokens) == (1, 2, 3)


def test_a_round_of_eight_tokens_stays_under_two_hundred_bytes_each_way() -> None:
    """Design section 5, with the largest ids of a large vocabulary and a trace context."""
    ids, big = [260_000] * 8, 2**64 - 1
    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    timings = common_pb2.Timings(queue_us=10**6, forward_us=10**6, passes=9, batch_rows=256)
    messages = [
        draft_pb2.ProposeRequest(
            round=10**4, prefix_len=10**5, prefix_digest=big, tokens=ids[:2], max_draft_tokens=8, traceparent=trace
        ),
        draft_pb2.ProposeResponse(
            round=10**4, block=draft_pb2.Block(tokens=ids, cached_len=10**5), incarnation=big, timings=timings
        ),
        target_pb2.VerifyRequest(
            round=10**4, prefix_len=10**5, prefix_digest=big, tokens=ids[:1], draft_tokens=ids, traceparent=trace
        ),
        target_pb2.VerifyResponse(
            round=10**4,
            verdict=target_pb2.Verdict(num_accepted=8, next_token=ids[0], token_logprobs=[-1.0] * 9, cached_len=10**5),
            incarnation=big,
            timings=timings,
            load=common_pb2.Load(sessions=10**4, pending_rounds=10**4, kv_used_tokens=10**7),
        ),
    ]
    assert max(message.ByteSize() for message in messages) < 200
