"""A client's values as messages, and back. It decides nothing."""

from dataclasses import replace

from outrider.client.ask import Ask
from outrider.client.events import Delta, Drafter, Finished, FinishReason, Round, SpeculationSummary, Started, Usage
from outrider.v1 import orchestrator_pb2 as pb
from outrider.wire import sampling_to_pb

_REASONS = {pb.FINISH_REASON_STOP: FinishReason.STOP, pb.FINISH_REASON_LENGTH: FinishReason.LENGTH}
_DRAFTERS = {pb.DRAFTER_MODEL: Drafter.MODEL, pb.DRAFTER_NGRAM: Drafter.NGRAM}


def _speculation(draft_tokens: int | None) -> pb.Speculation:
    if draft_tokens is None:
        return pb.Speculation(mode=pb.SPECULATION_MODE_AUTO)
    if draft_tokens == 0:
        return pb.Speculation(mode=pb.SPECULATION_MODE_OFF)
    return pb.Speculation(mode=pb.SPECULATION_MODE_FIXED, draft_tokens=draft_tokens)


def ask_to_pb(ask: Ask, seed: int, tenant: str) -> pb.GenerateRequest:
    """A request that gives the same answer whoever gets it. Raises ValueError for what the wire cannot carry."""
    request = pb.GenerateRequest(
        session_id=ask.session_id,
        sampling=sampling_to_pb(replace(ask.sampling, seed=seed)),
        max_new_tokens=ask.max_new_tokens,
        stop=ask.stop,
        stop_token_ids=ask.stop_token_ids,
        speculation=_speculation(ask.draft_tokens),
        logprobs=ask.logprobs,
        keep_session=ask.keep_session,
        ignore_eos=ask.ignore_eos,
        tenant=tenant,
        turn=ask.turn,
    )
    if ask.prompt is not None:
        request.prompt = ask.prompt
    elif ask.token_ids is not None:
        request.token_ids.CopyFrom(pb.TokenIds(ids=ask.token_ids))
    else:
        messages = (pb.ChatMessage(role=each.role, content=each.content) for each in ask.messages or ())
        request.chat.CopyFrom(pb.Chat(messages=messages))
    return request


def resume_to_pb(session_id: str, resume_from: int, tenant: str) -> pb.GenerateRequest:
    """The rest of an answer of which so many tokens are here."""
    return pb.GenerateRequest(session_id=session_id, resume_from=resume_from, tenant=tenant)


def started_from_pb(message: pb.Started) -> Started:
    """The first event."""
    return Started(
        message.session_id,
        message.seed,
        message.target_model,
        message.draft_model,
        message.prompt_tokens,
        message.resumable,
        message.turn,
    )


def _round(stats: pb.RoundStats) -> Round:
    return Round(
        stats.round,
        tuple(stats.draft_tokens),
        stats.num_accepted,
        stats.propose_us,
        stats.verify_us,
        _DRAFTERS.get(stats.drafter, Drafter.NONE),
        stats.prepared,
    )


def delta_from_pb(message: pb.Delta) -> Delta:
    """An event in the middle."""
    stats = _round(message.round) if message.HasField("round") else None
    return Delta(message.text, tuple(message.token_ids), tuple(message.logprobs), stats)


def finished_from_pb(message: pb.Finished, session_id: str, losses: int) -> Finished:
    """The last event."""
    usage, sums = message.usage, message.speculation
    return Finished(
        reason=_REASONS.get(message.reason, FinishReason.UNKNOWN),
        usage=Usage(usage.prompt_tokens, usage.completion_tokens, usage.cached_prompt_tokens),
        speculation=SpeculationSummary(
            sums.rounds,
            sums.proposed,
            sums.accepted,
            sums.emitted,
            sums.draft_faults,
            sums.copied,
            sums.look_aheads,
            sums.look_ahead_hits,
        ),
        numerics_changed=message.numerics_changed,
        session_id=session_id,
        losses=losses,
        turns=message.turns,
    )
