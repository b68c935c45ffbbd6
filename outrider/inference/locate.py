"""From a model's name to a folder on this disk. It does not load anything."""

from pathlib import Path

from huggingface_hub import snapshot_download

_WANTED = ("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt")


def model_folder(model: str) -> str:
    """The folder itself, or the snapshot of a Hugging Face id, downloaded on first use.

    Raises FileNotFoundError when a path does not exist and OSError when the hub does not have the id.
    """
    if model and Path(model).is_dir():
        return model
    if model.startswith((".", "/", "~")) or model.count("/") != 1:
        raise FileNotFoundError(f"model {model!r}: no such folder, and no Hugging Face id of the form owner/name")
    try:
        return str(snapshot_download(model, allow_patterns=list(_WANTED)))
    except Exception as error:
        raise OSError(f"model {model!r} is no folder and could not be fetched: {error}") from error
