"""What the tracking store is told about a campaign and its comparisons."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence

from drift_runs import __version__
from drift_runs.capture.execution import Execution, settings_identity
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.store import content_id
from drift_runs.tracking.tags import CampaignFacts, ComparisonFacts

NOT_SAID = "not said"
"""What nobody tells: a server seldom says which weights it holds."""
_MODEL = ("file", "server.model_path", "info.model_id", "model.root", "model.id")
"""How servers call what they hold, the nearest to the weights first."""
DIGITS = 8
"""Of a digest that a reader is shown."""


def campaign_key(executions: Sequence[Execution]) -> str:
    """Identity of a campaign: everything that the protocol makes it execute. Follow-ups join it without changing it."""
    return content_id(sorted(execution.capture_id for execution in executions if execution.arm.role != "follow-up"))


def campaign_facts(loaded: LoadedProtocol, executions: Sequence[Execution]) -> CampaignFacts:
    """Facts of the parent run; the first execution is the reference."""
    protocol, reference = loaded.protocol, executions[0]
    # Of this machine: a reference may have come from another.
    engine = next((found.engine for found in executions if not found.stored), reference.engine)
    return CampaignFacts(
        protocol_name=protocol.name,
        protocol_version=protocol.version,
        protocol_sha256=loaded.protocol_sha256,
        draft=loaded.draft,
        title=protocol.title,
        question=protocol.question,
        notes=protocol.notes,
        outliers=tuple((outlier.window, outlier.reason) for outlier in protocol.outliers),
        reference=reference.name,
        reference_capture_id=reference.capture_id,
        campaign_key=campaign_key(executions),
        reference_run=reference.from_run,
        tool_version=__version__,
        host={
            "hardware": engine.hardware,
            "engine": engine.build,
            "python": platform.python_version(),
            "system": platform.platform(),
        },
    )


def comparison_facts(
    execution: Execution,
    *,
    reference: Execution,
    comparison_id: str,
    comparability: Mapping[str, str],
) -> ComparisonFacts:
    """Facts of a child run."""
    arm, engine = execution.arm, execution.engine
    usual = settings_of(reference)
    changed = {name: value for name, value in sorted(settings_of(execution).items()) if value != usual.get(name)}
    return ComparisonFacts(
        comparison_id=comparison_id,
        arm=execution.name,
        title=execution.title,
        role=execution.kind,
        derivative=arm.derivative,
        weights=arm.weights,
        weights_observed=observed_weights(execution),
        kv=arm.kv,
        hardware=engine.hardware,
        engine=f"{engine.engine} ({engine.build})",
        settings=json.dumps(changed, sort_keys=True) if changed else "",
        capture_id=execution.capture_id,
        weight_bytes=_size(execution),
        weights_sha256="" if execution.weights is None else execution.weights.sha256,
        adapter_sha256="" if execution.adapter is None else execution.adapter.sha256,
        comparability=comparability,
        reference="" if execution.against == reference.name else execution.against,
        launch=execution.launch,
        floor_kind=execution.floor.kind if execution.floor else "",
        rows_expected=execution.floor.rows if execution.floor else "",
    )


def undeclared_settings(execution: Execution, against: Execution) -> dict[str, object]:
    """Settings in which an execution differs from what it is compared with though the protocol names none of the two.

    A thread count of the machine's file is one: the difference may be the arm's or the threads'. Another adapter under
    the name of the same derivative is one too; by its digest, since the file's name proves nothing.
    """
    declared = set(against.arm.settings.model_fields_set) | execution.arm.settings.model_fields_set
    if execution.floor is not None and execution.floor.settings is not None:
        declared |= execution.floor.settings.model_fields_set
    usual = settings_of(against)
    found = {
        name: value
        for name, value in settings_of(execution).items()
        # What one of two engines does not know differs by the engine, which the protocol names.
        if name in usual and value != usual[name] and name not in declared and not name.startswith("server.")
    }
    if execution.adapter is not None and against.adapter is not None:
        same = execution.adapter.sha256 == against.adapter.sha256
        if not same and execution.arm.derivative == against.arm.derivative:
            found["adapter"] = execution.adapter.sha256[:DIGITS]
    return found


def observed_weights(execution: Execution) -> str:
    """Tensor types of the weight file, and which adapter the engine applied to them; or what a server says."""
    if execution.weights is None:
        return next((execution.said[name] for name in _MODEL if name in execution.said), NOT_SAID)
    if execution.settings.quantise is not None:
        return f"{execution.weights.label}, quantised when loaded: {execution.settings.quantise}"
    if execution.adapter is None:
        return execution.weights.label
    return f"{execution.weights.label} + adapter {execution.adapter.sha256[:DIGITS]}"


def settings_of(execution: Execution) -> dict[str, object]:
    """Engine settings that may be varied and that the engine takes, by name.

    ``adapter_scale`` is 0 where no adapter is applied.
    """
    found = settings_identity(execution.arm, execution.settings, execution.place)
    server = found.pop("server", {})
    shared = {name: value for name, value in found.items() if name not in ("kv", "context_tokens")}
    own = {f"server.{name}": value for name, value in server.items()}
    return {**shared, **own, "adapter_scale": execution.settings.adapter_scale or 0.0}


def _size(execution: Execution) -> int | None:
    if execution.weights is None:
        return None
    return sum(file.size_bytes for file in (execution.weights, execution.adapter) if file is not None)
