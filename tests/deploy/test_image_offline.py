"""``make image-offline``: pip in the build is set up as pip on the machine is; what is missing is said."""

from pathlib import Path

import pytest

from deploy.image_offline import host
from deploy.image_offline.images import Storage, tree_bytes
from deploy.image_offline.inside import Inside

LISTING = "\n".join(
    [
        ":env:.disable-pip-version-check='1'",
        ":env:.find-links='/env/wheels'",
        "global.cert='/etc/a.crt'",
        "global.constraint='/etc/c.txt'",
        "global.find-links='/file/wheels'",
        "list.format='columns'",
    ]
)


def test_settings_of_the_environment_come_before_those_of_files_and_no_constraints_go_along() -> None:
    settings = host.pip_settings(LISTING)
    assert settings == {"disable-pip-version-check": "1", "find-links": "/env/wheels", "cert": "/etc/a.crt"}


def test_the_file_says_what_the_settings_say() -> None:
    assert host.pip_file({"cert": "/a", "extra-index-url": "x y"}) == "[global]\ncert = /a\nextra-index-url = x y\n"


def test_folders_and_files_that_settings_name_are_found(tmp_path: Path) -> None:
    index, file = tmp_path / "mirror" / "simple", tmp_path / "a.crt"
    index.mkdir(parents=True)
    file.touch()
    values = [f"file://{index} file:///nowhere", str(file), "1", "simple"]
    assert host.paths(values) == [index.parent, file]


def test_what_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda program: None if program == "buildah" else program)
    with pytest.raises(host.OfflineError, match=r"apt-get install buildah$"):
        host.check_machine()


def test_without_root_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(host.OfflineError, match="root is needed"):
        host.check_machine()


def test_a_command_that_fails_shows_what_it_said() -> None:
    with pytest.raises(host.OfflineError, match=r"failed \(3\)\nwords$"):
        host.call("sh", "-c", "echo words; exit 3")


def test_a_command_has_the_environment_of_the_image_and_then_the_settings(tmp_path: Path) -> None:
    config = {"Env": ["A=1", "B=1"], "User": "5:6", "WorkingDir": "/tmp", "Entrypoint": ["python"], "Cmd": ["x"]}
    command = Inside(tmp_path, config, tmp_path / "d", "net", {"B": "2"}).entry()
    assert command[-9:] == [str(tmp_path), str(tmp_path / "d"), "5:6", "/tmp", "A=1", "B=1", "B=2", "python", "x"]
    assert command[:4] == ["ip", "netns", "exec", "net"]


def test_clearing_leaves_what_is_not_storage(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "base.tar").write_bytes(b"1234")
    Storage(tmp_path).clear()
    assert [path.name for path in tmp_path.iterdir()] == ["base.tar"]
    assert tree_bytes(tmp_path) == 4
