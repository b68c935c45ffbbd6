"""The files of the live page, read once. They come from this server alone, so it works without any other."""

import hashlib
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_FOLDER = Path(__file__).parent / "static"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
PAGE = "index.html"


class Files:
    """All of them by name, with a tag that changes with the content."""

    def __init__(self) -> None:
        self._files = {path.name: path.read_bytes() for path in _FOLDER.iterdir() if path.suffix in _TYPES}
        self._tags = {name: f'"{hashlib.sha256(data).hexdigest()[:32]}"' for name, data in self._files.items()}

    async def page(self, request: Request) -> Response:
        """The page itself."""
        return self._answer(request, PAGE)

    async def file(self, request: Request) -> Response:
        """What it is made of."""
        return self._answer(request, request.path_params["name"])

    def _answer(self, request: Request, name: str) -> Response:
        if name not in self._files:
            raise HTTPException(404, "the page has no such file")
        headers = {"ETag": self._tags[name], "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == self._tags[name]:
            return Response(status_code=304, headers=headers)
        return Response(self._files[name], 200, headers, f"{_TYPES[Path(name).suffix]}; charset=utf-8")
