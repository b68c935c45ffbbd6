"""Counter-based random numbers from integer arithmetic: a function of (seed, position, token), no state.

The generator is SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): token i of a position takes the i-th value
of the stream that (seed, position) selects. Integers wrap modulo 2**64 on every machine, so the draws have
the same bits everywhere; a golden-vector test pins them. They are made on the host, whatever the model runs on.
"""

import numpy as np
import numpy.typing as npt

from outrider.hashing import GOLDEN, MASK64, MIX_1, MIX_2, mix64

Draws = npt.NDArray[np.uint64]
"""52 random bits each."""
Doubles = npt.NDArray[np.float64]

_BITS = 52


def stream_key(seed: int, position: int) -> int:
    """Start of the stream of one position."""
    return mix64(mix64(seed + GOLDEN) + (position + 1) * GOLDEN)


def draws(seed: int, position: int, tokens: npt.NDArray[np.int64]) -> Draws:
    """52-bit integers for tokens [n] at an absolute position."""
    bits = tokens.view(np.uint64) * np.uint64(GOLDEN)
    bits += np.uint64((stream_key(seed, position) + GOLDEN) & MASK64)
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(MIX_1)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(MIX_2)
    bits ^= bits >> np.uint64(31)
    bits >>= np.uint64(64 - _BITS)
    return bits


def uniforms(drawn: Draws) -> Doubles:
    """Uniforms in (0, 1), never 0 or 1: (draw + 1/2) / 2**52."""
    return (drawn.astype(np.float64) + 0.5) * 2.0**-_BITS


def gumbel(drawn: Draws) -> Doubles:
    """Standard Gumbel noise by inversion; the larger the draw, the larger the noise."""
    noise: Doubles = -np.log(-np.log(uniforms(drawn)))
    return noise
