"""What an answer says to its client, as messages: values in, protobuf out. It decides nothing and keeps nothing."""

from orchestrator.answer import FinishReason
from orchestrator.conversations import Conversation
from orchestrator.journal import JournalState
from orchestrator.member import Member, State
from orchestrator.plans import Drafter
from orchestrator.pool import Pool
from orchestrator.recital import Part
from orchestrator.request import Turn
from orchestrator.session import Generation
from orchestrator.totals import Round
from outrider.v1 import orchestrator_pb2 as pb
from outrider.wire import ReplicaFacts, facts_to_pb

_REASONS = {FinishReason.STOP: pb.FINISH_REASON_STOP, FinishReason.LENGTH: pb.FINISH_REASON_LENGTH}
_DRAFTERS = {
    Drafter.NONE: pb.DRAFTER_UNSPECIFIED,
    Drafter.MODEL: pb.DRAFTER_MODEL,
    Drafter.NGRAM: pb.DRAFTER_NGRAM,
}
_STATES = {
    State.READY: pb.REPLICA_STATE_READY,
    State.UNAVAILABLE: pb.REPLICA_STATE_UNAVAILABLE,
    State.REFUSED: pb.REPLICA_STATE_REFUSED,
}

JOURNAL_STATES = {
    JournalState.ABSENT: pb.JOURNAL_STATE_ABSENT,
    JournalState.READY: pb.JOURNAL_STATE_READY,
    JournalState.UNAVAILABLE: pb.JOURNAL_STATE_UNAVAILABLE,
}


def started(
    conversation: Conversation, turn: Turn, facts: ReplicaFacts, drafts: Pool, prompt_length: int, resumable: bool
) -> pb.GenerateResponse:
    """The first event of an answer of the target that ``facts`` describe."""
    return pb.GenerateResponse(
        started=pb.Started(
            session_id=conversation.session_id,
            seed=turn.params.seed,
            target_model=facts.model_id,
            draft_model=drafts.facts.model_id if drafts.facts and drafts.ready else "",
            prompt_tokens=prompt_length,
            resumable=resumable,
            turn=conversation.turns,
        )
    )


def delta(part: Part, done: Round) -> pb.GenerateResponse:
    """What the client hears of a round."""
    stats = pb.RoundStats(
        round=done.number,
        draft_tokens=done.block,
        num_accepted=done.num_accepted,
        propose_us=done.propose_us,
        verify_us=done.verify_us,
        drafter=_DRAFTERS[done.drafter],
        prepared=done.prepared,
    )
    told = pb.Delta(text=part.text, token_ids=part.tokens, logprobs=part.logprobs, round=stats)
    return pb.GenerateResponse(delta=told)


def finished(generation: Generation, prompt_length: int, turns: int, crossed: bool = False) -> pb.GenerateResponse:
    """The last event of an answer that has come to its end. ``crossed``: it went on at a target of other numerics."""
    totals, answer = generation.totals, generation.answer
    assert answer.finished is not None
    usage = pb.Usage(
        prompt_tokens=prompt_length,
        completion_tokens=len(answer.tokens),
        cached_prompt_tokens=min(totals.cached_prompt_tokens, prompt_length),
    )
    summary = pb.SpeculationSummary(
        rounds=totals.rounds,
        proposed=totals.proposed,
        accepted=totals.accepted,
        emitted=totals.emitted,
        draft_faults=totals.draft_faults,
        copied=totals.copied,
        look_aheads=totals.look_aheads,
        look_ahead_hits=totals.hits,
    )
    reason = _REASONS[answer.finished]
    told = pb.Finished(reason=reason, usage=usage, speculation=summary, numerics_changed=crossed, turns=turns)
    return pb.GenerateResponse(finished=told)


def status(member: Member) -> pb.ReplicaStatus:
    """A replica as last seen."""
    return pb.ReplicaStatus(
        address=member.address,
        state=_STATES[member.state],
        reason=member.reason,
        info=facts_to_pb(member.facts) if member.facts else None,
        sessions=len(member.streams),
        leaving=member.leaving,
    )


def best(pool: Pool) -> pb.ReplicaStatus:
    """The first replica in use, else the first one; that of a pool without any says so."""
    members = sorted(pool.members, key=lambda member: member.state is not State.READY)
    return status(members[0]) if members else pb.ReplicaStatus(state=pb.REPLICA_STATE_ABSENT)
