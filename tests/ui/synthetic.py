"""A test double of an engine's work: invented comparisons of a small invented campaign, in a real store.

Only the numbers at each position are invented. The protocol is the real model, the figures are computed from the
positions, and the store is written by the real tracker.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drift_runs import schema
from drift_runs.measure.comparability import key_of
from drift_runs.measure.results import Results
from drift_runs.measure.text import Texts, TokenText
from drift_runs.protocol.canonical import canonical_json, protocol_sha256
from drift_runs.protocol.model import Protocol, Window
from drift_runs.tracking import artifacts
from drift_runs.tracking.records import ArmRecord

HOSTILE_TITLE = '<script>document.title="owned"</script> [a](http://example.invalid) ![i](http://example.invalid/i.png)'
OUTLIER_REASON = "It repeats one table with numbers only, which no request does."

WINDOWS = {
    # name: (panel, document, kinds with their number of positions)
    "code-1": ("P-A", "code", {"code": 420}),
    "code-2": ("P-A", "code", {"code": 330, "literal-copy": 60}),
    "prose-1": ("P-A", "prose", {"prose": 400}),
    "sql-1": ("P-A", "sql", {"sql": 390}),
    "call-1": ("P-B", "call", {"tool-call": 320, "json": 210}),
    "answer-1": ("P-B", "answer", {"prose": 380}),
    "table-1": ("P-B", "table", {"literal-copy": 300}),
}
OUTLIER = "table-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Invented:
    """An arm and how far it drifts."""

    role: str
    median_kl_nats: float
    weights: str = "f16"
    kv: str = "f16"
    derivative: str = "stock"
    title: str = ""
    settings: str = "{}"
    floor_kind: str = ""
    rows_expected: str = ""
    outlier_factor: float = 6.0
    against: str = ""
    """Another reference than the campaign's."""
    of: str = ""
    """For a further launch: the arm that it repeats."""


ARMS = {
    "launch": Invented(role="floor", median_kl_nats=0.0, floor_kind="launch", rows_expected="identical"),
    "micro-batch": Invented(role="floor", median_kl_nats=2e-6, floor_kind="geometry", rows_expected="differ"),
    "q8_0#2": Invented(role="launch", median_kl_nats=4.4e-4, weights="q8_0", title="Q8_0 weights, launch 2", of="q8_0"),
    "q8_0": Invented(role="candidate", median_kl_nats=4e-4, weights="q8_0", title="Q8_0 weights"),
    "q4_0": Invented(role="candidate", median_kl_nats=2e-2, weights="q4_0", title=HOSTILE_TITLE),
    "kv-q4_0": Invented(role="candidate", median_kl_nats=6e-3, kv="q4_0", title="KV cache in Q4_0"),
    "fa-off": Invented(
        role="candidate", median_kl_nats=3e-6, title="flash attention off", settings='{"flash_attention":"off"}'
    ),
    "ablated": Invented(role="candidate", median_kl_nats=8e-2, derivative="ablated", title="a direction removed"),
    "served": Invented(role="candidate", median_kl_nats=1.1e-3, title="a loaded server", against="f16-served"),
    "kv-bf16": Invented(role="follow-up", median_kl_nats=1e-4, kv="bf16", title="KV cache in BF16"),
}
FLOORS = ("launch", "micro-batch")
OTHERS = ("served",)
"""Candidates that may not be ranked with the others."""
TOP_K = 10
SHIFT_NATS = 0.03
"""By which every candidate that drifts is flatter than the reference."""
ANSWER_TOKENS = 6
ANSWERS_EACH = 4
"""Expected answers of a window that has a range long enough, one after the other from its first scored position."""
TOKENS = [
    *(f" word{number}".encode() for number in range(26)),
    b"<img src=x onerror=alert(1)>",
    b"\x1b[31m",
    b"\n",
    "\u202e".encode(),
    b"\xff",
    b" ",
]


