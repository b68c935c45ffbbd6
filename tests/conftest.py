"""Model folders that every test may use, written once per session."""

import os
from pathlib import Path

import pytest

from outrider.home import models_folder
from outrider.inference.prepare import prepare
from tests.tiny import ARCHITECTURES, build_model


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one tiny model of each architecture, named after it."""
    folder = tmp_path_factory.mktemp("models")
    for architecture in ARCHITECTURES:
        build_model(folder / architecture, architecture)
    return folder


@pytest.fixture(scope="session")
def llama(models: Path) -> Path:
    """The usual target."""
    return models / "llama"


@pytest.fixture(scope="session")
def good_draft(models: Path) -> Path:
    """The target with noise on its weights: often right, often wrong."""
    return build_model(models / "llama-good-draft", noise=0.02)


@pytest.fixture(scope="session")
def random_draft(models: Path) -> Path:
    """Other weights altogether: nearly never right."""
    return build_model(models / "llama-random-draft", seed=99, num_hidden_layers=1)


@pytest.fixture(scope="session")
def default_pair() -> tuple[Path, Path]:
    """Folders of the default target and its draft, converted on the first run."""
    return prepare(models_folder(os.environ))
