"""Tokenizers whose tokens are bytes, built here: one as of GPT-2, one with byte fallback as of Llama."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

SPECIAL = "<|end|>"
MERGES = [(b"h", b"e"), (b"\xf0", b"\x9f"), (b"\xf0\x9f", b"\x98"), (b" ", b"a"), (b"\xe4", b"\xbd"), (b"\x80", b"b")]
"""Some of them end inside a character."""


def byte_names() -> list[str]:
    """GPT-2's printable name of each byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    names = {byte: chr(byte) for byte in printable}
    hidden = (byte for byte in range(256) if byte not in names)
    names.update({byte: chr(256 + n) for n, byte in enumerate(hidden)})
    return [names[byte] for byte in range(256)]


def byte_level() -> Tokenizer:
    """Ids 0 to 255 are the bytes, then one id per merge, then a special token."""
    names = byte_names()
    merges = [("".join(names[b] for b in left), "".join(names[b] for b in right)) for left, right in MERGES]
    vocabulary = {name: byte for byte, name in enumerate(names)}
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([SPECIAL])
    return tokenizer


def byte_fallback() -> Tokenizer:
    """Ids 0 to 255 are <0x00> to <0xFF>; then a few words."""
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)}
    for word in ("hello", " world", "a"):
        vocabulary[word] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path, config: dict[str, Any] | None = None, template: str = "") -> str:
    """Write a model folder's tokenizer files; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    if template:
        (folder / "chat_template.jinja").write_text(template)
    return str(folder)
