"""What may be spent on learning: about one per cent of the time, shared by all answers of a pool.

Accounts are kept in tokens: what the target alone would have made in the time. It does not know what is learned.
"""

from orchestrator.decay import Level

_SHARE, _LEAST_SHARE = 0.01, 0.006
"""Of the tokens made, what probes may cost; less while they teach nothing."""
_PATIENCE = 8.0
"""Probes without news after which about a third less is spent."""
_START, _LEAST = 4.0, 1.5
"""Tokens that a new pool may spend at once, and that may always be saved."""
_LOST_AFTER = 64.0
"""Tokens per session after which a probe that never came back is forgotten."""
_SHADOW = 1.0
"""Tokens per session after a probe in which rounds that it delayed are still reported."""
_CREDIT, _DEBIT = 3.0, 1.0
"""Tokens that an accepted token beyond what was expected is worth, and one that stayed out: where things got better,
probes come densely."""
_NEWS = 0.25
"""Surprise above which the next probe need not wait."""
_PAUSE, _LONGEST_PAUSE, _FIRST = 32.0, 256.0, 4
"""Tokens made by all between others: at first, and after many that told no news; the first few probes need not wait."""
_HALF_LIFE = 4096.0


class Budget:
    """Tokens that probes may lose. One probe of the draft is out at a time: it teaches all answers.

    What is charged is the loss expected from the acceptance believed in. What came beyond it is credited and what
    stayed below is debited, so that probes go on while the belief is too low.
    """

    def __init__(self) -> None:
        self._tokens = _START
        self._share = _SHARE
        self._wanted = 0.0
        self._out = False
        self._made = self._next = 0.0
        self._settled = 0
        self._pause = _PAUSE
        self._since = -_LOST_AFTER
        self._burden = 0.0
        self._usual_burden = Level(_HALF_LIFE)

    def earn(self, tokens: float) -> None:
        """Tokens were made. Savings end at what the dearest probe wanted costs, so that cheap ones come one by one."""
        self._made += tokens
        most = max(self._tokens, _LEAST, 1.2 * self._wanted)
        self._tokens = min(most, self._tokens + tokens * self._share)

    def allows(self, price: float, now: float) -> bool:
        """Whether a probe of an expected loss of ``price`` to its own answer may start."""
        self._wanted = price + self._usual_burden.value
        return not self._is_out(now) and self._made >= self._next and self._wanted <= self._tokens

    def _is_out(self, now: float) -> bool:
        return self._out and now - self._since < _LOST_AFTER

    def delays(self, now: float) -> bool:
        """Whether rounds that are reported now may have been delayed by a probe."""
        return self._is_out(now) or now - self._since < _SHADOW

    def start(self, now: float) -> None:
        """A probe of the draft is out."""
        if self._settled:
            self._usual_burden.note(max(self._burden, 1e-6), now)
        self._out, self._since, self._burden = True, now, 0.0

    def burden(self, tokens: float) -> None:
        """A round of another answer, beside a probe, lost so many tokens."""
        self._burden += tokens
        self._tokens -= tokens

    def settle(self, loss: float, surprise: float, now: float) -> None:
        """It came back, having cost ``loss``, with ``surprise`` more tokens accepted than expected."""
        self._out, self._since = False, now
        self._settled += 1
        if surprise > _NEWS or self._settled < _FIRST:
            self._pause, self._next = _PAUSE, self._made
        else:
            self._pause, self._next = min(_LONGEST_PAUSE, 2 * self._pause), self._made + self._pause
        self._share = _SHARE if surprise > 0 else max(_LEAST_SHARE, self._share * (1 - 1 / _PATIENCE))
        left = self._tokens - loss
        worth = surprise * (_CREDIT if surprise > 0 else _DEBIT)
        self._tokens = min(_START, max(min(left, 0.0), left + worth))

    def pay(self, loss: float) -> None:
        """Charge a loss that is known beforehand."""
        self._tokens -= loss
