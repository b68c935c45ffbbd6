"""Equal copies are one model, and whatever differs in the numbers is another."""

import shutil
from pathlib import Path

import safetensors.torch
import torch

from outrider.inference.weights import weights_fingerprint


def folder(path: Path, weights: bytes = bytes(300_000), config: str = "{}") -> Path:
    path.mkdir()
    (path / "model.safetensors").write_bytes(weights)
    (path / "config.json").write_text(config)
    (path / "README.md").write_text(path.name)
    return path


def test_copies_are_equal_wherever_they_are(tmp_path: Path) -> None:
    one = folder(tmp_path / "one")
    shutil.copytree(one, tmp_path / "two")
    assert weights_fingerprint(str(one)) == weights_fingerprint(str(tmp_path / "two"))
    assert len(weights_fingerprint(str(one))) == 32


def test_other_numbers_sizes_settings_and_names_are_other_models(tmp_path: Path) -> None:
    changed = bytearray(300_000)
    changed[4000:8000] = b"x" * 4000
    folders = [
        folder(tmp_path / "one"),
        folder(tmp_path / "numbers", bytes(changed)),
        folder(tmp_path / "size", bytes(300_001)),
        folder(tmp_path / "settings", config='{"a": 1}'),
        folder(tmp_path / "short", b"x"),
        folder(tmp_path / "empty", b""),
    ]
    renamed = folder(tmp_path / "renamed")
    (renamed / "model.safetensors").rename(renamed / "other.safetensors")
    assert len({weights_fingerprint(str(each)) for each in [*folders, renamed]}) == 7


def test_a_change_in_any_tensor_is_another_model(tmp_path: Path) -> None:
    """However small it is beside the rest."""
    tensors = {f"layer.{number}": torch.zeros(64, 1024) for number in range(40)}
    found = set()
    for changed in (None, "layer.0", "layer.17", "layer.39"):
        path = tmp_path / str(changed)
        path.mkdir()
        safetensors.torch.save_file(
            {name: tensor + (name == changed) for name, tensor in tensors.items()}, path / "model.safetensors"
        )
        found.add(weights_fingerprint(str(path)))
    assert len(found) == 4
