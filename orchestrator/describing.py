"""What is told of an answer beside its text: attributes of its span, fields of its line in the log, its counts."""

import contextlib
from collections.abc import Iterator

from orchestrator.observer import Seen
from orchestrator.request import Turn
from orchestrator.session import Generation
from outrider import semconv
from outrider.wire import ReplicaFacts


def describe_request(seen: Seen, turn: Turn, facts: ReplicaFacts, prompt_length: int) -> None:
    """What was asked for."""
    seen.model = facts.model_id
    seen.facts["prompt_tokens"] = prompt_length
    seen.meters.prompt.add(prompt_length)
    seen.span.set_attributes(
        {
            semconv.OPERATION: "chat" if turn.input.messages is not None else "text_completion",
            semconv.PROVIDER: "outrider",
            semconv.REQUEST_MODEL: facts.model_id,
            semconv.REQUEST_TEMPERATURE: turn.params.temperature,
            semconv.REQUEST_TOP_P: turn.params.top_p,
            semconv.REQUEST_TOP_K: turn.params.top_k,
            semconv.REQUEST_SEED: str(turn.params.seed),
            semconv.REQUEST_MAX_TOKENS: turn.max_new_tokens,
            semconv.INPUT_TOKENS: prompt_length,
        }
    )


def outcome_of(generation: Generation) -> str:
    """How an answer that is complete came to its end."""
    return generation.answer.finished.value if generation.answer.finished else ""


@contextlib.contextmanager
def describing_answer(seen: Seen, generation: Generation) -> Iterator[None]:
    """While its rounds run; at their end, whatever it is, it is told what they came to."""
    try:
        yield
    finally:
        totals, finish = generation.totals, outcome_of(generation)
        seen.meters.cached.add(totals.cached_prompt_tokens)
        seen.meters.faults.add(totals.draft_faults)
        seen.facts |= {"rounds": totals.rounds, "proposed": totals.proposed, "accepted": totals.accepted}
        seen.span.set_attributes(
            {
                semconv.OUTPUT_TOKENS: totals.emitted,
                semconv.CACHED_PROMPT: totals.cached_prompt_tokens,
                semconv.REQUEST_ROUNDS: totals.rounds,
                semconv.REQUEST_PROPOSED: totals.proposed,
                semconv.REQUEST_ACCEPTED: totals.accepted,
                **({semconv.FINISH_REASONS: [finish]} if finish else {}),
            }
        )
