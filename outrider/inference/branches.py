"""Which line of a session goes on: its main line, or a branch of its last look-ahead that the claim confirms.

A round names a path, its prefix and the tokens after it. The line with the longest common prefix with that path
becomes the session's cache; the others are given up at once. It knows tokens and sessions, not blocks or jobs.
"""

from collections.abc import Sequence

from outrider.inference.program import Program, Resumable
from outrider.inference.sessions import Session
from outrider.tokens import CacheMiss, Claim, check_claim


def adopt(session: Session, claim: Claim, tail: Sequence[int] = ()) -> CacheMiss | None:
    """Make the line that shares most with the claimed path and ``tail`` the session's own.

    When no line holds the claimed prefix, the miss of the main line, and nothing is given up: the caller comes back.
    """
    lines = [line for line in (session, *session.branches) if check_claim(claim, line.log) is None]
    if not lines or not session.branches:
        return check_claim(claim, session.log)
    path = (*claim.tokens, *tail)
    best = max(lines, key=lambda line: line.log.common_prefix(path, claim.prefix_len))  # of equals the main line
    if best is not session:
        session.take_over(best)
    session.prune()
    return None


def confirmed(session: Session, claim: Claim, program: Program) -> tuple[int, ...]:
    """What the program would choose after the claimed tokens and the session's line has chosen; mostly nothing."""
    ahead = session.ahead
    if ahead is None or not isinstance(program, Resumable) or ahead.chooser.rule != program.rule:
        return ()
    if not ahead.start <= min(claim.end, len(session.log)):
        return ()
    fresh = ahead.chooser.chosen[len(session.log) - ahead.start :]
    line = (*session.log.since(claim.prefix_len), *fresh)
    count = len(claim.tokens)
    return line[count:] if line[:count] == claim.tokens else ()
