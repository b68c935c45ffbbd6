"""Where prepared models live, and the names of the default pair. Pure; the environment is passed in."""

from collections.abc import Mapping
from pathlib import Path

TARGET_NAME = "smollm2-135m-instruct"
DRAFT_NAME = "smollm2-draft-3-layers"


def models_folder(environment: Mapping[str, str]) -> Path:
    """OUTRIDER_HOME/models; the home is ~/.cache/outrider when unset."""
    home = environment.get("OUTRIDER_HOME")
    return (Path(home) if home else Path.home() / ".cache" / "outrider") / "models"
