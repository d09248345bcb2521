"""The middleware that tells a page where its server is, in front of a small application."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route
from starlette.staticfiles import StaticFiles
from starlette.testclient import TestClient

from dashboard.rooted import SAYS_WHERE, Rooted

PAGE = "<!DOCTYPE html><html><head><title>p</title></head><body>text</body></html>"
VISIT = {"accept": "text/html,application/xhtml+xml", "accept-encoding": "gzip"}


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    (tmp_path / "index.html").write_text(PAGE, "utf-8")
    (tmp_path / "script.js").write_text("<head>", "utf-8")

    async def state(_: object) -> JSONResponse:
        return JSONResponse({"text": "<head>"})

    async def missing(_: object) -> HTMLResponse:
        return HTMLResponse(PAGE, status_code=404)

    application = Starlette(middleware=[Middleware(Rooted)], routes=[Route("/state", state), Route("/gone", missing)])
    application.mount("/", StaticFiles(directory=tmp_path, html=True))
    return TestClient(application)


def test_a_page_says_where_its_server_is_before_any_script(client: TestClient) -> None:
    answer = client.get("/", headers=VISIT)
    assert answer.content == PAGE.encode().replace(b"<head>", b"<head>" + SAYS_WHERE)
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert "etag" not in answer.headers and "last-modified" not in answer.headers


@pytest.mark.parametrize(
    ("path", "status"), [("/state", 200), ("/script.js", 200), ("/gone", 404)], ids=["data", "script", "no page"]
)
def test_what_is_no_page_passes_untouched(client: TestClient, path: str, status: int) -> None:
    answer = client.get(path, headers=VISIT)
    assert answer.status_code == status
    assert SAYS_WHERE not in answer.content and b"<head>" in answer.content


def test_a_program_that_asks_for_no_page_gets_the_file_as_it_is(client: TestClient) -> None:
    answer = client.get("/", headers={"accept": "*/*"})
    assert answer.text == PAGE and "etag" in answer.headers
