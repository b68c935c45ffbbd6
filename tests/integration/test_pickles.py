"""A model whose weights come as a pickle is refused by name: reading one can run whatever its maker wrote into it."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from outrider.inference.model import ModelOptions, load


def test_weights_that_are_a_pickle_are_not_read(llama: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pickled"
    shutil.copytree(llama, folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(OSError, match=r"no file named model\.safetensors found in directory .*pickled"):
        load(ModelOptions(str(folder)))
