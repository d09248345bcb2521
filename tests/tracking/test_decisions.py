"""Decisions in a real store: what is written is read, nothing is written over, and damage is named."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from tracking_tables import campaign_facts, comparison_facts

from drift_runs.errors import ConfigError
from drift_runs.tracking import mlflow_store, tags, uris
from drift_runs.tracking.decisions import (
    MAX_NAME_CHARACTERS,
    MAX_REASON_CHARACTERS,
    all_decisions,
    decide,
    is_view,
    load_decisions,
)
from drift_runs.tracking.mlflow_store import Tracker
from drift_runs.tracking.reader import list_campaigns
from drift_runs.tracking.records import CampaignRecord

HOSTILE = '<script>alert("x")</script> \u202e\x1b[31m\n' + "a" * 300 + " \U0001f642"


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return uris.sqlite_uri(tmp_path_factory.mktemp("decisions") / "mlflow.db")


@pytest.fixture
def campaign(uri: str, request: pytest.FixtureRequest) -> CampaignRecord:
    """A complete campaign of the test's own, with one candidate and one floor."""
    tracker = Tracker(uri)
    key = f"key-{abs(hash(request.node.name))}"
    facts = campaign_facts(campaign_key=key)
    parent = tracker.start_campaign(facts, protocol_text="", protocol_json="{}").run_id
    for arm, role in (("q4_0", "candidate"), ("launch", "floor")):
        run = tracker.start_comparison(parent, comparison_facts(arm=arm, role=role, comparison_id=f"{arm}-{key}"))
        tracker.complete(run.run_id)
    tracker.complete(parent)
    return next(found for found in list_campaigns(uri) if found.run_id == parent)


def test_the_latest_decision_counts_and_the_others_stay(uri: str, campaign: CampaignRecord) -> None:
    first = decide(uri, campaign, "q4_0", decision="needs more", reason="one panel only", name=" R.\n Reader ")
    second = decide(uri, campaign, "q4_0", decision="rejected", reason=HOSTILE, name="R. Reader", view="ranges?v=1&a=b")
    history = load_decisions(uri, campaign)
    assert history.entries == (first, second) == history.of("q4_0")
    assert history.current() == {"q4_0": second}
    assert (first.number, second.number) == (1, 2)
    assert first.name == "R. Reader"
    assert second.reason == HOSTILE.strip() and second.view == "ranges?v=1&a=b"
    assert first.time_ms <= second.time_ms
    assert all_decisions(uri, [campaign])[campaign.run_id] == history
    run = mlflow_store.connect(uri, create=False).get_run(campaign.run_id)
    assert run.data.tags[tags.TOUCHED_TAG] >= tags.day_of(second.time_ms)


def test_two_people_at_once_both_stay(uri: str, campaign: CampaignRecord) -> None:
    def one(number: int) -> str:
        return decide(uri, campaign, "q4_0", decision="accepted", reason=f"reason {number}", name=f"name {number}").name

    with ThreadPoolExecutor(4) as pool:
        names = list(pool.map(one, range(8)))
    found = load_decisions(uri, campaign)
    assert sorted(entry.name for entry in found.entries) == sorted(names)
    assert [entry.number for entry in found.entries] == sorted(entry.number for entry in found.entries)


def test_the_longest_texts_fit_a_tag(uri: str, campaign: CampaignRecord) -> None:
    reason, name = '"' * MAX_REASON_CHARACTERS, "ü" * MAX_NAME_CHARACTERS
    entry = decide(uri, campaign, "q4_0", decision="accepted", reason=reason, name=name, view="?v=" + "a" * 2400)
    assert load_decisions(uri, campaign).entries == (entry,)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"decision": "maybe"}, "accepted, rejected, needs more"),
        ({"reason": "  "}, "without a reason"),
        ({"name": ""}, "without a name"),
        ({"reason": "a" * (MAX_REASON_CHARACTERS + 1)}, "2,001 characters"),
        ({"name": "\ud800"}, "half a character"),
        ({"view": "javascript:alert(1)"}, "no address"),
    ],
)
def test_what_is_no_decision_is_refused_and_nothing_is_written(
    uri: str, campaign: CampaignRecord, changes: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        decide(uri, campaign, "q4_0", **{"decision": "accepted", "reason": "r", "name": "n", **changes})
    assert load_decisions(uri, campaign).entries == ()


def test_floors_and_unknown_arms_are_refused_with_what_there_is(uri: str, campaign: CampaignRecord) -> None:
    for arm in ("launch", "nothing"):
        with pytest.raises(ConfigError, match="one of q4_0"):
            decide(uri, campaign, arm, decision="accepted", reason="r", name="n")


def test_a_damaged_entry_is_named_and_the_others_are_read(uri: str, campaign: CampaignRecord) -> None:
    kept = decide(uri, campaign, "q4_0", decision="accepted", reason="r", name="n")
    client = mlflow_store.connect(uri, create=False)
    client.set_tag(kept.run_id, "drift.decision.0002.zz", "{}")
    client.set_tag(kept.run_id, "drift.decision.0003.00000000", '{"decision":"<b>"}')
    client.set_tag(kept.run_id, "drift.decision.0004.00000000", "[" * 5000)
    found = load_decisions(uri, campaign)
    assert found.entries == (kept,)
    assert len(found.damaged) == 3 and all(tag.startswith("q4_0: drift.decision.") for tag in found.damaged)


@pytest.mark.parametrize(
    ("view", "safe"),
    [
        ("?v=1&campaign=abc", True),
        ("ranges?v=1&scope=panel%3AP-A&kv=*", True),
        ("/compare?v=1", True),
        ("", False),
        ("//example.invalid?v=1", False),
        ("http://example.invalid/?v=1", False),
        ('?v=1"><script>', False),
        ("?v=1&a=" + "b" * 3000, False),
    ],
)
def test_only_the_address_of_a_page_may_become_a_link(view: str, safe: bool) -> None:
    assert is_view(view) is safe
