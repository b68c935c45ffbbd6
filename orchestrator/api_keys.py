"""API keys: how a file names them and how a call carries them. Only digests are kept, and no message repeats a key.

Keys are long random strings, so an unsalted SHA-256 hides them, and looking one up by its digest takes a time that
tells nothing about the keys that exist.
"""

import hashlib
import re

_KEY = re.compile(r"[!-~]{1,512}")
_HASHED = re.compile(r"sha256:([0-9a-fA-F]{64})")
_BEARER = re.compile(r"bearer +([!-~]+)", re.IGNORECASE)


def digest_of(key: str) -> str:
    """What a key is known by."""
    return hashlib.sha256(key.encode()).hexdigest()


def read_key(text: str) -> str:
    """Digest of a key as a file has it, plain or hashed. Raises ValueError saying what is allowed."""
    hashed = _HASHED.fullmatch(text)
    if hashed:
        return hashed[1].lower()
    if text.startswith("sha256:") or not _KEY.fullmatch(text):
        raise ValueError("1 to 512 printable ASCII characters without spaces, or sha256: and 64 hexadecimal digits")
    return digest_of(text)


def digest_in(authorization: str) -> str | None:
    """Digest of the key that ``Bearer <key>`` carries (RFC 6750); None for anything else."""
    match = _BEARER.fullmatch(authorization.strip())
    return digest_of(match[1]) if match else None
