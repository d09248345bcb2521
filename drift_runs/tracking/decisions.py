"""What people decided about an arm, as tags of its run: every entry stays, the latest one counts.

An entry is one tag, ``drift.decision.<number>.<eight random digits>``, with canonical JSON. The number orders entries;
the random part keeps both where two people decide at once, because each writes a tag of a name of its own. Nothing is
ever written over. What a person types is held to a length, since a tag is.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from drift_runs.errors import ConfigError, StoreError
from drift_runs.protocol.canonical import canonical_json
from drift_runs.schema import FIGURES
from drift_runs.tracking import artifacts, index_sqlite, reach, tags
from drift_runs.tracking.mlflow_store import artifact, connect, deleted_of, experiments, runs_of, tag_is
from drift_runs.tracking.records import ArmRecord, CampaignRecord

DECISIONS = ("accepted", "rejected", "needs more")
DECISION_PREFIX = "drift.decision."
ROLES = ("candidate", "follow-up")
"""Arms that can be decided about: a floor is the measuring itself."""
MAX_REASON_CHARACTERS = 2000
MAX_NAME_CHARACTERS = 80
MAX_VIEW_CHARACTERS = 2500

_TAG = re.compile(re.escape(DECISION_PREFIX) + r"(\d{1,9})\.([0-9a-f]{8})")
_VIEW = re.compile(r"/?[a-z_]{0,40}\?v=[A-Za-z0-9._~%&=*:+/@,-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One entry, as somebody made it."""

    arm: str
    run_id: str
    """Of the arm's comparison: the figures that were decided about."""
    number: int
    """Place in the arm's history, from 1; two that were made at once share one."""
    decision: str
    """One of :data:`DECISIONS`."""
    reason: str
    name: str
    """Who decided, as they wrote it."""
    time_ms: int
    """Of the machine that wrote it, since 1970."""
    view: str
    """The view that was open: a page and its query, without the server's address; empty where none was."""


class History(NamedTuple):
    """Decisions of some arms."""

    entries: tuple[Decision, ...]
    """Oldest first within an arm, arms in the order that they were asked for."""
    damaged: tuple[str, ...]
    """``arm: tag`` of each entry that cannot be read."""

    def of(self, arm: str) -> tuple[Decision, ...]:
        return tuple(entry for entry in self.entries if entry.arm == arm)

    def current(self) -> dict[str, Decision]:
        """The latest decision of each arm that has one."""
        return {entry.arm: entry for entry in self.entries}


def decide(
    uri: str, campaign: CampaignRecord, arm: str, *, decision: str, reason: str, name: str, view: str = ""
) -> Decision:
    """Add a decision about an arm to its history and return it as it is stored.

    ``ConfigError`` for what cannot be a decision, ``StoreError`` where it cannot be written.
    """
    record = _record(campaign, arm)
    if decision not in DECISIONS:
        raise ConfigError(f"{decision!r} is no decision", where=f"arm {arm}", expected=", ".join(DECISIONS))
    reason = _text(reason, "reason", MAX_REASON_CHARACTERS)
    name = _text(" ".join(name.split()), "name", MAX_NAME_CHARACTERS)
    if view and not is_view(view):
        raise ConfigError("the view is no address of a page", where=f"arm {arm}", expected="page?v=…")
    client = connect(uri, create=False)
    with reach.asked(uri, "write a decision", record.run_id):
        before = _of_run(client.get_run(record.run_id).data.tags, record).entries
        entry = Decision(
            arm=arm,
            run_id=record.run_id,
            number=1 + max((found.number for found in before), default=0),
            decision=decision,
            reason=reason,
            name=name,
            time_ms=int(time.time() * 1000),
            view=view,
        )
        tag = f"{DECISION_PREFIX}{entry.number:04d}.{secrets.token_hex(4)}"
        content = {
            "decision": entry.decision,
            "reason": entry.reason,
            "name": entry.name,
            "time_ms": entry.time_ms,
            "view": entry.view,
        }
        written = tags.checked_tags({tag: canonical_json(content).decode()})
        client.set_tag(record.run_id, tag, written[tag])
        if client.get_run(record.run_id).data.tags.get(tag) != written[tag]:
            raise StoreError("the decision was not kept", where=f"run {record.run_id}", todo="try it again")
    _touch(uri, campaign)
    return entry


def _touch(uri: str, campaign: CampaignRecord) -> None:
    """Let an index of campaigns know that it is old.

    Two who decide at once may both find no such tag and both write it as a new one: one of them is refused then, and
    finds it at the next try.
    """
    client = connect(uri, create=False)
    for tries_left in (3, 2, 1, 0):
        try:
            with reach.asked(uri, "write a decision", campaign.run_id):
                client.set_tag(campaign.run_id, tags.TOUCHED_TAG, tags.day_of(int(time.time() * 1000)))
            return
        except StoreError:
            if not tries_left:
                raise


def carry_over(uri: str, run_id: str, *, generation: str = "") -> int:
    """Take over what was decided about a comparison whose rows were lost, where all of it came back the same.

    ``run_id``: the new run, its figures logged. ``generation``: key of what its arm wrote freely, empty where nothing
    of it is known yet. People decided about what they saw, so equal figures (of the same comparison id and
    comparability key, to the last digit) and equal outcomes, tasks and rollouts keep their decisions, with numbers,
    names and times; others were decided about by nobody. How many entries were taken over.
    """
    client = connect(uri, create=False)
    with reach.asked(uri, "take over decisions", run_id):
        run = client.get_run(run_id)
        own = run.data.tags
        if any(_TAG.fullmatch(tag) for tag in own):
            return 0  # they are there already, or somebody decided anew
        names = (tags.PARENT_TAG, tags.COMPARISON_TAG)
        found = deleted_of(client, [run.info.experiment_id], *(tag_is(name, own[name]) for name in names))
        # The last one that stood: what was decided before it about yet other figures is past.
        last = next(
            (old for old in found if tags.SUPERSEDED_TAG in old.data.tags and tags.is_complete(old.data.tags)), None
        )
        if last is None or tags.key_tags(last.data.tags) != tags.key_tags(own):
            return 0
        if last.data.tags.get(tags.GENERATION_TAG, "") != generation:
            return 0
        entries = {tag: text for tag, text in last.data.tags.items() if _TAG.fullmatch(tag)}
        if not entries or not _same_figures(uri, run_id, last.info.run_id):
            return 0
        for tag, text in entries.items():
            client.set_tag(run_id, tag, text)
        return len(entries)


