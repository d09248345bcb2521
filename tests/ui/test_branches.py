"""The page about branches: figures, filters and paging against what is stored, and texts that are shown harmlessly."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from dashboard.components.branched import Root, RootTexts
from dashboard.components.call_pairs_shown import calls_table
from dashboard.components.root_detail import judgement
from dashboard.components.root_list import csv_rows
from dashboard.figures import write_number
from drift_runs import schema
from drift_runs.generate.branch_figures import branch_figures
from drift_runs.generate.outcomes import OUTCOMES
from drift_runs.generate.roots import Existing
from drift_runs.protocol.model import Protocol
from drift_runs.tracking import artifacts, reader
from tests.campaigns import Campaign
from tests.ui import synthetic
from tests.ui.conftest import OpenApp
from tests.ui.reading import Cells, arms, figure_text, markup, table_html
from tests.ui.synthetic import OUTLIER, TOKENS, InventedStore, build_store

VIEW = "views/branches.py"
HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m" + "x" * 10_000
WINDOWS = ("code-1", "call-1", OUTLIER)
ROOTS = 24
CONSTRAINED = "q4_0-grammar"


def evidence(number: int) -> dict:
    call = {"turn": 0, "name": "read", "arguments": {"path": "/a", "lines": [1, 2]}}
    other = {"turn": 0, "name": "read", "arguments": {"path": HOSTILE, "lines": [1, 2]}}
    difference = {"path": ["path"], "reference": "/a", "candidate": HOSTILE}
    pair = {"equal": False, "settled": True, "reference": call, "candidate": other, "differences": [difference]}
    return {
        "structure": {"kind": "call", "start": 0, "language": ""},
        "faults": {"reference": None, "candidate": {"kind": "does not parse", "turn": 0, "why": HOSTILE}},
        "calls": [pair] if number == 0 else [],
        "literals": {"before": "end", "reference": ["8080", "8080"], "candidate": ["8081"]},
        "loops": {"reference": {"is_loop": False}, "candidate": {"is_loop": True, "period": 3}},
    }


def tables(arm: str) -> tuple[pa.Table, pa.Table]:
    """Invented roots of an arm, and what became of each in all three pairs: outcomes go round in their order."""
    roots, outcomes = [], []
    for number in range(ROOTS):
        window = WINDOWS[number % 3]
        kind = {"code-1": "code", "call-1": "tool-call", OUTLIER: "literal-copy"}[window]
        place = {
            "arm": arm,
            "window": window,
            "document": window,
            "panel": "P-A" if window == "code-1" else "P-B",
            "position": 30 + number,
            "range": f"{window}-0",
            "kind": kind,
            "outlier": window == OUTLIER,
            "why": "strong" if number % 2 else "drawn",
        }
        p1 = (0.95, 0.7, 0.3)[number % 3 - number // 12]
        roots.append(
            {
                **place,
                "order": ROOTS - number,
                "reference_top": 3,
                "candidate_top": 26,
                "reference_p1": p1,
                "candidate_p1": 0.6,
                "literal": number % 4 == 0,
            }
        )
        decoded = [(arm, "branch")]
        if arm == "q4_0":
            decoded += [(arm, "token"), (arm, "weights")] + [(CONSTRAINED, "branch")] * (number < 3)
        for name, pair in decoded:
            outcomes.append(
                {
                    **place,
                    "arm": name,
                    "pair": pair,
                    "outcome": OUTCOMES[number % 9] if pair == "branch" and name == arm else "recovers",
                    "rule": "does not parse",
                    "structure": "call",
                    "literal": False,
                    "loop": number == 1,
                    "resync_reference": None,
                    "resync_candidate": None,
                    "propagated": None,
                    "reference_ended": "turn",
                    "candidate_ended": "horizon",
                    "reference_tokens": 3,
                    "candidate_tokens": 4,
                    "reference_text": "an answer",
                    "candidate_text": HOSTILE,
                    "evidence": json.dumps(evidence(number)),
                }
            )
    return pa.Table.from_pylist(roots, schema=schema.ROOTS), pa.Table.from_pylist(outcomes, schema=schema.OUTCOMES)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> InventedStore:
    """An invented campaign whose arms q4_0 and q8_0 followed roots; no future is stored token by token."""
    from drift_runs.tracking.mlflow_store import Tracker

    decode = {"name": CONSTRAINED, "arm": "q4_0", "grammar": "json"}
    content = {**synthetic.protocol_content(), "branches": {}, "constrained": [decode]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthetic, "protocol_content", lambda: {**content})
        store = build_store(tmp_path_factory.mktemp("followed"), arms=("micro-batch", "q8_0", "q4_0"), answers="none")
    protocol = Protocol.model_validate_json(reader.load_protocol_json(store.uri, store.campaign))
    tracker = Tracker(store.uri)
    for record in store.records():
        if record.arm == "micro-batch":
            continue
        roots, outcomes = tables(record.arm)
        figures = branch_figures(outcomes, protocol, arm=record.arm, existing=Existing(50, 20, roots))
        found = {
            artifacts.ROOTS_FILE: roots,
            artifacts.OUTCOMES_FILE: outcomes,
            artifacts.GENERATION_FIGURES_FILE: figures,
        }
        tracker.log_generation(record.run_id, "key", found, arm=record.arm, bounds=("a horizon of 16 tokens",))
    streams = {
        "window": [window.name for window in protocol.windows],
        "tokens": [list(synthetic.stream_of(window)) for window in protocol.windows],
    }
    stored = artifacts.parquet_bytes(pa.table(streams, schema=schema.STREAMS), schema.STREAMS)
    tracker.log_files(store.campaign, {artifacts.STREAMS_FILE: stored})
    return store


def listed(app) -> list[str]:
    """Roots of the list's page, in order."""
    page = markup(app)
    return [piece.partition('"')[0] for piece in page.split('data-root="')[1:]]


