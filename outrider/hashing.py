"""The one integer hash of the project: digests of prefixes and keys of noise are made of it."""

MASK64 = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
MIX_1 = 0xBF58476D1CE4E5B9
MIX_2 = 0x94D049BB133111EB


def mix64(value: int) -> int:
    """SplitMix64's output function, a bijection of the integers modulo 2**64."""
    value &= MASK64
    value = ((value ^ (value >> 30)) * MIX_1) & MASK64
    value = ((value ^ (value >> 27)) * MIX_2) & MASK64
    return value ^ (value >> 31)
