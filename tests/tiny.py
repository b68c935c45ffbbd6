"""Tiny random-weight models and their tokenizer, as folders that the services load like any other model.

The weights are drawn with a wide spread, so that logits are peaked: a greedy answer is then no constant
loop, and near ties between the two best tokens are rare.
"""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

VOCABULARY = 320
SPECIALS = ("<|endoftext|>", "<s>", "<|im_start|>", "<|im_end|>")
BOS, EOS = 1, 3
WINDOW = 16
SPREAD = 0.3
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_CORPUS = (
    "the quick brown fox jumps over the lazy dog and runs away from the old house near the river",
    "speculative decoding lets a small draft model guess what the large target model would say next",
    "a token is a piece of text and a block is a row of tokens that are checked in one forward pass",
    "she sells sea shells by the sea shore while the rain in spain stays mainly in the plain",
)
_COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "initializer_range": SPREAD,
    "tie_word_embeddings": False,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
    "pad_token_id": 0,
}


def build_tokenizer(swapped: tuple[str, str] | None = None) -> Tokenizer:
    """Byte-level BPE of exactly VOCABULARY tokens; ``swapped`` exchanges the ids of two tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    if swapped:
        description = json.loads(tokenizer.to_str())
        vocabulary = description["model"]["vocab"]
        one, other = swapped
        vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
        tokenizer = Tokenizer.from_str(json.dumps(description))
    return tokenizer


def save_tokenizer(folder: Path, swapped: tuple[str, str] | None = None) -> None:
    """Write tokenizer.json and tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    build_tokenizer(swapped).save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIALS[BOS],
        "eos_token": SPECIALS[EOS],
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def _llama(changes: dict[str, Any]) -> Any:
    return LlamaForCausalLM(LlamaConfig(**(_COMMON | changes)))


def _mistral(changes: dict[str, Any]) -> Any:
    return MistralForCausalLM(MistralConfig(**(_COMMON | {"sliding_window": WINDOW} | changes)))


def _qwen2(changes: dict[str, Any]) -> Any:
    return Qwen2ForCausalLM(Qwen2Config(**(_COMMON | changes)))


def _qwen3(changes: dict[str, Any]) -> Any:
    return Qwen3ForCausalLM(Qwen3Config(**(_COMMON | {"head_dim": 16} | changes)))


def _gemma3(changes: dict[str, Any]) -> Any:
    own = {
        "num_hidden_layers": 3,
        "head_dim": 16,
        "query_pre_attn_scalar": 16,
        "sliding_window": WINDOW,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    }
    return Gemma3ForCausalLM(Gemma3TextConfig(**(_COMMON | own | changes)))


def _gpt2(changes: dict[str, Any]) -> Any:
    own = {
        "vocab_size": VOCABULARY,
        "n_embd": 64,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 256,
        "initializer_range": SPREAD,
        "tie_word_embeddings": False,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
    }
    return GPT2LMHeadModel(GPT2Config(**(own | changes)))


ARCHITECTURES = {
    "llama": _llama,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma3": _gemma3,
    "gpt2": _gpt2,
}


def _disturb(model: Any, amount: float) -> None:
    """Add noise to every weight, so that the model agrees with the undisturbed one now and then."""
    with torch.no_grad():
        for weight in model.parameters():
            weight += torch.randn_like(weight) * weight.std() * amount


def build_model(folder: Path, architecture: str = "llama", seed: int = 0, noise: float = 0.0, **changes: Any) -> Path:
    """Write a model with its tokenizer to a folder. Equal arguments give equal weights."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = ARCHITECTURES[architecture](changes)
        if noise:
            torch.manual_seed(seed + 1)
            _disturb(model, noise)
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return folder
