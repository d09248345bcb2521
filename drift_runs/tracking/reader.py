"""Reading a tracking store: campaigns, their arms, and the tables beside a run. Nothing is written here."""

from __future__ import annotations

import json
import time
from collections import defaultdict

import pyarrow as pa

from drift_runs import schema
from drift_runs.errors import StoreError
from drift_runs.protocol.generation import Prompts
from drift_runs.tracking import artifacts, reach, stale, tags
from drift_runs.tracking.mlflow_store import artifact, connect, experiments, runs_of, tag_is
from drift_runs.tracking.records import ArmRecord, CampaignRecord


def list_campaigns(uri: str) -> list[CampaignRecord]:
    """Every campaign of the store with its arms, newest first, unfinished ones included and marked.

    Pages through everything: a search of MLflow ends silently after its page.
    """
    client = connect(uri, create=False)
    with reach.asked(uri, "list campaigns"):
        names = {found.experiment_id: found.name for found in experiments(client)}
        parents = list(runs_of(client, list(names), tag_is(tags.KIND_TAG, tags.CAMPAIGN)))
        children: dict[str, list[tuple[int, ArmRecord]]] = defaultdict(list)
        for run in runs_of(client, list(names), tag_is(tags.KIND_TAG, tags.COMPARISON)):
            record = tags.arm_record(run.data.tags, run_id=run.info.run_id)
            children[run.data.tags.get(tags.PARENT_TAG, "")].append((run.info.start_time, record))
    campaigns = []
    for run in parents:
        arms = sorted(children[run.info.run_id], key=lambda pair: (pair[0], pair[1].run_id))
        campaigns.append(
            tags.campaign_record(
                run.data.tags,
                run_id=run.info.run_id,
                experiment=names[run.info.experiment_id],
                status=run.info.status,
                started_ms=run.info.start_time,
                arms=tuple(record for _, record in arms),
            )
        )
    return sorted(campaigns, key=lambda campaign: (campaign.started_ms, campaign.run_id), reverse=True)


def list_stale(uri: str) -> list[stale.StaleRun]:
    """Runs that say RUNNING though the process that wrote them is gone, newest first."""
    client = connect(uri, create=False)
    unfinished = []
    with reach.asked(uri, "list unfinished runs"):
        ids = [found.experiment_id for found in experiments(client)]
        for kind in (tags.CAMPAIGN, tags.COMPARISON):
            for run in runs_of(client, ids, tag_is(tags.KIND_TAG, kind), "attributes.status = 'RUNNING'"):
                if not tags.is_complete(run.data.tags):
                    unfinished.append(
                        stale.UnfinishedRun(
                            run_id=run.info.run_id,
                            kind=kind,
                            name=run.info.run_name or "",
                            status=run.info.status,
                            started_ms=run.info.start_time,
                            owner=stale.owner_of(run.data.tags),
                        )
                    )
    unfinished.sort(key=lambda run: (run.started_ms, run.run_id), reverse=True)
    return stale.stale_of(unfinished, now_s=time.time())


def load_figures(uri: str, run_id: str) -> pa.Table:
    """Every figure of a comparison (schema ``FIGURES``)."""
    with artifact(uri, run_id, artifacts.FIGURES_FILE) as path:
        return artifacts.read_table(path, schema.FIGURES, run_id)


def load_metrics(uri: str, run_id: str) -> dict[str, float]:
    """Metrics of a run by name; of a series its last value."""
    client = connect(uri, create=False)
    with reach.asked(uri, "read metrics", run_id):
        return dict(client.get_run(run_id).data.metrics)


def load_determinism(uri: str, run_id: str) -> pa.Table:
    """Which windows agree to the byte (schema ``DETERMINISM``); ``StoreError`` when the run has none."""
    with artifact(uri, run_id, artifacts.DETERMINISM_FILE) as path:
        return artifacts.read_table(path, schema.DETERMINISM, run_id)


def load_listed(uri: str, run_id: str) -> pa.Table:
    """The positions of a comparison that a person should read (schema ``LISTED``); empty when the run has none."""
    return _table_or_empty(uri, run_id, artifacts.LISTED_FILE, schema.LISTED)


def load_distribution(uri: str, run_id: str) -> pa.Table:
    """How often a comparison's divergence has which size (schema ``DISTRIBUTION``); empty when the run has none."""
    return _table_or_empty(uri, run_id, artifacts.DISTRIBUTION_FILE, schema.DISTRIBUTION)


def load_answers(uri: str, run_id: str) -> pa.Table:
    """The protocol's expected answers in a comparison (schema ``ANSWERS``); empty when the run has none."""
    return _table_or_empty(uri, run_id, artifacts.ANSWERS_FILE, schema.ANSWERS)


def load_generation_figures(uri: str, run_id: str) -> pa.Table:
    """Figures of a run's free generation (schema ``FIGURES``); empty when it has none."""
    return _table_or_empty(uri, run_id, artifacts.GENERATION_FIGURES_FILE, schema.FIGURES)


def load_roots(uri: str, run_id: str) -> pa.Table:
    """The roots that were explored (schema ``ROOTS``); empty when there is none."""
    return _table_or_empty(uri, run_id, artifacts.ROOTS_FILE, schema.ROOTS)


def load_futures(uri: str, run_id: str) -> pa.Table:
    """A run's own futures of its roots (schema ``FUTURES``); empty when there is none."""
    return _table_or_empty(uri, run_id, artifacts.FUTURES_FILE, schema.FUTURES)


def load_constrained(uri: str, run_id: str, name: str) -> pa.Table:
    """The futures of a constrained decode of a run's arm (schema ``FUTURES``), one a root; empty when there is none.

    Their first tokens are what the grammar let the arm choose. A campaign of an older version logged none.
    """
    return _table_or_empty(uri, run_id, artifacts.constrained_file(name), schema.FUTURES)


