"""Exact answers: the table, what was lost and where, and whether the figures agree."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from dashboard.components.answer_charts import agreement_says
from dashboard.components.answer_rows import lost_rows
from dashboard.components.markup import join
from dashboard.figures import write_number
from drift_runs.schema import AGREEMENT, ANSWERS
from drift_runs.tracking.reader import load_agreement, load_answers, load_listed
from tests.ui.conftest import OpenApp
from tests.ui.reading import Cells, arms, figure_text, markup, table_html
from tests.ui.synthetic import ANSWERS_EACH, OUTLIER, WINDOWS, InventedStore, build_store

VIEW = "views/answers.py"
NAMES = {
    "flip/rate": "flip rate",
    "kl.full/worst_range.p95": "worst range p95",
    "strong_overturn/count": "strong overturns",
    "answer.exact/rate": "exact answers",
}


def judged(store: InventedStore, arm: str) -> list[dict]:
    """The stored answers of an arm."""
    run_id = next(record.run_id for record in store.records() if record.arm == arm)
    return load_answers(store.uri, run_id).to_pylist()


def lost(store: InventedStore, arm: str) -> set[str]:
    return {row["answer"] for row in judged(store, arm) if row["reference_exact"] and row["exact"] is False}


def shown_answers(app: AppTest) -> list[str]:
    return [row["data-answer"] for row in Cells(table_html(app, "Lost answers")).rows if row.get("data-answer")]


def test_every_cell_is_the_stored_figure_and_the_count_of_the_stored_answers(
    open_app: OpenApp, invented_store: InventedStore
) -> None:
    app = open_app(invented_store.folder, VIEW)
    for arm in ("q8_0", "q4_0", "ablated", "kv-bf16", "micro-batch"):
        rows = judged(invented_store, arm)
        row = invented_store.figure(arm, "answer.exact", "rate", "with")
        cell = figure_text(app, "Exact answers", arm, "answers")
        share = write_number(row["value"], "share", low=row["low"], high=row["high"])
        assert cell.startswith(f"{sum(item['exact'] for item in rows)}/{len(rows)} {share}"), (arm, cell)
        assert figure_text(app, "Exact answers", arm, "lost") == str(len(lost(invented_store, arm)))
        for kind in {item["kind"] for item in rows}:
            of_kind = [item["exact"] for item in rows if item["kind"] == kind]
            assert figure_text(app, "Exact answers", arm, f"kind:{kind}").startswith(f"{sum(of_kind)}/{len(of_kind)} ")


def test_the_reference_is_a_row_of_its_own_and_comes_first(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW)
    assert arms(app, "Exact answers")[0] == "f16"
    own = sum(row["reference_exact"] for row in judged(invented_store, "q8_0"))
    everything = len(WINDOWS) * ANSWERS_EACH
    assert own == everything - len(WINDOWS), "it misses the last answer of every window"
    assert figure_text(app, "Exact answers", "f16", "answers").startswith(f"{own}/{everything} ")
    assert figure_text(app, "Exact answers", "f16", "kind:code").startswith("6/8 ")
    page = markup(app)
    assert f"The reference would write {own}/{everything} to the letter" in page
    ranked = [arm for arm in arms(app, "Exact answers")[1:] if arm not in ("launch", "micro-batch")]
    rates = {arm: invented_store.figure(arm, "answer.exact", "rate", "with")["value"] for arm in ranked}
    fewest = min(rates.values())
    names = {arm for arm, rate in rates.items() if rate == fewest}
    (bold,) = [part.partition("</b>") for part in page.split("<b>") if "the smallest share of the arms shown: " in part]
    assert set(bold[0].split(", ")) == names and f": {round(fewest * everything)}/{everything}." in bold[2]


def test_outlier_windows_and_panels_are_counted_as_everywhere(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", outliers="both", arm="ablated")
    for outliers, windows in (("with", len(WINDOWS)), ("without", len(WINDOWS) - 1)):
        cell = figure_text(app, "Exact answers", "q4_0", "answers", outliers)
        assert cell.partition(" ")[0].endswith(f"/{windows * ANSWERS_EACH}")
    assert any(name.startswith(OUTLIER) for name in shown_answers(app))
    app.segmented_control(key="control.outliers").set_value("without").run()
    assert not any(name.startswith(OUTLIER) for name in shown_answers(app))
    app.selectbox(key="control.scope").set_value("panel:P-A").run()
    in_panel = sum(panel == "P-A" for panel, _, _ in WINDOWS.values()) * ANSWERS_EACH
    assert figure_text(app, "Exact answers", "q4_0", "answers").partition(" ")[0].endswith(f"/{in_panel}")
    page = markup(app)
    assert "not the chosen panel alone" in page
    # What stands below the table is of the chosen panel too: its counts are those of the table.
    assert shown_answers(app) and all(WINDOWS[name.partition("-answer-")[0]][0] == "P-A" for name in shown_answers(app))
    assert figure_text(app, "Exact answers", "ablated", "lost") == str(len(shown_answers(app)))
    assert 'aria-label="Strong overturns in literals"' not in page, "this arm has them in panel P-B alone"


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_arms_stand_in_the_order_that_every_page_shares(
    direction: str, open_app: OpenApp, invented_store: InventedStore
) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", sort="answers", order=direction)
    there = [arm for arm in arms(app, "Exact answers") if arm in ("q8_0", "q4_0", "kv-q4_0", "fa-off", "ablated")]
    rates = [invented_store.figure(arm, "answer.exact", "rate", "with")["value"] for arm in there]
    assert len(rates) == 5 and rates == sorted(rates, reverse=direction == "desc")
    overview = open_app(invented_store.folder, v="1", sort="answers", order=direction)
    assert arms(overview, "Candidates") == there


def test_the_order_of_the_protocol_shows_a_ladder_as_its_author_wrote_it(
    open_app: OpenApp, invented_store: InventedStore
) -> None:
    app = open_app(invented_store.folder, v="1", sort="protocol", order="desc")
    assert arms(app, "Candidates") == ["q8_0", "q4_0", "kv-q4_0", "fa-off", "ablated"]
    assert app.segmented_control(key="control.order").disabled, "it has one direction"


def test_the_overview_counts_exact_answers(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder)
    rows = judged(invented_store, "q4_0")
    cell = figure_text(app, "Candidates", "q4_0", "answers")
    assert cell.startswith(f"{sum(row['exact'] for row in rows)}/{len(rows)} ")


def test_lost_answers_show_both_tokens_where_the_text_first_goes_wrong(
    open_app: OpenApp, invented_store: InventedStore
) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", arm="ablated")
    assert set(shown_answers(app)) == lost(invented_store, "ablated") and len(shown_answers(app)) >= 3
    table = table_html(app, "Lost answers")
    rows = {row["answer"]: row for row in judged(invented_store, "ablated")}
    for name, lines in zip(shown_answers(app), table.split("<tr ")[1:], strict=True):
        row = rows[name]
        expected = row["text"][row["wrong_from"] : row["wrong_to"]].replace(" ", "\u2423")
        arms_own = row["candidate_text"].replace(" ", "\u2423")
        escaped = [word.replace("<", "&lt;").replace(">", "&gt;") for word in (expected, arms_own)]
        assert f'<b class="dr-within" title="the expected token">{escaped[0]}</b>' in lines
        assert f'title="the arm&#x27;s best token">{escaped[1]}</b>' in lines
        assert f"expected token, Q {row['candidate_p']:.4f}" in lines
        assert f"expected token, P {row['reference_p']:.4f}" in lines


def test_text_of_a_model_stays_text(open_app: OpenApp, invented_store: InventedStore) -> None:
    page = markup(open_app(invented_store.folder, VIEW, v="1", arm="ablated"))
    assert Cells(page).tags.isdisjoint({"script", "img", "a", "iframe"})
    assert not set(page) & {"\x1b", "\u202e"}
    assert "&lt;img src=x onerror=alert(1)&gt;" in page


def test_strong_overturns_in_literals_are_those_of_the_list(open_app: OpenApp, invented_store: InventedStore) -> None:
    app = open_app(invented_store.folder, VIEW, v="1", arm="ablated")
    run_id = next(record.run_id for record in invented_store.records() if record.arm == "ablated")
    overturns = [row for row in load_listed(invented_store.uri, run_id).to_pylist() if row["list"] == "strong_overturn"]
    wanted = [(row["window"], str(row["position"])) for row in overturns if row["literal"]]
    assert 0 < len(wanted) < len(overturns)
    rows = Cells(table_html(app, "Strong overturns in literals")).rows
    assert [(row["data-window"], row["data-position"]) for row in rows if row.get("data-window")] == wanted


def test_the_sentence_counts_the_pairs_that_the_agreement_counts(
    open_app: OpenApp, invented_store: InventedStore
) -> None:
    app = open_app(invented_store.folder, VIEW)
    assert len(app.get("vega_lite_chart")) == 2
    stored = [
        row
        for row in load_agreement(invented_store.uri, invented_store.campaign).to_pylist()
        if row["outliers"] == "with" and {row["left"], row["right"]} <= set(NAMES)
    ]
    assert len(stored) == 6
    page = markup(app)
    for row in stored:
        both = {NAMES[row["left"]], NAMES[row["right"]]}
        said = [words for words in (" and ".join(order) for order in (sorted(both), sorted(both)[::-1]))]
        counted = f"on {row['discordant']} of 15 pairs"
        assert any(f"<b>{words}</b> {counted}" in page for words in said) == bool(row["discordant"]), row


def order(left: str, right: str, discordant: int, tied: int = 0, tau: float | None = 0.5) -> dict[str, object]:
    counts = {"arms": 5, "concordant": 10 - discordant - tied, "discordant": discordant, "tied": tied}
    return {"left": left, "right": right, "outliers": "with", "tau": tau, "reason": "", **counts}


def says(*rows: dict[str, object]) -> str:
    return join(agreement_says(pa.Table.from_pylist(list(rows), schema=AGREEMENT), NAMES, outliers="with"))


def test_disagreement_is_said_with_the_figures_and_the_pairs_of_arms() -> None:
    said = says(
        order("flip/rate", "strong_overturn/count", 0),
        order("answer.exact/rate", "flip/rate", 1, 2),
        order("kl.full/worst_range.p95", "answer.exact/rate", 4),
        order("kl.full/worst_range.p95", "flip/rate", 0, tau=None),
        order("dnll/mean", "flip/rate", 9),
    )
    assert said == (
        "The figures disagree: <b>worst range p95 and exact answers</b> on 4 of 10 pairs of arms; "
        "<b>flip rate and exact answers</b> on 1 of 10 pairs of arms (2 tied). "
        "No two arms stand in opposite orders by flip rate and strong overturns. Arms in these orders: 5."
    )


def test_where_nothing_disagrees_or_nothing_is_known_it_is_said() -> None:
    flat = says(order("flip/rate", "answer.exact/rate", 0, 1), order("flip/rate", "strong_overturn/count", 0))
    assert flat == (
        "No two arms stand in opposite orders by any of flip rate, strong overturns, exact answers; some are tied. "
        "Too few arms have a value of worst range p95, or they do not differ in it. Arms in these orders: 5."
    )
    assert "is not said" in says() and "is not said" in says(order("flip/rate", "answer.exact/rate", 0, tau=None))


def test_a_campaign_that_expects_no_answers_says_so(open_app: OpenApp, tmp_path: Path) -> None:
    store = build_store(tmp_path, arms=("ablated", "q4_0", "micro-batch"), answers="none")
    app = open_app(store.folder, VIEW, v="1", arm="ablated")
    page = markup(app)
    assert "expects no answers" in page and 'aria-label="Exact answers"' not in page
    assert 'aria-label="Strong overturns in literals"' in page, "they need no answers"
    assert "answer.exact" not in table_html(open_app(store.folder), "Candidates")


def test_an_older_store_says_how_to_judge_its_answers(open_app: OpenApp, tmp_path: Path) -> None:
    store = build_store(tmp_path, arms=("ablated", "q4_0", "micro-batch"), answers="older")
    page = markup(open_app(store.folder, VIEW, v="1", arm="ablated"))
    assert "No answers were judged" in page and "drift measure" in page
    assert "This arm has none listed" in page
    assert 'aria-label="Lost answers"' not in page
    assert figure_text(open_app(store.folder), "Candidates", "q4_0", "answers") == "not measured"


def answer(name: str, **values: object) -> dict[str, object]:
    return dict.fromkeys(ANSWERS.names) | {"answer": name} | values


def test_lost_answers_begin_with_broken_literals_and_what_was_not_judged_is_not_lost() -> None:
    rows = [
        answer("sure", reference_exact=True, exact=False, literal=False, reference_p=0.99),
        answer("kept", reference_exact=True, exact=True),
        answer("literal", reference_exact=True, exact=False, literal=True, reference_p=0.6),
        answer("unknown"),
        answer("neither", reference_exact=False, exact=False, literal=True, reference_p=0.9),
        answer("unsure", reference_exact=True, exact=False, literal=None, reference_p=None),
        answer("gained", reference_exact=False, exact=True),
    ]
    assert [row["answer"] for row in lost_rows(rows)] == ["literal", "sure", "unsure"]
    assert lost_rows([]) == []
