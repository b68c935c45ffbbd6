"""The page and its parts are served from memory, tagged by their content, and nothing else is."""

import re
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from orchestrator.web import files
from orchestrator.web.files import Files
from outrider import semconv
from tests.unit.web.asgi import Client

STATIC = Path(files.__file__).parent / "static"


@pytest.fixture
def app() -> Starlette:
    made = Files()
    return Starlette(routes=[Route("/ui", made.page), Route("/ui/{name:path}", made.file)])


async def test_the_page_is_there(app: Starlette) -> None:
    client = await Client("/ui").ask(app)
    assert (client.status, client.got["content-type"]) == (200, "text/html; charset=utf-8")
    assert client.text == (STATIC / "index.html").read_text()


@pytest.mark.parametrize("name", sorted(path.name for path in STATIC.iterdir()))
async def test_every_file_has_its_type_and_is_not_sent_to_who_has_it(app: Starlette, name: str) -> None:
    client = await Client(f"/ui/{name}").ask(app)
    kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
    assert client.got["content-type"].partition(";")[0] == kinds[Path(name).suffix]
    again = await Client(f"/ui/{name}", headers={"if-none-match": client.got["etag"]}).ask(app)
    assert (again.status, again.text) == (304, "")


@pytest.mark.parametrize("name", ["nothing.js", "../files.py", "%2e%2e/files.py", "static/app.js", ".."])
async def test_nothing_else_is(app: Starlette, name: str) -> None:
    assert (await Client(f"/ui/{name}").ask(app)).status == 404


def test_the_page_names_no_file_that_is_missing_and_no_other_host() -> None:
    named = re.findall(r'(?:src|href)="([^"]+)"', (STATIC / "index.html").read_text())
    assert named
    assert [name for name in named if not (STATIC / name.rpartition("/")[2]).is_file()] == []
    for path in STATIC.iterdir():
        strange = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "://" not in strange, path.name


def test_tokens_go_into_the_page_as_text() -> None:
    for path in STATIC.glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", path.read_text()), (
            path.name
        )


def test_the_page_reads_spans_by_names_that_there_are() -> None:
    """They are written down once more in its script, which cannot import the registry."""
    text = (STATIC / "trace.js").read_text()
    said = re.search(r"SAID = \{(.*?)\};", text, re.DOTALL)
    assert said
    words = [
        prefix.replace("${A}", "outrider.") + name
        for prefix, name in re.findall(r"[`\"](\$\{A\})?([\w.]+)[`\"]", said[1])
    ]
    assert len(words) > 25
    assert set(words) <= {each.name for each in semconv.ATTRIBUTES}
    events = re.findall(r"\[`\$\{A\}([\w.]+)`\]:", text)
    assert len(events) == 3
    assert {f"outrider.{name}" for name in events} <= {each.name for each in semconv.EVENTS}
    for name in ("draft.propose", "draft.prepare", "target.verify", "generate", "round", "queue", "prompt", "prefill"):
        assert f'"{name}"' in text
        assert name in {each.name for each in semconv.SPANS}


def test_nothing_on_the_page_moves_by_itself() -> None:
    """So there is nothing to hold still for those who prefer that."""
    for path in (STATIC / "style.css", *STATIC.glob("*.js")):
        assert not re.search(r"animation|transition|@keyframes|smooth", path.read_text())
