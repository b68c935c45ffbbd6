"""Whether a draft, a target and the orchestrator's tokenizer fit together. Pure; answers in words."""

from outrider.wire import PROTOCOL_VERSION, ReplicaFacts


def _vocabulary(owner: str, size: int, fingerprint: str) -> str:
    return f"{owner} has {size} tokens (fingerprint {fingerprint[:12]})"


def target_mismatch(target: ReplicaFacts, vocab_size: int, fingerprint: str) -> str:
    """Why the target cannot be used with the orchestrator's tokenizer; empty when it can."""
    if target.protocol_version != PROTOCOL_VERSION:
        return f"target speaks protocol {target.protocol_version}, this orchestrator {PROTOCOL_VERSION}"
    if target.tokenizer_fingerprint != fingerprint:
        theirs = _vocabulary(f"target {target.model_id}", target.vocab_size, target.tokenizer_fingerprint)
        return f"tokenizers differ: {theirs}, {_vocabulary('the orchestrator', vocab_size, fingerprint)}"
    return ""


def draft_mismatch(draft: ReplicaFacts, owner: str, vocab_size: int, fingerprint: str) -> str:
    """Why a draft cannot serve a target with such a vocabulary; empty when it can. ``owner``: whose it is, in words;
    all targets that are used have the orchestrator's.

    Padded embedding rows are no mismatch: fingerprints cover only the tokens that can be emitted.
    """
    if draft.protocol_version != PROTOCOL_VERSION:
        return f"draft speaks protocol {draft.protocol_version}, this orchestrator {PROTOCOL_VERSION}"
    if draft.tokenizer_fingerprint != fingerprint:
        theirs = _vocabulary(f"draft {draft.model_id}", draft.vocab_size, draft.tokenizer_fingerprint)
        return f"tokenizers differ: {theirs}, {_vocabulary(owner, vocab_size, fingerprint)}"
    return ""
