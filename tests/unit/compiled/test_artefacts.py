"""Machine code that an image brings along is copied to where numba can write, once, and never over what is there."""

from pathlib import Path

from outrider.inference.compiled.artefacts import bring


def _built(folder: Path, text: str) -> Path:
    (folder / "kernels").mkdir(parents=True)
    (folder / "kernels" / "pass.nbi").write_text(text)
    (folder / "cpu.ready").touch()
    (folder / "lock").touch()
    return folder


def test_what_was_built_elsewhere_is_copied_without_its_lock(tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    bring(_built(tmp_path / "image", "built"), folder)
    assert (folder / "kernels" / "pass.nbi").read_text() == "built"
    assert (folder / "cpu.ready").exists()
    assert not (folder / "lock").exists()


def test_what_is_here_stays(tmp_path: Path) -> None:
    folder = _built(tmp_path / "here", "mine")
    bring(_built(tmp_path / "image", "built"), folder)
    assert (folder / "kernels" / "pass.nbi").read_text() == "mine"


def test_nothing_happens_where_nothing_was_built_or_it_is_the_same_folder(tmp_path: Path) -> None:
    folder = _built(tmp_path / "here", "mine")
    bring(tmp_path / "nowhere", folder)
    bring(folder, folder)
    assert (folder / "kernels" / "pass.nbi").read_text() == "mine"
