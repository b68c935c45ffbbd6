"""The spans of traces as requests: rounds with their tokens by fate, what went wrong in them, and bars on three lanes.

Pure: it reads spans, from an orchestrator or from a file, and does not know how they are shown.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from outrider import semconv
from outrider.cli.bars import LANE_OF, bars_of_round, number, one_way_us
from outrider.cli.notes import notes_of
from outrider.cli.traced import UNFINISHED, Fate, Request, Round, Token
from outrider.otlp_json import SpanRecord

Below = Mapping[tuple[str, str], Sequence[SpanRecord]]
"""Spans by trace and parent."""
_OURS = {semconv.SESSION_ID, semconv.OUTCOME}
"""Others may call a span `generate` too; a request that was refused at the door has no session."""
_LONGEST = 100_000
"""Tokens of a round. None has nearly so many; a file may say anything."""


def requests_of(spans: Iterable[SpanRecord]) -> list[Request]:
    """The requests among spans of any traces, the last one last. Raises ValueError for attributes of a wrong type."""
    unique = {(span.trace_id, span.span_id): span for span in spans}.values()
    below: dict[tuple[str, str], list[SpanRecord]] = {}
    for span in sorted(unique, key=lambda span: span.start_ns):
        below.setdefault((span.trace_id, span.parent_id), []).append(span)
    roots = [span for span in unique if span.name == semconv.SPAN_GENERATE and not _OURS.isdisjoint(span.attributes)]
    return [_request(root, below) for root in sorted(roots, key=lambda span: span.start_ns)]


def _below(below: Below, span: SpanRecord, *names: str) -> list[SpanRecord]:
    return [each for each in below.get((span.trace_id, span.span_id), ()) if each.name in names]


def _request(root: SpanRecord, below: Below) -> Request:
    known, rounds = root.attributes, _rounds(root, below)

    def took(name: str) -> int | None:
        found = _below(below, root, name)
        return (found[0].end_ns - found[0].start_ns) // 1000 if found else None

    def count(name: str, otherwise: int = 0) -> int:
        return int(number(known, name, otherwise))

    return Request(
        trace_id=root.trace_id,
        session_id=str(known.get(semconv.SESSION_ID, "")),
        model=str(known.get(semconv.REQUEST_MODEL, "")),
        outcome=str(known.get(semconv.OUTCOME, "")),
        error=root.error,
        started_unix_ns=root.start_ns,
        took_us=(root.end_ns - root.start_ns) // 1000,
        prompt_tokens=count(semconv.INPUT_TOKENS),
        cached_prompt_tokens=count(semconv.CACHED_PROMPT),
        completion_tokens=count(semconv.OUTPUT_TOKENS, sum(done.emitted for done in rounds)),
        proposed=count(semconv.REQUEST_PROPOSED, sum(done.proposed for done in rounds)),
        accepted=count(semconv.REQUEST_ACCEPTED, sum(done.accepted for done in rounds)),
        first_token_us=int(number(known, semconv.TTFT_S) * 1e6) if semconv.TTFT_S in known else None,
        queue_us=took(semconv.SPAN_QUEUE),
        prompt_us=took(semconv.SPAN_PROMPT),
        prefill_us=took(semconv.SPAN_PREFILL),
        left_out=count(semconv.SPANS_LEFT_OUT),
        rounds=rounds,
    )


def _rounds(root: SpanRecord, below: Below) -> tuple[Round, ...]:
    pairs = [(span, _below(below, span, *LANE_OF)) for span in _below(below, root, semconv.SPAN_ROUND)]
    way_us = one_way_us(exchange for _, exchanges in pairs for exchange in exchanges)
    return tuple(_round(span, exchanges, root.start_ns, way_us) for span, exchanges in pairs)


def _round(span: SpanRecord, exchanges: Sequence[SpanRecord], origin_ns: int, way_us: int) -> Round:
    known = span.attributes
    numbered = next((each.attributes for each in (span, *exchanges) if semconv.ROUND in each.attributes), known)
    return Round(
        number=int(number(numbered, semconv.ROUND)),
        mode=str(known.get(semconv.MODE, UNFINISHED)),
        start_us=(span.start_ns - origin_ns) // 1000,
        end_us=(span.end_ns - origin_ns) // 1000,
        draft_tokens=int(number(known, semconv.DRAFT_TOKENS)),
        proposed=int(number(known, semconv.PROPOSED)),
        accepted=int(number(known, semconv.ACCEPTED)),
        emitted=int(number(known, semconv.EMITTED)),
        prepared=known.get(semconv.PREPARED) is True,
        look_ahead_hit=known.get(semconv.LOOK_AHEAD_HIT),
        tokens=tuple(_tokens(known)),
        bars=bars_of_round(span, exchanges, origin_ns, way_us),
        notes=notes_of(span, exchanges, origin_ns),
    )


def _tokens(known: Mapping[str, Any]) -> Iterator[Token]:
    """Accepted, rejected, then the target's own: what was committed, and what was not."""
    accepted, proposed = int(number(known, semconv.ACCEPTED)), int(number(known, semconv.PROPOSED))
    emitted = int(number(known, semconv.EMITTED))
    block = _said(known, semconv.BLOCK_TEXTS, semconv.BLOCK_TOKENS, proposed)
    committed = _said(known, semconv.EMITTED_TEXTS, semconv.EMITTED_TOKENS, emitted)
    own = Fate.PLAIN if not proposed else Fate.BONUS if accepted == proposed else Fate.CORRECTION
    for fate, said in (
        (Fate.ACCEPTED, committed[:accepted]),
        (Fate.REJECTED, block[accepted:]),
        (own, committed[accepted:]),
    ):
        yield from (Token(fate, text, id) for text, id in said)


def _said(known: Mapping[str, Any], texts: str, ids: str, count: int) -> list[tuple[str | None, int | None]]:
    """Text and id of each of ``count`` tokens, as far as they are known. Raises ValueError."""
    if not 0 <= count <= _LONGEST:
        raise ValueError(f"a round with {count} tokens; it must be 0 to {_LONGEST}")
    each = zip_longest(_listed(known, texts, str)[:count], _listed(known, ids, int)[:count], range(count))
    return [(text, id) for text, id, _ in each]


def _listed(known: Mapping[str, Any], name: str, kind: type) -> list[Any]:
    value = known.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, kind) for each in value):
        raise ValueError(f"{name} is {value!r}; it must be a list of {kind.__name__}")
    return value
