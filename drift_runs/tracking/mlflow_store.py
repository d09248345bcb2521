"""Campaigns and comparisons in an MLflow tracking store: the only module that imports mlflow.

One experiment a protocol name, a parent run a campaign, a child run a comparison. Every call names its run; there is no
active run, because a bare ``start_run`` ends FINISHED even when an exception killed it. The tag ``drift.complete`` is
written last of all, and a run without it is unfinished whatever its status says.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from drift_runs import schema
from drift_runs.errors import StoreBusy, StoreError
from drift_runs.tracking import artifacts, locations, names, reach, stale, tags, uris
from drift_runs.tracking.tags import CampaignFacts, ComparisonFacts

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


_PAGE = 1000
_HEARTBEAT_EVERY_S = 30.0
_REASON_CHARACTERS = 500

_clients: dict[str, MlflowClient] = {}


class Started(NamedTuple):
    """A run to write to."""

    run_id: str
    resumed: bool
    """A campaign: it existed and goes on. A comparison: never true for a new run."""
    complete: bool
    """Nothing is left to do: figures and rows are there."""


class Found(NamedTuple):
    """A campaign that exists."""

    run_id: str
    complete: bool


class Tracker:
    """Writes campaigns and comparisons to one store.

    ``artifact_root`` says where artifacts go when the store has none of its own: a folder or an address such as
    ``s3://bucket/prefix``. Without it ``DRIFT_ARTIFACT_ROOT`` counts, then ``mlartifacts`` beside a sqlite file; a
    server decides itself.
    """

    def __init__(self, uri: str, artifact_root: str | Path | None = None) -> None:
        self.uri = uri
        self._artifact_root = artifact_root
        self._beat_at_s: dict[str, float] = {}
        initialise(uri, artifact_root)
        self._client = connect(uri, create=True)

    def find_campaign(self, protocol_name: str, protocol_sha256: str, campaign_key: str) -> Found | None:
        """The newest campaign of that protocol and key, an unfinished one before a complete one."""
        with reach.asked(self.uri, "look for a campaign"):
            experiment = self._client.get_experiment_by_name(protocol_name)
            if experiment is None:
                return None
            runs = self._campaigns(experiment.experiment_id, protocol_sha256, campaign_key)
        runs.sort(key=lambda run: tags.is_complete(run.data.tags))
        return Found(runs[0].info.run_id, tags.is_complete(runs[0].data.tags)) if runs else None

    def start_campaign(
        self, facts: CampaignFacts, *, protocol_text: str, protocol_json: str, lock_text: str | None = None
    ) -> Started:
        """Start a campaign, or go on with the unfinished one of the same protocol digest and campaign key.

        Protocol and lock are stored as artifacts either way. ``StoreBusy`` when its process is still at work.
        """
        wanted = tags.campaign_tags(facts)
        params = tags.campaign_params(facts)
        with reach.asked(self.uri, "start a campaign"), reach.locked(self.uri):
            experiment_id = self._experiment(facts.protocol_name)
            found = self._campaigns(experiment_id, facts.protocol_sha256, facts.campaign_key)
            unfinished = [run for run in found if not tags.is_complete(run.data.tags)]
            if unfinished:
                run_id = unfinished[0].info.run_id
                self._take_over(unfinished[0])
                self._write(run_id, tags_=wanted, params=params)
            else:
                run_id = self._create(experiment_id, facts.protocol_name, wanted, params)
        files = {
            artifacts.PROTOCOL_TEXT_FILE: protocol_text.encode(),
            artifacts.PROTOCOL_JSON_FILE: protocol_json.encode(),
        }
        if lock_text is not None:
            files[artifacts.LOCK_FILE] = lock_text.encode()
        self.log_files(run_id, files)
        return Started(run_id, bool(unfinished), False)

    def start_comparison(self, parent: str, facts: ComparisonFacts) -> Started:
        """Start a comparison under its campaign.

        A complete run of the same comparison id and comparability key is handed back as it is (``complete``). Any other
        one is marked superseded and deleted, and a new one starts: a half-written batch cannot be told from a whole
        one, and figures under another key (beside other floors, for one) are other figures.
        """
        wanted = tags.comparison_tags(facts, parent)
        params = tags.comparison_params(facts)
        with reach.asked(self.uri, "start a comparison"), reach.locked(self.uri):
            experiment_id = self._client.get_run(parent).info.experiment_id
            before = self._comparisons(experiment_id, parent, facts.comparison_id)
            for run in before:
                if tags.is_complete(run.data.tags) and tags.key_tags(run.data.tags) == tags.key_tags(wanted):
                    return Started(run.info.run_id, False, True)
            for run in before:
                self._refuse_when_alive(run)
                self._supersede(run)
            run_id = self._create(experiment_id, facts.arm, wanted, params)
        self.beat(parent)
        return Started(run_id, False, False)

    def withdraw_comparison(self, parent: str, comparison_id: str) -> None:
        """Take back what was logged of a comparison, complete or not: the rows that it was made from are gone."""
        with reach.asked(self.uri, "withdraw a comparison"), reach.locked(self.uri):
            experiment_id = self._client.get_run(parent).info.experiment_id
            for run in self._comparisons(experiment_id, parent, comparison_id):
                self._supersede(run)

    def log_figures(
        self,
        run_id: str,
        figures: pa.Table,
        rows: Mapping[str, Path],
        determinism: pa.Table | None = None,
        listed: pa.Table | None = None,
        answers: pa.Table | None = None,
        distribution: pa.Table | None = None,
    ) -> None:
        """Store what a comparison found: files first, then all metrics in one batch.

        ``figures`` has the schema ``FIGURES``, ``determinism`` the schema ``DETERMINISM``, ``listed`` the schema
        ``LISTED``, ``answers`` the schema ``ANSWERS`` (without a row it is not stored), ``distribution`` the schema
        ``DISTRIBUTION``; ``rows`` maps a window to its comparison's Parquet file.
        """
        files: dict[str, bytes | Path] = {artifacts.FIGURES_FILE: artifacts.parquet_bytes(figures, schema.FIGURES)}
        chosen = names.select(figures)
        if determinism is not None:
            files[artifacts.DETERMINISM_FILE] = artifacts.parquet_bytes(determinism, schema.DETERMINISM)
        if listed is not None:
            files[artifacts.LISTED_FILE] = artifacts.parquet_bytes(listed, schema.LISTED)
        if distribution is not None:
            files[artifacts.DISTRIBUTION_FILE] = artifacts.parquet_bytes(distribution, schema.DISTRIBUTION)
        if answers is not None and answers.num_rows:
            files[artifacts.ANSWERS_FILE] = artifacts.parquet_bytes(answers, schema.ANSWERS)
        for window, path in rows.items():
            files[artifacts.rows_file(window)] = Path(path)
        names_text = json.dumps(chosen.display, ensure_ascii=False, sort_keys=True, indent=0)
        files[artifacts.METRIC_NAMES_FILE] = names_text.encode()
        self.log_files(run_id, files)
        fits = len(names_text) <= tags.MAX_TAG_CHARACTERS
        self._write(
            run_id,
            metrics=[(name, value, 0) for name, value in chosen.metrics.items()]
            + [(point.name, point.value, point.step) for point in chosen.series],
            tags_={tags.METRIC_NAMES_TAG: names_text if fits else f"see {artifacts.METRIC_NAMES_FILE}"},
        )

    def generation_key(self, run_id: str) -> str:
        """Which generation a run carries whole; empty for none."""
        with reach.asked(self.uri, "look for generation", run_id):
            return self._client.get_run(run_id).data.tags.get(tags.GENERATION_TAG, "")

    def log_generation(
        self, run_id: str, key: str, tables: Mapping[str, pa.Table], *, arm: str, bounds: tuple[str, ...]
    ) -> None:
        """Store what free generation gave, beside a comparison that is complete or under a campaign.

        ``tables``: artifact to table, of the schema that it carries. The tag that names the ``key`` is written last,
        and taken away first where there is one: what it names is written over.
        """
        with reach.asked(self.uri, "store generation", run_id):
            if tags.GENERATION_TAG in self._client.get_run(run_id).data.tags:
                self._client.delete_tag(run_id, tags.GENERATION_TAG)
        files: dict[str, bytes | Path] = {
            name: artifacts.parquet_bytes(table, table.schema) for name, table in tables.items()
        }
        files[artifacts.BOUNDS_FILE] = json.dumps(bounds).encode()
        self.log_files(run_id, files)
        figures = tables.get(artifacts.GENERATION_FIGURES_FILE)
        # A constrained decode's figures stand in the table of the arm that it constrains; a run has metrics of one arm.
        own = None if figures is None else figures.filter(pc.equal(figures["arm"], arm))
        metrics = dict(names.select(own).metrics) if own is not None and own.num_rows else {}
        # Those count the figures of the run's own comparison.
        for name in ("withheld", "nonfinite"):
            metrics.pop(name, None)
        self._write(run_id, metrics=[(name, value, 0) for name, value in metrics.items()])
        self._write(run_id, tags_={tags.GENERATION_TAG: key, tags.TOUCHED_TAG: tags.day_of(int(time.time() * 1000))})

    def log_across(self, run_id: str, *, pairs: pa.Table, agreement: pa.Table, proposals: pa.Table) -> None:
        """Store what a campaign's comparisons say of each other (schemas ``PAIRS``, ``AGREEMENT``, ``PROPOSALS``)."""
        self.log_files(
            run_id,
            {
                artifacts.PAIRS_FILE: artifacts.parquet_bytes(pairs, schema.PAIRS),
                artifacts.AGREEMENT_FILE: artifacts.parquet_bytes(agreement, schema.AGREEMENT),
                artifacts.PROPOSALS_FILE: artifacts.parquet_bytes(proposals, schema.PROPOSALS),
            },
        )

    def log_files(self, run_id: str, files: Mapping[str, bytes | Path]) -> None:
        """Store artifacts: posix path inside the run to content or to a file on this machine."""
        artifacts.refuse_case_collisions(files)
        with reach.asked(self.uri, "store artifacts", run_id), tempfile.TemporaryDirectory(prefix="drift-") as folder:
            for name, content in files.items():
                target = Path(folder, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                if isinstance(content, bytes):
                    target.write_bytes(content)
                else:
                    shutil.copyfile(content, target)
            self._client.log_artifacts(run_id, folder)

    def complete(self, run_id: str) -> None:
        """Say that a run is finished and whole: the status first, the tag ``drift.complete`` last of all."""
        with reach.asked(self.uri, "complete a run", run_id):
            self._client.set_terminated(run_id, "FINISHED")
            self._client.set_tag(run_id, tags.COMPLETE_TAG, "true")

    def fail(self, run_id: str, reason: str) -> None:
        """Say that a run failed and why, in one line of at most 500 characters; a complete run stays as it is."""
        line = "".join(letter if letter.isprintable() else " " for letter in " ".join(reason.split()))
        with reach.asked(self.uri, "mark a run as failed", run_id):
            if tags.is_complete(self._client.get_run(run_id).data.tags):
                return
            self._client.set_tag(run_id, tags.FAILED_TAG, line[:_REASON_CHARACTERS] or "no reason given")
            self._client.set_terminated(run_id, "FAILED")

    def beat(self, run_id: str) -> None:
        """Give a sign of life; written at most every 30 seconds, so it may be called as often as one likes."""
        now_s = time.time()
        if now_s - self._beat_at_s.get(run_id, 0.0) >= _HEARTBEAT_EVERY_S:
            with reach.asked(self.uri, "give a sign of life", run_id):
                self._client.set_tag(run_id, stale.HEARTBEAT_TAG, f"{now_s:.0f}")
            self._beat_at_s[run_id] = now_s

    def _experiment(self, name: str) -> str:
        """Id of the experiment, made when it is missing. Two processes may make it at once: the second finds it."""
        from mlflow.exceptions import MlflowException

        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            try:
                return self._client.create_experiment(name, artifacts.location_of(self.uri, self._artifact_root))
            except MlflowException:
                experiment = self._client.get_experiment_by_name(name)
                if experiment is None:
                    raise
        if experiment.lifecycle_stage != "active":
            raise StoreError(
                f"experiment {name!r} was deleted in MLflow",
                where=uris.redacted(self.uri),
                todo=f"'mlflow experiments restore -x {experiment.experiment_id}', or use another store",
            )
        return experiment.experiment_id

    def _campaigns(self, experiment_id: str, protocol_sha256: str, campaign_key: str) -> list[Run]:
        """Parent runs of that digest and key, newest first."""
        return list(
            runs_of(
                self._client,
                [experiment_id],
                tag_is(tags.KIND_TAG, tags.CAMPAIGN),
                tag_is(tags.PROTOCOL_SHA256_TAG, tags.checked_identifier(protocol_sha256, "protocol digest")),
                tag_is(tags.CAMPAIGN_KEY_TAG, tags.checked_identifier(campaign_key, "campaign key")),
            )
        )

    def _comparisons(self, experiment_id: str, parent: str, comparison_id: str) -> list[Run]:
        """Child runs of that campaign and comparison, newest first."""
        return list(
            runs_of(
                self._client,
                [experiment_id],
                tag_is(tags.KIND_TAG, tags.COMPARISON),
                tag_is(tags.PARENT_TAG, tags.checked_identifier(parent, "run id")),
                tag_is(tags.COMPARISON_TAG, comparison_id),
            )
        )

    def _supersede(self, run: Run) -> None:
        self._client.set_tag(run.info.run_id, tags.SUPERSEDED_TAG, "true")
        self._client.set_terminated(run.info.run_id, "KILLED")
        self._client.delete_run(run.info.run_id)

    def _create(self, experiment_id: str, name: str, wanted: dict[str, str], params: dict[str, str]) -> str:
        owned = {**wanted, **stale.tags_of(stale.this_process(time.time()))}
        run_id = self._client.create_run(experiment_id, tags=owned, run_name=name).info.run_id
        self._write(run_id, params=params)
        return run_id

    def _take_over(self, run: Run) -> None:
        self._refuse_when_alive(run)
        self._client.update_run(run.info.run_id, status="RUNNING")
        if tags.FAILED_TAG in run.data.tags:
            self._client.delete_tag(run.info.run_id, tags.FAILED_TAG)
        self._write(run.info.run_id, tags_=stale.tags_of(stale.this_process(time.time())))

    def _refuse_when_alive(self, run: Run) -> None:
        """``StoreBusy`` when another living process writes the run; a run that has ended is free to take."""
        owner = stale.owner_of(run.data.tags)
        state, reason = stale.state_of(owner, now_s=time.time())
        if run.info.status != "RUNNING" or state != "alive" or _is_this_process(owner):
            return
        raise StoreBusy(
            f"run {run.info.run_id} is being written: {reason}",
            where=uris.redacted(self.uri),
            todo="wait for it, or end that process and start again",
        )

    def _write(
        self,
        run_id: str,
        *,
        metrics: list[tuple[str, float, int]] | None = None,
        params: dict[str, str] | None = None,
        tags_: dict[str, str] | None = None,
    ) -> None:
        """One batch: single metrics cost 25 ms each."""
        from mlflow.entities import Metric, Param, RunTag

        now_ms = int(time.time() * 1000)
        with reach.asked(self.uri, "log a batch", run_id):
            self._client.log_batch(
                run_id,
                metrics=[Metric(name, value, now_ms, step) for name, value, step in metrics or ()],
                params=[Param(name, value) for name, value in (params or {}).items()],
                tags=[RunTag(name, value) for name, value in (tags_ or {}).items()],
            )


def initialise(uri: str, artifact_root: str | Path | None = None) -> None:
    """Create the store's schema, once and under a lock, before several processes write to it.

    Several processes that each migrate a fresh database leave a half-built schema behind. Calling this again, or from
    several processes at once, does no harm.
    """
    connect(uri, create=True)
    location = artifacts.location_of(uri, artifact_root)
    folder = uris.local_path(location) if location else None
    if folder is not None:
        with reach.asked(uri, "make the folder for artifacts"):
            Path(folder).mkdir(parents=True, exist_ok=True)


def connect(uri: str, *, create: bool) -> MlflowClient:
    """A client of the store, one a process and address. The first one of a database makes or checks its schema."""
    known = _clients.get(uri)
    if known is not None:
        return known
    uris.checked_uri(uri, where="tracking store")
    reach.refuse_unreachable(uri, create=create)
    client_class = _client_class()
    with reach.asked(uri, "open the tracking store"), reach.locked(uri):
        if create:
            _make_database(client_class, uri)
        client = client_class(tracking_uri=uri)
        client.search_experiments(max_results=1)
    _clients[uri] = client
    return client


def _make_database(client_class: type[MlflowClient], uri: str) -> None:
    """Make a sqlite file beside its place and rename it: a kill while MLflow builds its tables in place leaves a file
    that it refuses for ever ("table _alembic_tmp_… already exists")."""
    path = uris.sqlite_path(uri) if uris.scheme_of(uri) == "sqlite" else None
    if path is None or (path.is_file() and path.stat().st_size > 0):
        return
    making = path.with_name(f"{path.name}.making")
    for leftover in (making, path.with_name(f"{making.name}-journal")):
        leftover.unlink(missing_ok=True)
    client_class(tracking_uri=uris.sqlite_uri(making)).search_experiments(max_results=1)
    os.replace(making, path)


def _client_class() -> type[MlflowClient]:
    """Import mlflow, which takes about four seconds, with the settings that it reads on import."""
    # No usage data leaves, and a text that is too long is an error instead of a silent cut.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_TRUNCATE_LONG_VALUES", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    from mlflow import MlflowClient

    for chatty in ("alembic", "mlflow.store.db.utils"):
        logging.getLogger(chatty).setLevel(logging.CRITICAL)
    return MlflowClient


@contextmanager
def artifact(uri: str, run_id: str, name: str, *, required: bool = True) -> Iterator[Path | None]:
    """A readable path of an artifact or folder: where it lies for a local store, else a copy that goes afterwards.

    ``StoreError`` when there is none, or None where it is not ``required``.
    """
    seen = locations.known(uri, run_id)
    path = uris.local_path(seen) if seen else None
    if path is not None and Path(path).is_dir():
        found = Path(path, name)
        if not found.exists() and required:
            raise _missing(uri, run_id, name)
        yield found if found.exists() else None
        return
    client = connect(uri, create=False)
    with reach.asked(uri, "find a run", run_id):
        location = client.get_run(run_id).info.artifact_uri
    local = uris.local_path(location)
    if local is not None:
        path = Path(local) / name
        if not path.exists() and required:
            raise _missing(uri, run_id, name)
        yield path if path.exists() else None
        return
    with tempfile.TemporaryDirectory(prefix="drift-") as folder:
        with reach.asked(uri, f"fetch {name}", run_id):
            parent = name.rpartition("/")[0] or None
            there = name in {found.path for found in client.list_artifacts(run_id, parent)}
            if not there and required:
                raise _missing(uri, run_id, name)
            path = Path(client.download_artifacts(run_id, name, folder)) if there else None
        yield path


def _missing(uri: str, run_id: str, name: str) -> StoreError:
    return StoreError(
        f"the run has no artifact {name}",
        where=f"run {run_id} in {uris.redacted(uri)}",
        todo="check that the run is complete and that its artifacts were not moved",
    )


def experiments(client: MlflowClient) -> Iterator[Any]:
    token = None
    while True:
        page = client.search_experiments(max_results=_PAGE, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def runs_of(client: MlflowClient, experiment_ids: list[str], *filters: str) -> Iterator[Run]:
    """Every live run that passes all filters, newest first, superseded ones left out."""
    found = _search(client, experiment_ids, filters, deleted=False)
    return (run for run in found if tags.SUPERSEDED_TAG not in run.data.tags)


def deleted_of(client: MlflowClient, experiment_ids: list[str], *filters: str) -> Iterator[Run]:
    """Every deleted run that passes all filters, newest first."""
    return _search(client, experiment_ids, filters, deleted=True)


def _search(
    client: MlflowClient, experiment_ids: list[str], filters: tuple[str, ...], *, deleted: bool
) -> Iterator[Run]:
    if not experiment_ids:
        return
    from mlflow.entities import ViewType

    token = None
    while True:
        page = client.search_runs(
            experiment_ids,
            filter_string=" and ".join(filters),
            run_view_type=ViewType.DELETED_ONLY if deleted else ViewType.ACTIVE_ONLY,
            max_results=_PAGE,
            order_by=["attributes.start_time DESC"],
            page_token=token,
        )
        yield from page
        token = page.token
        if not token:
            return


def tag_is(tag: str, value: str) -> str:
    return f"tags.`{tag}` = '{value}'"


def _is_this_process(owner: stale.Owner | None) -> bool:
    me = stale.this_process(0.0)
    return owner is not None and (owner.host, owner.pid) == (me.host, me.pid)