def opened(app) -> str:
    (found,) = [piece for piece in markup(app).split("<div ") if 'data-open="true"' in piece]
    return found.partition('data-root="')[2].partition('"')[0]


def is_own(row: dict) -> bool:
    return row["pair"] == "branch" and row["arm"] != CONSTRAINED


def in_order(arm: str = "q4_0") -> list[dict]:
    return sorted(tables(arm)[0].to_pylist(), key=lambda row: row["order"])


def key(row: dict) -> str:
    return f"{row['window']}/{row['position']}"


def test_counts_and_shares_are_the_stored_ones_and_the_floor_is_the_null(
    generated_store: Campaign, open_app: OpenApp
) -> None:
    app = open_app(generated_store.root, VIEW)
    assert arms(app, "Outcomes") == ["q4_0", "q4_0-tools", "f16-decode"]
    (record,) = generated_store.records()
    for arm in record.arms:
        stored = reader.load_generation_figures(generated_store.uri, arm.run_id).to_pylist()
        rows = [
            row for row in stored if (row["spec"], row["scope_kind"], row["outliers"]) == ("branches", "all", "with")
        ]
        assert rows
        for row in rows:
            if row["statistic"] in ("invalid", "invalid_any", "resolved"):
                words = write_number(row["value"], "share", low=row["low"], high=row["high"])
                assert figure_text(app, "Outcomes", row["arm"], row["statistic"]).startswith(words)
            elif row["statistic"] == "explored" or (row["statistic"] in OUTCOMES and row["value"]):
                assert figure_text(app, "Outcomes", row["arm"], row["statistic"]).startswith(f"{row['value']:.0f}")
    assert len(app.get("vega_lite_chart")) == 1 and "null" in table_html(app, "Outcomes")
    assert "Without a root: q4_0-json" in markup(app), "its grammar allows none of these texts"


def test_the_futures_of_a_root_are_drawn(generated_store: Campaign, open_app: OpenApp) -> None:
    (record,) = generated_store.records()
    run = next(arm.run_id for arm in record.arms if arm.arm == "q4_0")
    app = open_app(generated_store.root, VIEW, v="1", arm="q4_0", pair="weights")
    stored = reader.load_roots(generated_store.uri, run).to_pylist()
    assert listed(app) == [key(row) for row in sorted(stored, key=lambda row: row["order"])]
    assert len(app.get("bidi_component")) == 1, "the viewer"
    assert "not stored" not in markup(app)