def _same_figures(uri: str, one: str, other: str) -> bool:
    """Whether two runs hold the same figures; False where the older one's are gone."""
    tables = []
    for run_id in (one, other):
        with artifact(uri, run_id, artifacts.FIGURES_FILE, required=False) as path:
            if path is None:
                return False
            tables.append(artifacts.read_table(path, FIGURES, run_id))
    return tables[0].equals(tables[1])


def load_decisions(uri: str, campaign: CampaignRecord) -> History:
    """Every decision about a campaign's arms; one look at a local store's database, else one search."""
    wanted = {arm.run_id: arm for arm in campaign.arms if arm.role in ROLES}
    at_once = index_sqlite.tags_of(uri, list(wanted), DECISION_PREFIX)
    if at_once is not None:
        return _joined(_of_run(at_once[run_id], arm) for run_id, arm in wanted.items())
    client = connect(uri, create=False)
    found: dict[str, Mapping[str, str]] = {}
    with reach.asked(uri, "read decisions", campaign.run_id):
        experiment = client.get_run(campaign.run_id).info.experiment_id
        for run in runs_of(client, [experiment], tag_is(tags.PARENT_TAG, campaign.run_id)):
            found[run.info.run_id] = run.data.tags
    return _joined(_of_run(found.get(run_id, {}), arm) for run_id, arm in wanted.items())


def all_decisions(uri: str, campaigns: Sequence[CampaignRecord]) -> dict[str, History]:
    """Decisions of many campaigns, by their run id; one look at a local store's database, else a search for each
    page of comparisons in the store."""
    wanted = [arm.run_id for campaign in campaigns for arm in campaign.arms if arm.role in ROLES]
    found: dict[str, dict[str, str]] | None = index_sqlite.tags_of(uri, wanted, DECISION_PREFIX)
    if found is None:
        found = {}
        client = connect(uri, create=False)
        with reach.asked(uri, "read decisions"):
            ids = [item.experiment_id for item in experiments(client)]
            for run in runs_of(client, ids, tag_is(tags.KIND_TAG, tags.COMPARISON)):
                found[run.info.run_id] = run.data.tags
    return {
        campaign.run_id: _joined(_of_run(found.get(arm.run_id, {}), arm) for arm in campaign.arms if arm.role in ROLES)
        for campaign in campaigns
    }


def is_view(view: str) -> bool:
    """Whether a text is the address of a page and nothing else, so that it may become a link."""
    return len(view) <= MAX_VIEW_CHARACTERS and _VIEW.fullmatch(view) is not None


def _record(campaign: CampaignRecord, arm: str) -> ArmRecord:
    known = [item for item in campaign.arms if item.role in ROLES and item.complete]
    for record in known:
        if record.arm == arm:
            return record
    raise ConfigError(
        f"no arm {arm!r} to decide about",
        where=f"campaign {campaign.run_id}",
        expected="one of " + ", ".join(item.arm for item in known) if known else "a campaign with a complete arm",
    )


def _text(text: str, what: str, limit: int) -> str:
    text = text.strip()
    if not text:
        raise ConfigError(f"a decision without a {what}", expected=f"a {what} in words")
    if len(text) > limit:
        raise ConfigError(f"the {what} has {len(text):,} characters", expected=f"at most {limit:,}")
    if any(0xD800 <= ord(mark) < 0xE000 for mark in text):
        raise ConfigError(f"the {what} holds half a character", expected="text that can be stored as UTF-8")
    return text


def _joined(histories: Iterable[History]) -> History:
    histories = list(histories)
    return History(
        tuple(entry for found in histories for entry in found.entries),
        tuple(tag for found in histories for tag in found.damaged),
    )


def _of_run(found: Mapping[str, str], arm: ArmRecord) -> History:
    """Entries of one run, oldest first."""
    entries: list[tuple[str, Decision]] = []
    damaged = []
    for tag, content in found.items():
        if not tag.startswith(DECISION_PREFIX):
            continue
        entry = _entry(tag, content, arm)
        if entry is None:
            damaged.append(f"{arm.arm}: {tag}")
        else:
            entries.append((tag, entry))
    entries.sort(key=lambda pair: (pair[1].number, pair[1].time_ms, pair[0]))
    return History(tuple(entry for _, entry in entries), tuple(sorted(damaged)))


def _entry(tag: str, content: str, arm: ArmRecord) -> Decision | None:
    """A tag as a decision; None for one that was written by hand and is none."""
    named = _TAG.fullmatch(tag)
    try:
        found = json.loads(content)
        entry = Decision(
            arm=arm.arm,
            run_id=arm.run_id,
            number=int(named[1]) if named else 0,
            decision=str(found["decision"]),
            reason=str(found["reason"]),
            name=str(found["name"]),
            time_ms=int(found["time_ms"]),
            view=str(found["view"]),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return entry if named and entry.decision in DECISIONS and 0 <= entry.time_ms < 2**53 else None
