"""Which replicas fit together, and the words when they do not."""

import dataclasses
from typing import Any

from orchestrator.pairing import draft_mismatch, target_mismatch
from outrider.wire import PROTOCOL_VERSION, ReplicaFacts

TARGET = ReplicaFacts(1, "big", "f" * 32, 49152, (0,), 8192, True, 65536, 16)


def changed(**fields: Any) -> ReplicaFacts:
    return dataclasses.replace(TARGET, **fields)


def mismatch(draft: ReplicaFacts) -> str:
    """Of a draft and TARGET."""
    return draft_mismatch(draft, "target big", TARGET.vocab_size, TARGET.tokenizer_fingerprint)


def test_equal_tokenizers_fit() -> None:
    assert target_mismatch(TARGET, 49152, "f" * 32) == ""
    assert mismatch(changed(model_id="small")) == ""


def test_padded_embedding_rows_are_no_mismatch() -> None:
    """Models of one family pad differently; the fingerprint covers what can be emitted."""
    assert mismatch(changed(vocab_size=49280)) == ""
    assert target_mismatch(changed(vocab_size=49280), 49152, "f" * 32) == ""


def test_a_draft_of_another_context_or_dtype_fits() -> None:
    assert mismatch(changed(max_positions=64, row_invariant=False, eos_token_ids=())) == ""


def test_another_tokenizer_is_refused_with_both_sides_named() -> None:
    words = mismatch(changed(model_id="alien", tokenizer_fingerprint="a" * 32, vocab_size=50257))
    for part in ("draft alien has 50257 tokens", "a" * 12, "target big has 49152 tokens", "f" * 12):
        assert part in words


def test_a_target_of_another_tokenizer_than_the_orchestrators_is_refused() -> None:
    words = target_mismatch(TARGET, 50257, "b" * 32)
    for part in ("target big has 49152 tokens", "the orchestrator has 50257 tokens", "b" * 12):
        assert part in words


def test_another_protocol_version_is_refused_first() -> None:
    newer = changed(protocol_version=PROTOCOL_VERSION + 1, tokenizer_fingerprint="a" * 32)
    assert f"protocol {PROTOCOL_VERSION + 1}" in target_mismatch(newer, 49152, "f" * 32)
    assert f"protocol {PROTOCOL_VERSION + 1}" in mismatch(newer)