def protocol_content() -> dict:
    """The parsed content of an invented protocol file."""
    windows, ranges, answers = [], [], []
    for name, (panel, document, kinds) in WINDOWS.items():
        start = 20
        for number, (kind, length) in enumerate(kinds.items()):
            ranges.append(
                {"name": f"{name}-{number}", "window": name, "kind": kind, "from": start, "to": start + length}
            )
            start += length
        for number in range(ANSWERS_EACH):
            place = 20 + 40 * number
            answer = {"name": f"{name}-answer-{number}", "window": name, "from": place, "to": place + ANSWER_TOKENS}
            answers.append({**answer, "form": "text"})
        windows.append(
            {
                "name": name,
                "panel": panel,
                "document": document,
                "title": name,
                "stream": f"streams/{name}.json",
                "group": "numbers" if name == OUTLIER else f"texts-{panel.lower()}",
                "scored": [[20, start]],
            }
        )
    arms = [{"name": "f16", "role": "reference", "title": "F16", "derivative": "stock", "weights": "f16"}]
    for name, arm in ARMS.items():
        if arm.role == "candidate":
            arms.append(
                {
                    "name": name,
                    "role": "candidate",
                    "derivative": arm.derivative,
                    "weights": arm.weights,
                    "kv": arm.kv,
                    "title": arm.title,
                    "against": arm.against,
                    "launches": 1 + sum(other.of == name for other in ARMS.values()),
                }
            )
    return {
        "schema": "drift.protocol/1",
        "name": "invented",
        "version": 2,
        "title": "Invented campaign",
        "question": "Does the dashboard show what the store holds?",
        "notes": ["The stock weights are a dequantised Q4_1: F16 here is not the maker's F16.", "<b>not bold</b>"],
        "dictionary": {"size": 32, "sha256": "ab" * 32},
        "seeds": {"bootstrap": 11},
        "capture": {"top_k": TOP_K},
        "history": {"buckets": [128, 256], "depth_tokens": 160},
        "intervals": {"cluster": "document", "resamples": 200},
        "panels": [
            {"name": "P-A", "title": "Authored texts", "role": "prompt"},
            {"name": "P-B", "title": "What the reference wrote", "role": "generated"},
        ],
        "windows": windows,
        "ranges": ranges,
        "answers": answers,
        "outliers": [{"window": OUTLIER, "reason": OUTLIER_REASON}],
        "arms": arms,
        "floors": [
            {"name": "launch", "arm": "f16", "kind": "launch", "rows": "identical"},
            {
                "name": "micro-batch",
                "arm": "f16",
                "kind": "geometry",
                "rows": "differ",
                "settings": {"micro_batch": 64},
            },
        ],
    }


def comparison(protocol: Protocol, name: str, factor: float = 1.0) -> pa.Table:
    """Every position of an invented arm against the reference (schema ``COMPARISON``)."""
    arm = replace(ARMS[name], median_kl_nats=ARMS[name].median_kl_nats * factor)
    tables = []
    for window in protocol.windows:
        seed = int.from_bytes(hashlib.sha256(f"{name}/{window.name}".encode()).digest()[:8], "little")
        positions = np.concatenate([np.arange(start, end) for start, end in window.scored])
        role = protocol.panel(window.panel).role
        table = _rows(arm, window.name, role, positions, np.random.default_rng(seed))
        tables.append(_with_answers(table, protocol, window.name, stream_of(window)))
    return pa.concat_tables(tables).unify_dictionaries()


def _rows(arm: Invented, window: str, role: str, positions: np.ndarray, rng: np.random.Generator) -> pa.Table:
    n = len(positions)
    shared = np.random.default_rng(len(window) * 1000 + n)  # the reference is the same for every arm
    p1 = shared.beta(2.5, 1.0, n)
    nll = shared.exponential(1.2, n)
    factor = arm.outlier_factor if window == OUTLIER else 1.0
    kl = arm.median_kl_nats * factor * np.exp(rng.normal(0.0, 1.6, n))
    flip = rng.random(n) < np.minimum(np.sqrt(kl) * (1.05 - p1), 0.9)
    dnll = rng.normal(0.0, 1.0, n) * np.sqrt(kl)
    top = np.full(n, 3)
    drifts = arm.median_kl_nats > 0
    collapsed = drifts & (kl > np.quantile(kl, 0.995))
    missed = np.minimum(np.floor(np.sqrt(kl) * 6), TOP_K - 2) + collapsed
    same = np.full(n, arm.median_kl_nats == 0.0)
    columns = {
        "window": [window] * n,
        "position": positions,
        "role": [role] * n,
        "token": np.full(n, 5),
        "kl_full_nats": kl,
        "js_full_nats": 0.24 * kl,
        "top_k": np.full(n, TOP_K),
        "kl_topk_tail_nats": 0.9 * kl,
        "kl_topk_shared_nats": np.where(collapsed, np.nan, 0.7 * kl),
        "kl_topk_lower_nats": 0.6 * kl,
        "kl_topk_floor_nats": 1.1 * kl,
        "shared_support": np.where(collapsed, 1, TOP_K - missed),
        "reference_mass_outside": np.minimum(0.02 + np.sqrt(kl) * 0.1, 0.9),
        "missed": missed,
        "flip_text": rng.random(n) < 0.4,
        "swap": flip & (rng.random(n) < 0.5),
        "reference_rank": 1 + shared.poisson(0.8, n),
        "candidate_rank": 1 + shared.poisson(0.8, n) + flip,
        "reference_padding_mass": np.full(n, 1e-9),
        "candidate_padding_mass": np.full(n, 1e-9),
        "copy": shared.random(n) < 0.2,
        "literal": shared.random(n) < 0.15,
        "flip": flip,
        "flip_strict": flip & (rng.random(n) < 0.9),
        "reference_top": top,
        "candidate_top": np.where(flip, 4, 3),
        "reference_p1": p1,
        "reference_margin": p1 * 0.8,
        "candidate_p1": p1,
        "p_of_candidate_top": np.where(flip, p1 * 0.2, p1),
        "q_of_reference_top": p1,
        "reference_nll_nats": nll,
        "candidate_nll_nats": np.maximum(nll + dnll, 0.0),
        "dp": rng.normal(0.0, 0.1, n) * np.sqrt(kl),
        "reference_entropy_nats": nll,
        "candidate_entropy_nats": nll + SHIFT_NATS * drifts,
        "reference_entropy_topk_nats": 0.9 * nll,
        "candidate_entropy_topk_nats": 0.9 * nll + SHIFT_NATS * drifts,
        "max_abs_dlogit": np.sqrt(kl).astype(np.float32),
        "row_identical": same,
        "flags": np.where(collapsed, schema.RowFlag.SUPPORT_COLLAPSE, 0),
    }
    columns["row_hash"] = ["row.full"] * n
    arrays = []
    for field in schema.COMPARISON:
        if field.name not in columns:
            arrays.append(pa.nulls(n, field.type))
        elif pa.types.is_dictionary(field.type):
            arrays.append(pa.array(columns[field.name], pa.string()).dictionary_encode().cast(field.type))
        else:
            values = np.asarray(columns[field.name])
            missing = np.isnan(values) if values.dtype.kind == "f" else None
            arrays.append(pa.array(values, mask=missing).cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema.COMPARISON)