def load_outcomes(uri: str, run_id: str) -> pa.Table:
    """What became of each explored root (schema ``OUTCOMES``); empty when there is none."""
    return _table_or_empty(uri, run_id, artifacts.OUTCOMES_FILE, schema.OUTCOMES)


def load_rollouts(uri: str, run_id: str) -> pa.Table:
    """A run's own greedy rollouts (schema ``ROLLOUTS``); empty when there is none."""
    return _table_or_empty(uri, run_id, artifacts.ROLLOUTS_FILE, schema.ROLLOUTS)


def load_sampled(uri: str, run_id: str, temperature: str) -> pa.Table:
    """A run's own draws at a temperature (schema ``ROLLOUTS``), by its label; empty when there is none."""
    return _table_or_empty(uri, run_id, artifacts.sampled_file(temperature), schema.ROLLOUTS)


def load_prompts(uri: str, run_id: str) -> Prompts | None:
    """The panel of prompts that a campaign rolled out; None when it stored none."""
    with artifact(uri, run_id, artifacts.PROMPTS_FILE, required=False) as path:
        if path is None:
            return None
        try:
            return Prompts.model_validate_json(path.read_bytes())
        except ValueError as error:
            raise StoreError(f"{path.name} cannot be read: {error}", where=f"run {run_id}") from error


def load_tasks(uri: str, run_id: str) -> pa.Table:
    """A run's own answers to the protocol's tasks (schema ``TASKS``); empty when there is none."""
    return _table_or_empty(uri, run_id, artifacts.TASKS_FILE, schema.TASKS)


def load_task_drift(uri: str, run_id: str) -> pa.Table:
    """Drift beside pass or fail, task by task, of a campaign (schema ``TASK_DRIFT``); empty when there is none."""
    return _table_or_empty(uri, run_id, artifacts.TASK_DRIFT_FILE, schema.TASK_DRIFT)


def load_task_order(uri: str, run_id: str) -> pa.Table:
    """Whether what drifts more fails more, of a campaign (schema ``TASK_ORDER``); empty when there is none."""
    return _table_or_empty(uri, run_id, artifacts.TASK_ORDER_FILE, schema.TASK_ORDER)


def load_bounds(uri: str, run_id: str) -> tuple[str, ...]:
    """What a run's generation was bounded to below its protocol; empty when nothing was."""
    with artifact(uri, run_id, artifacts.BOUNDS_FILE, required=False) as path:
        return () if path is None else tuple(map(str, json.loads(path.read_text(encoding="utf-8"))))


def load_pairs(uri: str, run_id: str) -> pa.Table:
    """A campaign's candidates against each other (schema ``PAIRS``); empty when there is none."""
    return _table_or_empty(uri, run_id, artifacts.PAIRS_FILE, schema.PAIRS)


def load_agreement(uri: str, run_id: str) -> pa.Table:
    """Whether a campaign's figures order its arms alike (schema ``AGREEMENT``); empty when there is none."""
    return _table_or_empty(uri, run_id, artifacts.AGREEMENT_FILE, schema.AGREEMENT)


def load_proposals(uri: str, run_id: str) -> pa.Table:
    """Windows that a rule would report separately (schema ``PROPOSALS``); empty when there is none."""
    return _table_or_empty(uri, run_id, artifacts.PROPOSALS_FILE, schema.PROPOSALS)


def _table_or_empty(uri: str, run_id: str, name: str, wanted: pa.Schema) -> pa.Table:
    with artifact(uri, run_id, name, required=False) as path:
        return wanted.empty_table() if path is None else artifacts.read_table(path, wanted, run_id)


def load_rows(uri: str, run_id: str, window: str | None = None) -> pa.Table:
    """A comparison's positions (schema ``COMPARISON``) of one window, or of all in the order of their names."""
    if window is not None:
        with artifact(uri, run_id, artifacts.rows_file(window)) as path:
            return artifacts.read_table(path, schema.COMPARISON, run_id)
    with artifact(uri, run_id, artifacts.ROWS_FOLDER) as folder:
        tables = [artifacts.read_table(path, schema.COMPARISON, run_id) for path in sorted(folder.glob("*.parquet"))]
    return pa.concat_tables(tables).unify_dictionaries() if tables else schema.COMPARISON.empty_table()


def load_protocol_text(uri: str, run_id: str) -> str:
    """The campaign's protocol file as it was written."""
    with artifact(uri, run_id, artifacts.PROTOCOL_TEXT_FILE) as path:
        return path.read_bytes().decode()


def load_protocol_json(uri: str, run_id: str) -> str:
    """The campaign's protocol in canonical JSON: windows, ranges and panels for a reader that has no file."""
    with artifact(uri, run_id, artifacts.PROTOCOL_JSON_FILE) as path:
        return path.read_bytes().decode()


def load_lock_text(uri: str, run_id: str) -> str:
    """The campaign's lock; ``StoreError`` for a draft, which has none."""
    with artifact(uri, run_id, artifacts.LOCK_FILE) as path:
        return path.read_bytes().decode()


def load_dictionary(uri: str, run_id: str) -> pa.Table:
    """The bytes of each token of a campaign (schema ``DICTIONARY``), by id; empty when it stored none."""
    return _table_or_empty(uri, run_id, artifacts.DICTIONARY_FILE, schema.DICTIONARY)


def load_streams(uri: str, run_id: str) -> pa.Table:
    """The token ids of a campaign's windows (schema ``STREAMS``); empty when it stored none."""
    return _table_or_empty(uri, run_id, artifacts.STREAMS_FILE, schema.STREAMS)
