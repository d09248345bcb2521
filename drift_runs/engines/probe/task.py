"""What one arm of a protocol needs of its engine."""

from __future__ import annotations

from drift_runs.engines.base import EngineSettings
from drift_runs.engines.probe.answers import Needs, ProbeTask, ProbeWindow
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.protocol.model import HERE, WRITERS, Arm, Protocol


def probe_task(
    loaded: LoadedProtocol,
    arm: Arm,
    settings: EngineSettings,
    *,
    dictionary: tuple[bytes, ...] | None = None,
) -> ProbeTask:
    """The protocol as the arm's engine meets it under ``settings``. ``dictionary``: the protocol's table, if at hand.

    ``loaded`` has a dictionary: only protocols of imported arms have none.
    """
    protocol = loaded.protocol
    assert protocol.dictionary is not None
    return ProbeTask(
        windows=tuple(
            ProbeWindow(
                name=window.name,
                tokens=loaded.tokens(window.name),
                positions=tuple(at for begin, end in window.scored for at in range(begin, end)),
                text=loaded.streams[window.name].text,
                generated=loaded.streams[window.name].source == "generated",
            )
            for window in protocol.windows
            if window.name in loaded.streams
        ),
        prompts=() if loaded.prompt_ids is None else tuple(loaded.prompt_ids.ids.values()),
        top_k=protocol.capture.top_k,
        path_shape=settings.path_shape,
        full_vocabulary=protocol.capture.full_vocabulary == "yes",
        needs=_needs(protocol, arm),
        dictionary_size=protocol.dictionary.size,
        dictionary_sha256=protocol.dictionary.sha256,
        dictionary=dictionary,
        context_tokens=settings.context_tokens,
        generation_tokens=0 if protocol.branches is None else protocol.branches.horizon_tokens,
        weights=arm.weights,
        kv=settings.kv,
        dtype=settings.dtype or "",
        server=settings.server,
        cache_prompt=settings.cache_prompt,
    )


def _needs(protocol: Protocol, arm: Arm) -> Needs:
    reference = arm.role == "reference"
    # Beside a reference that was taken elsewhere its arm runs as a candidate, with the floors that are launches.
    here = arm.name == f"{protocol.reference.name}{HERE}"
    floors = [
        floor
        for floor in protocol.floors
        if floor.arm == arm.name or (here and floor.arm == protocol.reference.name and floor.kind != "pass")
    ]
    generation = bool(protocol.branches or protocol.rollouts or protocol.sampled or protocol.tasks)
    compared = not reference or here or bool(floors)
    if arm.engine in WRITERS:
        return Needs(scoring=False, generation=generation, text=_answers_calls(protocol))
    return Needs(
        wanted=compared and protocol.capture.full_vocabulary == "no" and protocol.capture.divergence == "kl.topk-tail",
        generation=generation,
        text=_answers_calls(protocol),
        repeats=any(floor.rows == "identical" and floor.kind in ("pass", "launch") for floor in floors),
        sense=generation and reference,
    )


def _answers_calls(protocol: Protocol) -> bool:
    """Whether what an environment answers has to become ids."""
    return protocol.branches is not None and protocol.branches.turns > 1 and bool(protocol.environments)