def _with_answers(table: pa.Table, protocol: Protocol, window: str, stream: list[int]) -> pa.Table:
    """The same rows where in answers the reference's best token is the stream's own, but for the window's last answer,
    whose first token it would not write."""
    position = table["position"].to_numpy()
    inside, missed = np.zeros(len(position), dtype=bool), np.zeros(len(position), dtype=bool)
    for number, answer in enumerate(item for item in protocol.answers if item.window == window):
        inside |= (position >= answer.start) & (position < answer.end)
        missed |= (position == answer.start) & (number == ANSWERS_EACH - 1)
    own = np.array(stream)[position]
    flip = table["flip"].to_numpy(zero_copy_only=False).astype(bool)
    reference = np.where(missed, (own + 1) % len(TOKENS), own)
    candidate = np.where(flip, (reference + 3) % len(TOKENS), reference)
    changed = {
        "token": np.where(inside, own, table["token"].to_numpy()),
        "reference_top": np.where(inside, reference, table["reference_top"].to_numpy()),
        "candidate_top": np.where(inside, candidate, table["candidate_top"].to_numpy()),
        "flip_text": np.where(inside, candidate != own, table["flip_text"].to_numpy(zero_copy_only=False)).astype(bool),
    }
    for name, values in changed.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(name), pa.array(values).cast(table.schema.field(name).type))
    return table


def stream_of(window: Window) -> list[int]:
    """The invented stream of a window over :data:`TOKENS`, hostile ones among them."""
    return np.random.default_rng(len(window.name)).integers(0, len(TOKENS), window.scored[-1][1]).tolist()


def texts(protocol: Protocol) -> Texts:
    """The invented streams and what their tokens say."""
    return Texts(tokens=TokenText(TOKENS), streams={window.name: stream_of(window) for window in protocol.windows})


@dataclass(frozen=True, slots=True, kw_only=True)
class InventedStore:
    """A store on disk and what is in it."""

    folder: Path
    uri: str
    campaign: str
    figures: Mapping[str, pa.Table]

    def records(self) -> tuple[ArmRecord, ...]:
        """The arms as the store lists them."""
        from drift_runs.tracking.reader import list_campaigns

        return next(record for record in list_campaigns(self.uri) if record.run_id == self.campaign).arms

    def figure(self, arm: str, spec: str, statistic: str, outliers: str, kind: str = "all", scope: str = "all") -> dict:
        """The stored row of one figure."""
        wanted = {"spec": spec, "statistic": statistic, "outliers": outliers, "scope_kind": kind, "scope": scope}
        found = [
            row
            for row in self.figures[arm].to_pylist()
            if all(row[column] == value for column, value in wanted.items())
        ]
        assert len(found) == 1, f"{len(found)} figures of {arm} for {wanted}"
        return found[0]


