"""``python -m bench.speculating.random_draft DRAFT FOLDER``: a draft of the same shape that has learned nothing."""

import shutil
import sys
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def main(draft: Path, folder: Path) -> None:
    """Write the model and the draft's tokenizer."""
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig.from_pretrained(draft)).to(torch.bfloat16).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(draft / name, folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
