"""The page Protocol: what was frozen, by which digests, and what is outside of it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import streamlit as st
from streamlit.testing.v1 import AppTest

from drift_runs import schema
from drift_runs.tracking.artifacts import LOCK_FILE, STREAMS_FILE, parquet_bytes
from drift_runs.tracking.mlflow_store import Tracker
from drift_runs.tracking.reader import list_campaigns
from tests.ui.conftest import OpenApp
from tests.ui.reading import Cells, markup, table_html
from tests.ui.synthetic import ARMS, OUTLIER, OUTLIER_REASON, WINDOWS, InventedStore, build_store, protocol_content

VIEW = "views/protocol.py"


def rows(app: AppTest, label: str) -> dict[str, list[str]]:
    """Texts of each row's cells, by the first one."""
    found: dict[int, list[str]] = {}
    parsed = Cells(table_html(app, label))
    for row, _, text in parsed.cells:
        found.setdefault(next(at for at, item in enumerate(parsed.rows) if item is row), []).append(text)
    return {cells[0]: cells[1:] for cells in list(found.values())[1:]}


def test_windows_panels_and_ranges_are_those_of_the_protocol(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW)
    windows = rows(app, "Windows")
    assert set(windows) == set(WINDOWS)
    for name, (panel, document, kinds) in WINDOWS.items():
        assert windows[name][1:3] == [panel, document]
        assert windows[name][4] == f"{sum(kinds.values()):,}"
        assert ("declared outlier" in windows[name]) == (name == OUTLIER)
    positions = sum(length for panel, _, kinds in WINDOWS.values() if panel == "P-A" for length in kinds.values())
    assert rows(app, "Panels")["P-A"][-1] == f"{positions:,}"
    code = sum(kinds.get("code", 0) for _, _, kinds in WINDOWS.values())
    assert rows(app, "Ranges by kind")["code"][-1] == f"{code:,}"
    assert rows(app, "Declared outlier windows") == {OUTLIER: [OUTLIER_REASON]}


def test_coverage_is_of_the_stored_streams_and_is_not_known_without_them(open_app: OpenApp, tmp_path: Path) -> None:
    store = build_store(tmp_path, arms=("q8_0",), answers="none")
    without = open_app(store.folder, VIEW)
    assert "no length is known" in table_html(without, "Windows")
    assert all(cells[5:7] == ["not stored", "not known"] for cells in rows(without, "Windows").values())
    lengths = {name: 3 * sum(kinds.values()) for name, (_, _, kinds) in WINDOWS.items() if name != OUTLIER}
    streams = {"window": list(lengths), "tokens": [[1] * length for length in lengths.values()]}
    stored = parquet_bytes(pa.table(streams, schema=schema.STREAMS), schema.STREAMS)
    Tracker(store.uri).log_files(store.campaign, {STREAMS_FILE: stored})
    st.cache_data.clear()
    app = open_app(store.folder, VIEW)
    windows = rows(app, "Windows")
    for name, length in lengths.items():
        assert windows[name][5:7] == [f"{length:,}", "33 %"]
    assert windows[OUTLIER][5:7] == ["not stored", "not known"]
    assert "no length is known" not in table_html(app, "Windows")


def locked_store(folder: Path, digest: str = "") -> tuple[InventedStore, str]:
    """A small campaign with a lock, of what ran unless another digest is given; and the digest that ran."""
    store = build_store(folder, arms=("q8_0", "micro-batch"))
    ran = next(found for found in list_campaigns(store.uri) if found.run_id == store.campaign).protocol_sha256
    lock = {
        "schema": "drift.lock/1",
        "protocol": protocol_content(),
        "protocol_sha256": digest or ran,
        "files": {"streams/code-1.json": "ab" * 32, "streams/<b>.json": "cd" * 32},
        "tool": {"name": "drift-runs", "version": "0.1.0"},
        "frozen_at": "2026-01-02T03:04:05Z",
    }
    Tracker(store.uri).log_files(store.campaign, {LOCK_FILE: json.dumps(lock).encode()})
    return store, ran


def test_digests_are_whole_and_those_of_the_lock(open_app: OpenApp, tmp_path: Path) -> None:
    store, ran = locked_store(tmp_path)
    app = open_app(store.folder, VIEW)
    shown = rows(app, "Digests")
    assert shown["protocol"] == [ran] and len(ran) == 64
    assert shown["streams/code-1.json"] == ["ab" * 32]
    assert shown["streams/<b>.json"] == ["cd" * 32]
    assert "Frozen 2026-01-02T03:04:05Z; what ran has the digest of the lock." in markup(app)


def test_a_lock_of_another_content_is_said(open_app: OpenApp, tmp_path: Path) -> None:
    store, _ = locked_store(tmp_path, digest="00" * 32)
    assert "The lock is of another content than what ran." in markup(open_app(store.folder, VIEW))


def test_a_campaign_without_its_lock_says_so(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW)
    assert "its lock was not stored with the campaign" in markup(app)
    assert len(rows(app, "Digests")["protocol"][0]) == 64


def test_rules_and_arms_hold_every_setting(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW)
    text = table_html(app, "Seeds and rules")
    for key, value in protocol_content()["seeds"].items():
        assert f">{key}<" in text and f">{value}<" in text
    named = set(rows(app, "Arms"))
    assert named == {"f16"} | {name for name, arm in ARMS.items() if arm.role == "candidate"}
    assert "Nothing is written freely under this protocol" in markup(app)


def test_follow_ups_are_marked_as_outside(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW)
    assert rows(app, "Follow-ups")["kv-bf16"][0] == "follow-up"


def test_protocol_and_lock_and_report_can_be_had(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW)
    labels = [button.proto.label for button in app.get("download_button")]
    assert {"Report (HTML)", "Protocol (TOML)", "Lock (JSON)"} <= set(labels)


def test_a_draft_says_that_nothing_was_frozen(open_app: OpenApp, tmp_path: Path) -> None:
    store = build_store(tmp_path, draft=True, arms=("q8_0", "micro-batch"))
    app = open_app(store.folder, VIEW)
    assert "This protocol was not frozen" in markup(app)
    lock = next(button for button in app.get("download_button") if button.proto.label == "Lock (JSON)")
    assert lock.proto.disabled


def test_published_sources_of_the_same_definition_are_linked(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW)
    assert 'href="published?v=1' in markup(app) or "No published source gives" in markup(app)
