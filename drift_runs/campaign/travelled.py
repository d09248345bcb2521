"""A reference that travels: its rows leave one machine as artifacts of its campaign, and another compares with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from drift_runs import schema
from drift_runs.capture.execution import Execution
from drift_runs.capture.planning import StoredReference
from drift_runs.errors import ConfigError, NotComparable, StoreError
from drift_runs.generate.figures import temperature_label
from drift_runs.lanes.bounds import Bounds
from drift_runs.lanes.identity import (
    FUTURES,
    ROLLOUTS,
    SAMPLED,
    TASKS,
    Lane,
    futures_lane,
    rollouts_lane,
    sampled_lane,
    tasks_lane,
)
from drift_runs.lanes.plan import LanePlan
from drift_runs.protocol.canonical import canonical_json, dictionary_sha256
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.store import Store, content_id, write_table
from drift_runs.store.generation import FutureKey
from drift_runs.tracking import artifacts


def reference_files(store: Store, reference: Execution) -> dict[str, bytes | Path]:
    """What of a reference goes with its campaign: who took it, what was measured of it, and its rows a window."""
    files: dict[str, bytes | Path] = {artifacts.REFERENCE_FILE: canonical_json(dict(reference.identity))}
    if measured := store.measured(reference.capture_id):
        files[artifacts.REFERENCE_MEASURED_FILE] = canonical_json(measured)
    for window in reference.windows:
        files[f"{artifacts.REFERENCE_ROWS_FOLDER}/{window}.parquet"] = store.rows_file(reference.capture_id, window)
    return files


def writing_files(store: Store, plan: LanePlan, tables: Mapping[str, pa.Table]) -> dict[str, bytes | Path]:
    """What of a reference's writing goes with its campaign beside the tables that are logged of every arm: the ids of
    its lanes, which say how far it wrote, each with a digest of what it wrote there; and its answers to tasks."""
    reference = plan.reference
    digests: dict[str, str] = {}
    files: dict[str, bytes | Path] = {}
    for lane in plan.lanes(reference):
        if lane.kind == TASKS:
            names = [task.name for task in plan.tasks]
            files |= {
                f"{artifacts.REFERENCE_ANSWERS_FOLDER}/{name}.parquet": store.answer_file(lane.id, name)
                for name in names
            }
            digests[lane.id] = _digest(*(store.read_answer(lane.id, name) for name in names))
        else:
            digests[lane.id] = _digest(tables[_artifact_of(lane)])
    files[artifacts.REFERENCE_LANES_FILE] = canonical_json(digests)
    return files


def _artifact_of(lane: Lane) -> str:
    """Where what was written in a lane is logged."""
    if lane.kind == SAMPLED:
        return artifacts.sampled_file(temperature_label(lane.rule["temperature"]))
    return {FUTURES: artifacts.FUTURES_FILE, ROLLOUTS: artifacts.ROLLOUTS_FILE}[lane.kind]


def _digest(*tables: pa.Table) -> str:
    return content_id([table.to_pylist() for table in tables])


def _whole(known: Mapping[str, str], lane: Lane, run: str, *tables: pa.Table) -> bool:
    """Whether a lane of these bounds was written in; ``StoreError`` where other tables lie there than were noted."""
    if lane.id not in known:
        return False
    if known[lane.id] != _digest(*tables):
        raise StoreError(
            f"what the reference wrote ({lane.kind}) is not what was noted with it",
            where=f"run {run}",
            expected="a campaign that is not being written now",
            todo="run it again on the reference's machine, and then this",
        )
    return True


def take_writing(store: Store, loaded: LoadedProtocol, uri: str, reference: Execution, bounds: Bounds) -> None:
    """Bring what a reference wrote on its machine into the store; of a lane with other bounds nothing.

    ``StoreError`` for a damaged artifact.
    """
    from drift_runs.tracking import reader, reference_reader

    protocol, run = loaded.protocol, reference.from_run
    known = reference_reader.load_lanes(uri, run)
    lane = futures_lane(loaded, reference, bounds) if protocol.branches is not None else None
    if lane is not None and _whole(known, lane, run, futures := reader.load_futures(uri, run)):
        there = store.futures_there(lane.id)
        for at, row in enumerate(futures.select(["window", "position", "first"]).to_pylist()):
            _refuse_place(loaded, row["window"], row["position"], run)
            if FutureKey(**row) not in there:
                store.write_future(lane.id, futures.slice(at, 1))
    lane = rollouts_lane(loaded, reference) if protocol.rollouts is not None else None
    if lane is not None and _whole(known, lane, run, rolled := reader.load_rollouts(uri, run)):
        _keep_rollouts(store, loaded, lane, 0, rolled)
    if protocol.sampled is not None:
        for temperature in protocol.sampled.temperatures:
            lane = sampled_lane(loaded, reference, temperature)
            table = reader.load_sampled(uri, run, temperature_label(temperature))
            if _whole(known, lane, run, table):
                for draw in range(protocol.sampled.draws):
                    _keep_rollouts(store, loaded, lane, draw, table.filter(pc.equal(table["run"], draw)))
    answers = {task.name: reference_reader.load_answer(uri, run, task.name) for task in protocol.tasks}
    there = [answer for answer in answers.values() if answer.num_rows]
    if answers and _whole(known, lane := tasks_lane(loaded, reference), run, *there):
        for task in protocol.tasks:
            answer = answers[task.name]
            if answer.num_rows and not store.answer_file(lane.id, task.name).is_file():
                store.write_answer(lane.id, task.name, answer)


def _keep_rollouts(store: Store, loaded: LoadedProtocol, lane: Lane, run: int, table: pa.Table) -> None:
    there = store.rolled_prompts(lane.id, run)
    names = {prompt.name for prompt in loaded.prompts.prompts} - there
    wanted = [name in names for name in table["prompt"].to_pylist()]
    if any(wanted):
        store.add_rollouts(lane.id, run, table.filter(pa.array(wanted)))


def _refuse_place(loaded: LoadedProtocol, window: str, position: int, run: str) -> None:
    """What becomes the name of a file is a place of the protocol."""
    spans = [found.scored for found in loaded.protocol.windows if found.name == window]
    if not spans or not any(start <= position < end for start, end in spans[0]):
        raise StoreError(
            f"a future from position {position} of window {window}",
            where=f"run {run}",
            expected="a scored position of the protocol",
            todo="the artifact was changed: run the reference again",
        )


def take_reference(store: Store, loaded: LoadedProtocol, uri: str, run: str) -> StoredReference:
    """Bring the reference of a campaign into the store. ``run``: its run id, or how that begins.

    Raises
    ------
    ConfigError
        a protocol that compares full rows: they never leave the machine that made them.
    NotComparable
        a run of another protocol, or one that holds no reference.
    StoreError
        rows or an identity that are damaged.
    """
    from drift_runs.tracking import reference_reader
    from drift_runs.tracking.index import open_index

    protocol = loaded.protocol
    if protocol.capture.full_vocabulary == "yes":
        raise ConfigError(
            "full rows are compared, and they never leave the machine that made them",
            where="--reference",
            expected="a protocol with capture.full_vocabulary = 'no' and a kl.topk-* divergence",
            todo="make a version of the protocol that compares the best top_k entries, and run it on both machines",
        )
    campaign = open_index(uri).beginning(run)
    if campaign is None:
        raise ConfigError(f"no campaign {run!r}", where=uri, todo="name the run id of a campaign; see drift dashboard")
    where = f"run {campaign.run_id}"
    if campaign.protocol_sha256 != loaded.protocol_sha256:
        raise NotComparable(
            f"its protocol is {campaign.protocol_name} version {campaign.protocol_version}, "
            f"digest {campaign.protocol_sha256[:12]}…",
            where=where,
            expected=f"{protocol.name} version {protocol.version}, digest {loaded.protocol_sha256[:12]}…",
            todo="run the very same protocol file on both machines",
        )
    identity = reference_reader.load_identity(uri, campaign.run_id)
    capture = content_id(identity)
    if capture != campaign.reference_capture_id:
        raise StoreError(
            f"the identity of its reference gives the id {capture}",
            where=where,
            expected=campaign.reference_capture_id,
            todo="the artifact was changed: run the reference again",
        )
    store.write_identity(store.capture_folder(capture), "capture.json", identity)
    _bring_measured(store, uri, campaign.run_id, capture)
    for window in protocol.windows:
        target = store.rows_file(capture, window.name)
        if not target.is_file():
            rows = reference_reader.load_rows(uri, campaign.run_id, window.name)
            _refuse_other(loaded, window.name, rows["position"].to_pylist(), rows["token"].to_pylist(), where)
            write_table(target, rows, schema.ROWS)
    _bring_dictionary(store, loaded, uri, campaign.run_id)
    return StoredReference(run_id=campaign.run_id, capture_id=capture, identity=identity)


def _bring_measured(store: Store, uri: str, run_id: str, capture: str) -> None:
    """The number that its rows are made with lies beside them here too: who goes on with this capture goes on with it.

    ``StoreError`` where rows of the same capture lie here that were made with another.
    """
    from drift_runs.tracking import reference_reader

    known, brought = store.measured(capture), reference_reader.load_measured(uri, run_id)
    if known and brought and known != brought:
        raise StoreError(
            "rows of the same capture were made here with another measured number",
            where=f"reference of run {run_id}",
            expected=", ".join(f"{name} {value:g}" for name, value in known.items()),
            todo="name a store of its own with --store",
        )
    if brought and not known:
        store.note_measured(capture, brought)


def _refuse_other(loaded: LoadedProtocol, window: str, positions: list[int], tokens: list[int], where: str) -> None:
    wanted = [at for start, end in loaded.protocol.window(window).scored for at in range(start, end)]
    text = loaded.tokens(window)
    if positions != wanted or tokens != [text[at] for at in wanted]:
        raise StoreError(
            f"the reference's rows of window {window} are not those of the protocol",
            where=where,
            expected=f"{len(wanted)} rows, one a scored position, with the text's tokens",
            todo="the artifact was changed: run the reference again",
        )


def _bring_dictionary(store: Store, loaded: LoadedProtocol, uri: str, run_id: str) -> None:
    """The bytes of the ids, so that a first difference can be shown before any engine here has told its own."""
    from drift_runs.tracking import reader

    digest = loaded.protocol.dictionary.sha256
    if store.dictionary_file(digest).is_file():
        return
    table = reader.load_dictionary(uri, run_id)
    found = [bytes(value) for value in table[table.column_names[-1]].to_pylist()]
    if dictionary_sha256(found) == digest:
        store.write_dictionary(found)
