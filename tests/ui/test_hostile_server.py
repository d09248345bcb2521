"""What a server says of itself and its errors are text wherever they are shown: terminal, pages, report, CSV."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from drift_runs.cli.main import main
from tests.campaigns import Campaign
from tests.engines.canned_server import Canned, answering
from tests.engines.llama_server_process import llama_server
from tests.report.test_documents import Tags
from tests.test_campaign_server import F16, NOTHING_FREE, PATHS, SERVER, prepared, relayed
from tests.ui.conftest import OpenApp

EVIL = "x\x1b[31m<script>alert(1)</script>\n![i](http://evil.invalid/i.png)|`\u202e\ud800"
"""An escape of the terminal, HTML, a line end, a picture of Markdown, a mark of direction, half a character."""
PAGES = ("overview", "protocol", "compare", "determinism", "history")


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, empty_database: Path) -> Iterator[Campaign]:
    with llama_server(tiny_arms.parent / "f16.gguf") as server:

        def page(path: str, body: Any) -> tuple[int, Any]:
            asked = body.get("model") if isinstance(body, dict) else None
            status, found = relayed(server, path, {**body, "model": "m"} if asked else body)
            if path == "/v1/models":
                found["data"][0] |= {"id": EVIL, "owned_by": EVIL, "meta": {EVIL: EVIL}}
            elif path == "/props":
                found |= {"build_info": EVIL, "model_path": f"/a/{EVIL}", "model_ftype": EVIL}
            if asked and "model" in found:
                found["model"] = asked
            return status, found

        with answering({path: partial(page, path) for path in PATHS}) as relay:
            changes = {**NOTHING_FREE, "arms": [F16, SERVER]}
            campaign = prepared(tmp_path_factory.mktemp("evil") / "e", tiny_arms, empty_database, relay.url, changes)
            text = campaign.machine.read_text("utf-8").replace("[arms.server]\n", "[arms.server]\ntimeout_s = 20\n")
            campaign.machine.write_text(text, "utf-8")
            campaign.relay = relay
            yield campaign


def clean(text: str) -> bool:
    """No control but line ends, no mark of direction, no half of a pair."""
    return not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", text)


def test_terminal_pages_report_and_files(
    evil: Campaign, tmp_path: Path, open_app: OpenApp, capsys: pytest.CaptureFixture[str]
) -> None:
    relay: Canned = evil.relay
    assert main(evil.arguments("probe")) in (0, 5)
    assert main(evil.arguments()) == 0
    lines = capsys.readouterr()
    assert clean(lines.out) and clean(lines.err) and "\\x1b[31m" in lines.out
    _shown(evil, tmp_path / "whole", open_app, capsys)

    relay.pages["/completion"] = lambda body: (400, {"error": {"message": EVIL * 50}})
    for file in (evil.root / "captures").glob("*/odd.parquet"):
        file.unlink()
    assert main(evil.arguments()) == 5
    lines = capsys.readouterr()
    assert clean(lines.out) and clean(lines.err) and "failed: arm server" in lines.out
    (failed,) = [line for line in lines.out.splitlines() if "failed: arm server" in line]
    assert "script" in failed, "on one line"
    _shown(evil, tmp_path / "failed", open_app, capsys)


def _shown(evil: Campaign, folder: Path, open_app: OpenApp, capsys: pytest.CaptureFixture[str]) -> None:
    folder.mkdir()
    options = ["--out", str(folder / "a.html"), "--markdown", str(folder / "a.md"), "--csv", str(folder / "csv")]
    assert main(["report", "--store", str(evil.root), *options]) == 0
    capsys.readouterr()
    page = (folder / "a.html").read_text("utf-8")
    assert "script" not in {name for name, _ in Tags(page).found} and clean(page) and "alert(1)" in page
    text = (folder / "a.md").read_text("utf-8")
    assert clean(text) and "alert(1)" in text and not re.search(r"(?<!\\)<script|(?<!\\)!\[|http://evil", text)
    for file in (folder / "csv").rglob("*.csv"):
        assert clean(file.read_text("utf-8")), file.name
    seen = ""
    for name in PAGES:
        app = open_app(evil.root, f"views/{name}.py", v="1")
        for element in (*app.get("html"), *app.get("markdown")):
            body = getattr(element.proto, "body", "")
            assert clean(body) and not re.search(r"<script|<img", body), (name, body[:300])
            seen += body
        assert not [item for item in app.get("markdown") if "evil.invalid" in item.proto.body], name
    assert "alert(1)" in seen or folder.name == "failed", "pages show complete arms"