def build_store(
    folder: Path,
    *,
    finish: bool = True,
    draft: bool = False,
    unfinished_arm: str = "",
    arms: Sequence[str] = tuple(ARMS),
    known: Sequence[str] = (),
    answers: Literal["judged", "older", "none"] = "judged",
    engine: str = "llama_cpp (build 7)",
    key: str = "",
    drift: Mapping[str, float] = MappingProxyType({}),
    reference_run: str = "",
) -> InventedStore:
    """Write the invented campaign with the real tracker; ``finish=False`` leaves it incomplete.

    ``known``: the only fields of the comparability key that are stored, as an older version might have done.
    ``engine``, ``key``: another campaign of the same protocol in the same store; ``drift``: by what the invented
    divergence of an arm is multiplied.
    ``reference_run``: the run that took the reference, where it was another one.
    ``answers``: ``none`` for a protocol that expects none, ``older`` for a store in which they were not judged.
    """
    from drift_runs.tracking.mlflow_store import Tracker
    from drift_runs.tracking.tags import CampaignFacts, ComparisonFacts
    from drift_runs.tracking.uris import resolve_uri

    content = protocol_content()
    if answers == "none":
        del content["answers"]
    protocol = Protocol.model_validate(content)
    digest = protocol_sha256(content)
    folder.mkdir(parents=True, exist_ok=True)
    uri = resolve_uri(f"sqlite:///{folder.absolute().as_posix()}/mlflow.db", folder)
    tracker = Tracker(uri)
    facts = CampaignFacts(
        protocol_name=protocol.name,
        protocol_version=protocol.version,
        protocol_sha256=digest,
        draft=draft,
        title=protocol.title,
        question=protocol.question,
        notes=protocol.notes,
        outliers=tuple((item.window, item.reason) for item in protocol.outliers),
        reference="f16",
        reference_capture_id="00" * 8,
        campaign_key=f"key-{finish}-{draft}-{key}",
        tool_version="test",
        reference_run=reference_run,
    )
    text = canonical_json(content).decode()
    campaign = tracker.start_campaign(facts, protocol_text=text, protocol_json=text).run_id
    results = Results(protocol, texts(protocol))
    figures = {}
    for name in (name for name in ARMS if name in arms):
        arm = ARMS[name]
        table = comparison(protocol, name, drift.get(name, 1.0))
        result = results.measure(table, arm=name, kind=arm.role, against=arm.against, of=arm.of)
        figures[name] = result.figures
        if answers == "older":
            figures[name] = result.figures.filter(pa.compute.not_equal(result.figures["spec"], "answer.exact"))
        run_id = tracker.start_comparison(
            campaign, _facts(ComparisonFacts, protocol, digest, name, arm, known, engine)
        ).run_id
        judged = result.answers if answers == "judged" else None
        paths = {}
        for window in WINDOWS:
            paths[window] = folder / "made" / name / f"{window}.parquet"
            paths[window].parent.mkdir(parents=True, exist_ok=True)
            mask = pa.compute.equal(table["window"].cast(pa.string()), window)
            pq.write_table(table.filter(mask), paths[window])
        tracker.log_figures(
            run_id, figures[name], paths, result.determinism, result.listed, judged, result.distribution
        )
        if name != unfinished_arm:
            tracker.complete(run_id)
    across = results.across()
    tracker.log_across(campaign, pairs=across.pairs, agreement=across.agreement, proposals=across.proposals)
    dictionary = pa.table({"bytes": pa.array(TOKENS, pa.binary())}, schema=schema.DICTIONARY)
    stored = artifacts.parquet_bytes(dictionary, schema.DICTIONARY)
    tracker.log_files(campaign, {artifacts.DICTIONARY_FILE: stored})
    if finish:
        tracker.complete(campaign)
    return InventedStore(folder=folder, uri=uri, campaign=campaign, figures=figures)


def shared_store(factory: pytest.TempPathFactory) -> InventedStore:
    """The whole campaign, written once a test run: pages write nothing, so every test may read the same one."""
    if "store" not in _SHARED:
        _SHARED["store"] = build_store(factory.mktemp("invented"))
    return _SHARED["store"]


_SHARED: dict[str, InventedStore] = {}


def _facts(
    kind: type, protocol: Protocol, digest: str, name: str, arm: Invented, known: Sequence[str], engine: str
) -> object:
    capture = "00" * 8 if not arm.against else "11" * 8
    key = key_of(protocol, protocol_sha256=digest, reference_capture_id=capture).as_tags()
    return kind(
        comparison_id=f"cmp-{name.replace('#', '-')}",
        arm=name,
        title=arm.title,
        role=arm.role,
        derivative=arm.derivative,
        weights=arm.weights,
        weights_observed=f"{arm.weights}, norms f32",
        kv=arm.kv,
        hardware="cpu",
        engine=engine,
        settings=arm.settings,
        capture_id=hashlib.sha256(name.encode()).hexdigest()[:16],
        weight_bytes=100_000_000,
        weights_sha256="cd" * 32,
        comparability={field: value for field, value in key.items() if not known or field in known},
        reference=arm.against,
        launch=2 if arm.of else 1,
        floor_kind=arm.floor_kind,
        rows_expected=arm.rows_expected,
    )
