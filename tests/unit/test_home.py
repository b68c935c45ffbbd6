"""Where prepared models live."""

from pathlib import Path

import pytest

from outrider.home import models_folder


def test_the_variable_names_the_home() -> None:
    assert models_folder({"OUTRIDER_HOME": "/data/outrider"}) == Path("/data/outrider/models")


@pytest.mark.parametrize("environment", [{}, {"OUTRIDER_HOME": ""}])
def test_the_default_is_in_the_users_cache(environment: dict[str, str]) -> None:
    assert models_folder(environment) == Path.home() / ".cache" / "outrider" / "models"
