"""What was asked, what was frozen, and what each arm really is."""

from __future__ import annotations

import json
from collections.abc import Callable

from drift_runs.protocol.model import HERE
from drift_runs.report.content import Content
from drift_runs.report.decided import when
from drift_runs.report.grid import Cell, Grid, Row, Section, words
from drift_runs.tracking.records import ArmRecord, CampaignRecord


def question(content: Content) -> Section:
    """Protocol, digest and state of the campaign; notes; declared outliers; what an amendment changed."""
    campaign, protocol = content.campaign, content.protocol
    frozen = "draft: its content may have changed between runs" if campaign.draft else "frozen: it has a lock"
    pairs = [
        ("protocol", f"{campaign.protocol_name} version {campaign.protocol_version}"),
        ("protocol digest", campaign.protocol_sha256),
        ("state", frozen + (", imported: rows of another tool" if campaign.imported else "")),
        ("reference arm", campaign.reference),
        *([("reference taken by", f"run {campaign.reference_run}")] if campaign.reference_run else []),
        ("campaign", campaign.run_id),
        ("begun", when(campaign.started_ms)),
        ("measured by", f"drift {content.facts.tool_version}" if content.facts.tool_version else "not recorded"),
        *((f"machine: {name}", value) for name, value in sorted(content.facts.host.items())),
        ("divergence", f"{content.columns.headline}" if not content.columns.free_running else "none: continuations"),
        ("intervals", _intervals(content)),
    ]
    if (past := protocol.supersedes) is not None:
        results = "results existed" if past.results_existed else "no results existed"
        pairs.append(("supersedes", f"{past.name} version {past.version} ({past.sha256}); {results} when it was made"))
        pairs += [("changed", past.changed), ("why", past.why)]
    grids = [_pairs("protocol", "Protocol", pairs)]
    if campaign.outliers:
        rows = [Row(cells=(words(window), words(reason))) for window, reason in campaign.outliers]
        grids.append(
            Grid(
                name="outliers",
                title="Windows declared as outliers",
                head=("window", "reason"),
                rows=tuple(rows),
                says="Declared in the protocol, before any result. Figures are given with and without them."
                if len(content.sets) > 1
                else f"Declared in the protocol, before any result. This report gives figures {content.sets[0]} them.",
            )
        )
    return Section(
        key="question",
        title="Question and protocol",
        says=tuple(text for text in (campaign.question, taken_elsewhere(campaign), *campaign.notes) if text),
        grids=tuple(grids),
    )


def taken_elsewhere(campaign: CampaignRecord) -> str:
    """What follows from a reference that another run took, in words; empty where the campaign took its own."""
    if not campaign.reference_run:
        return ""
    return (
        f"The rows of the reference {campaign.reference} came from run {campaign.reference_run}: they were not taken "
        "here. So nothing says how far it lies from itself: there is no floor of the reference, and no verdict. "
        f"{campaign.reference}{HERE} is the same arm on this machine: what lies between the two is the machine, its "
        "engine and its driver; the protocol's floors are repeats of that arm. Nothing is written freely, because that "
        "needs the reference's engine."
    )


def _intervals(content: Content) -> str:
    chosen = content.protocol.intervals
    return (
        f"{chosen.confidence:.0%}, {chosen.resamples:,} resamples of each {chosen.cluster}, "
        f"seed {content.protocol.seeds.bootstrap}"
    )


def _pairs(name: str, title: str, pairs: list[tuple[str, str]]) -> Grid:
    rows = tuple(Row(cells=(words(what), words(value))) for what, value in pairs)
    return Grid(name=name, title=title, head=("what", "value"), rows=rows)


_FACTS: tuple[tuple[str, Callable[[Content, ArmRecord], str]], ...] = (
    ("role", lambda content, arm: f"{arm.role} ({arm.floor_kind})" if arm.floor_kind else arm.role),
    ("derivative", lambda content, arm: arm.derivative),
    ("weights", lambda content, arm: arm.weights),
    ("weights in the file", lambda content, arm: arm.weights_observed),
    ("KV", lambda content, arm: arm.kv),
    ("engine", lambda content, arm: arm.engine),
    ("hardware", lambda content, arm: arm.hardware),
    ("settings", lambda content, arm: settings_text(arm.settings)),
    ("size", lambda content, arm: "" if arm.weight_bytes is None else f"{arm.weight_bytes / 1e6:,.1f} MB"),
    ("weights SHA-256", lambda content, arm: content.facts.weights_sha256.get(arm.run_id, "")),
    ("adapter SHA-256", lambda content, arm: content.facts.adapter_sha256.get(arm.run_id, "")),
    ("capture", lambda content, arm: arm.capture_id),
)
_ALWAYS = ("role", "weights SHA-256", "capture")
_DIGESTS = ("weights SHA-256", "adapter SHA-256")
SHOWN_DIGITS = 16


def arms(content: Content) -> Section:
    """What was observed of each arm. What is the same for all of them is said once; digests are whole in the CSV."""
    everyone = content.campaign.arms
    if not everyone:
        return Section(key="arms", title="The arms", says=("The campaign has no arm.",))
    values = {name: [of(content, arm) for arm in everyone] for name, of in _FACTS}
    common = [
        (name, found[0] or "none") for name, found in values.items() if len(set(found)) == 1 and name not in _ALWAYS
    ]
    own = [name for name, found in values.items() if name in _ALWAYS or len(set(found)) > 1]
    rows = []
    for at, arm in enumerate(everyone):
        failed = content.facts.failed.get(arm.run_id, "")
        state = "" if arm.complete else f"not complete{': ' + failed if failed else ''}"
        lead = words(arm.arm, arm.title if arm.title != arm.arm else "", state, mark="warn" if state else "")
        rows.append(Row(cells=(lead, *(_fact(name, values[name][at]) for name in own)), arm=arm.arm))
    fields = tuple(
        {"arm": arm.arm, "title": arm.title, **{name: found[at] for name, found in values.items()}, "run": arm.run_id}
        for at, arm in enumerate(everyone)
    )
    grids = [_pairs("arms-common", "The same for every arm", common)] if common else []
    says = f"The reference is {content.campaign.reference}, capture {content.campaign.reference_capture_id}."
    grid = Grid(name="arms", title="Arms", head=("arm", *own), rows=tuple(rows), fields=fields)
    return Section(key="arms", title="The arms, as observed", says=(says,), grids=(*grids, grid))


def _fact(name: str, value: str) -> Cell:
    if name in _DIGESTS and len(value) > SHOWN_DIGITS:
        return words(f"{value[:SHOWN_DIGITS]}…")
    return words(value or "-", grey=not value)


def settings_text(canonical: str) -> str:
    """Canonical JSON of settings as ``name value`` pairs; the text itself when it is no JSON object."""
    try:
        found = json.loads(canonical) if canonical else {}
    except ValueError:
        return canonical
    if not isinstance(found, dict):
        return canonical
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found.items())