def test_both_streams_of_a_constrained_decode_are_drawn(
    generated_store: Campaign, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dashboard.components import stream_viewer

    drawn = []
    original = stream_viewer.stream_viewer
    monkeypatch.setattr(
        stream_viewer, "stream_viewer", lambda data, **more: (drawn.append(data), original(data, **more))
    )
    (record,) = generated_store.records()
    run = next(arm.run_id for arm in record.arms if arm.arm == "q4_0")
    stored = reader.load_constrained(generated_store.uri, run, "q4_0-tools").to_pylist()[-1]
    app = open_app(generated_store.root, VIEW, v="1", arm="q4_0-tools", root=key(stored))
    assert len(app.get("bidi_component")) == 1
    theirs = reader.load_futures(generated_store.uri, record.run_id).to_pylist()
    ((left, right),) = [data["sides"] for data in drawn]
    assert right["name"] == "q4_0-tools" and right["count"] == len(stored["tokens"])
    assert {left["count"]} <= {len(row["tokens"]) for row in theirs if key(row) == key(stored)}
    shown = [sides[1]["id"] for token in drawn[0]["joined"] for sides in token["sides"] if sides[0] == 1]
    apart = [one["id"] for token in (*right["tokens"], *right["rest"]) for _, one in token["sides"]]
    assert sorted(apart + shown) == sorted(stored["tokens"])
    assert "Its grammar allows the token of <b>q4_0</b>" in markup(app) and "text alone" not in markup(app)


def test_a_constrained_decode_is_an_arm_of_its_own(followed: InventedStore, open_app: OpenApp) -> None:
    app = open_app(followed.folder, VIEW, v="1", arm=CONSTRAINED)
    assert app.query_params["arm"] == CONSTRAINED and arms(app, "Outcomes") == ["q8_0", "q4_0", CONSTRAINED]
    assert figure_text(app, "Outcomes", CONSTRAINED, "recovers") == "3"
    assert figure_text(app, "Outcomes", "q4_0", "recovers") == str(
        [OUTCOMES[at % 9] for at in range(24)].count("recovers")
    )
    assert set(listed(app)) == {key(row) for row in in_order()[-3:]}
    assert "text alone is stored" in markup(app)
    app.selectbox(key="control.arm").set_value("q4_0").run()
    assert not app.exception and app.query_params["arm"] == "q4_0" and "of 24 explored" in markup(app)


def test_the_list_is_paged_in_the_order_of_exploration_and_the_page_is_in_the_address(
    followed: InventedStore, open_app: OpenApp
) -> None:
    app = open_app(followed.folder, VIEW, v="1", arm="q4_0", shown="3")
    keys = [key(row) for row in in_order()]
    assert listed(app) == keys[20:24] and "Roots 21 to 24 of 24 explored" in markup(app)
    assert app.query_params["root"] == keys[0], "the first that passes is open"
    app = open_app(followed.folder, VIEW, v="1", arm="q4_0", shown="99")
    assert app.query_params["shown"] == "3" and listed(app) == keys[20:24]


def test_filters_let_through_what_they_say(followed: InventedStore, open_app: OpenApp) -> None:
    what = {key(row): row["outcome"] for row in tables("q4_0")[1].to_pylist() if is_own(row)}
    app = open_app(
        followed.folder, VIEW, v="1", arm="q4_0", outcome=["malformed", "recovers"], kind="tool-call", band="leaning"
    )
    wanted = [
        key(row)
        for row in in_order()
        if what[key(row)] in ("malformed", "recovers") and row["kind"] == "tool-call" and row["reference_p1"] == 0.7
    ]
    assert wanted and listed(app) == wanted
    assert f"of {len(wanted)} that pass, of 24 explored" in markup(app)
    app = open_app(followed.folder, VIEW, v="1", arm="q4_0", literal="yes")
    assert listed(app) == [key(row) for row in in_order() if row["literal"]]
    app = open_app(followed.folder, VIEW, v="1", arm="q4_0", outcome="improves")
    assert "outcome = improves in the link does not exist here" in markup(app)
    app.multiselect(key="control.kind").set_value(["code"]).run()
    assert {found.split("/")[0] for found in listed(app)} == {"code-1"} and "code" in app.query_params["kind"]


def test_one_press_opens_a_root_and_the_buttons_walk_what_passes(followed: InventedStore, open_app: OpenApp) -> None:
    app = open_app(followed.folder, VIEW, v="1", arm="q4_0")
    keys = [key(row) for row in in_order()]
    app.button(key=f"root.{keys[9]}").click().run()
    assert opened(app) == keys[9] == app.query_params["root"] and "Root 10 of 24" in markup(app)
    app.button(key="walk.next root").click().run()
    assert opened(app) == keys[10] and app.query_params["shown"] == "2", "the list turns with it"
    app.button(key="walk.previous root").click().run()
    assert opened(app) == keys[9] and app.query_params["shown"] == "1"
    app.multiselect(key="control.kind").set_value(["code"]).run()
    if not keys[9].startswith("code-1"):
        assert opened(app).startswith("code-1") and "in the link" not in markup(app), "hidden by a filter: no fault"


def test_a_link_to_a_root_that_is_not_there_says_so(followed: InventedStore, open_app: OpenApp) -> None:
    app = open_app(followed.folder, VIEW, v="1", arm="q4_0", root="<b>/9")
    assert "root = &lt;b&gt;/9 in the link is not among these roots" in markup(app)
    assert app.query_params["root"] == key(in_order()[0])


def test_another_pair_has_its_own_counts_and_arms_without_it_are_named(
    followed: InventedStore, open_app: OpenApp
) -> None:
    app = open_app(followed.folder, VIEW, v="1", arm="q8_0", pair="token")
    assert arms(app, "Outcomes") == ["q4_0"] and figure_text(app, "Outcomes", "q4_0", "recovers") == "24"
    assert f"Without this pair: q8_0, {CONSTRAINED}." in markup(app) and "q8_0 has no futures of this pair" in markup(
        app
    )
    assert "Bounded below its protocol: </b>a horizon of 16 tokens" in markup(app)


def test_the_switch_takes_declared_windows_out_and_marks_them_where_they_are_in(
    followed: InventedStore, open_app: OpenApp
) -> None:
    app = open_app(followed.folder, VIEW, v="1", arm="q4_0", outliers="both")
    assert figure_text(app, "Outcomes", "q4_0", "explored", "with").startswith("24")
    assert figure_text(app, "Outcomes", "q4_0", "explored", "without").startswith("16")
    assert "incl. outlier" in table_html(app, "Outcomes")
    cards = [piece.partition("\n")[0] for piece in markup(app).split('data-root="')[1:]]
    assert len(cards) == 10 and any(piece.startswith(OUTLIER) for piece in cards)
    assert all(("outlier window" in piece) == piece.startswith(f"{OUTLIER}/") for piece in cards)
    app.segmented_control(key="control.outliers").set_value("without").run()
    assert "of 16 explored" in markup(app) and not any(found.startswith(OUTLIER) for found in listed(app))
    assert "incl. outlier" not in table_html(app, "Outcomes")


def test_hostile_texts_are_text_and_calls_mark_what_differs(followed: InventedStore, open_app: OpenApp) -> None:
    first = in_order()[-1]
    app = open_app(followed.folder, VIEW, v="1", arm="q4_0", root=key(first))
    page = markup(app)
    assert Cells(page).tags.isdisjoint({"script", "img", "a", "iframe"})
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e\\u001b[31m" in page
    assert not set(page) & {"\x1b", "\u202e"}
    calls = [row for row in Cells(table_html(app, "Calls")).rows if row.get("data-place")]
    assert [row["data-place"] for row in calls] == ["path", "lines[0]", "lines[1]"]
    places = [piece for piece in table_html(app, "Calls").split("<tr ") if "data-place" in piece]
    assert ["differs</span>" in piece for piece in places] == [True, False, False]
    assert "8080</span> ×2" in page and "repeats itself, with a period of 3 tokens" in page
    assert "The tokens of these futures are not stored" in page and "Both futures as text" in page


def test_a_campaign_that_generated_nothing_says_what_to_run(
    invented_store: InventedStore, open_app: OpenApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "follows no flips" in markup(open_app(invented_store.folder, VIEW))
    content = synthetic.protocol_content()
    monkeypatch.setattr(synthetic, "protocol_content", lambda: {**content, "branches": {}})
    store = build_store(tmp_path, arms=("micro-batch", "q8_0"))
    page = markup(open_app(store.folder, VIEW))
    assert "has none yet" in page and f"drift run protocols/{content['name']}.toml" in page


def root(**changed: object) -> Root:
    roots, outcomes = tables("q8_0")
    return Root(outcome=outcomes.to_pylist()[0] | changed, row=roots.to_pylist()[0], band="strong")


def test_evidence_that_cannot_be_read_is_said() -> None:
    for damaged in ("{", "[1]", "[" * 100_000):
        assert "evidence cannot be read" in judgement(root(evidence=damaged), ("f16", "q8_0"))


def test_a_call_whose_other_side_was_cut_is_not_called_different() -> None:
    call = {"turn": 1, "name": "read", "arguments": {}}
    pair = {"equal": False, "settled": False, "reference": call, "candidate": None, "differences": []}
    shown = calls_table([pair], reference="f16", candidate="q8_0")
    assert 'data-state="open"' in shown and "not settled" in shown and "read, turn 2" in shown


def test_the_csv_of_roots_has_place_tokens_and_evidence() -> None:
    texts = RootTexts(TOKENS, {"code-1": [1] * 60})
    (row,) = csv_rows([root()], texts)
    assert (row["window"], row["position"], row["reference_token"]) == ("code-1", 30, " word3")
    assert row["before"].endswith(" word1") and len(row["before"]) == 60
    assert json.loads(row["evidence"])["calls"]
    (bare,) = csv_rows([root()], RootTexts(()))
    assert bare["before"] is None and bare["reference_token"] is None and bare["reference_top"] == 3
