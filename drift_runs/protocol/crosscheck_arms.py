"""What a protocol demands of its arms and floors: what an engine takes, what a floor may change, what only writes."""

from __future__ import annotations

from typing import get_args

from drift_runs.protocol.model import LOGIT_ENGINES, SERVERS, WRITERS, Arm, Capture, KVType, Protocol, Settings
from drift_runs.protocol.problems import Loc, Problems, shown

GEOMETRY_KEYS = ("batch", "micro_batch", "threads", "path_shape", "cache_prompt")


_ANOTHER_MODEL = {
    "adapter_scale": "the same weights with the adapter at another scale are another model",
    "dtype": "the same weights in another type are another model",
    "quantise": "weights quantised otherwise are another model",
    "server": "a server that was started otherwise may hold another model",
}
"""Settings that no geometry floor changes, and why."""


def arms_and_floors(problems: Problems, protocol: Protocol) -> None:
    """Add every contradiction of the arms, the floors, and of both with the rest."""
    references = [arm.name for arm in protocol.arms if arm.role == "reference"]
    if len(references) != 1:
        found = ", ".join(references) or "none"
        problems.add(
            ("arms",),
            f"{len(references)} arms have role reference ({found})",
            expected="exactly one arm of role reference",
        )
    for index, arm in enumerate(protocol.arms):
        if arm.role == "follow-up":
            problems.add(
                ("arms", index, "role"),
                "a follow-up is outside the protocol",
                expected="role reference or candidate",
                todo="put it in a follow-up file",
            )
        check_arm(problems, ("arms", index), arm, protocol)
    arms = {arm.name: arm for arm in protocol.arms}
    windows = [window.name for window in protocol.windows]
    for index, floor in enumerate(protocol.floors):
        loc: Loc = ("floors", index)
        for number, name in enumerate(floor.windows):
            if name not in windows:
                problems.unknown((*loc, "windows", number), "window", name, windows)
            elif name in floor.windows[:number]:
                problems.add((*loc, "windows", number), f"{shown(name)} is named twice", expected="each window once")
        arm = arms.get(floor.arm)
        if arm is None:
            problems.unknown((*loc, "arm"), "arm", floor.arm, arms)
            continue
        if arm.engine in WRITERS:
            problems.add(
                (*loc, "arm"),
                f"{shown(arm.name)} has no rows: engine {shown(arm.engine)} writes and scores nothing",
                expected="a floor of an arm that is scored",
            )
            continue
        if arm.role != "reference" and floor.kind == "pass":
            problems.add(
                (*loc, "kind"),
                f"a second pass of {shown(arm.name)}, which is not the reference",
                expected="'launch' or 'geometry': only the reference is kept open for another pass",
            )
            continue
        changed = floor.settings.model_fields_set if floor.settings else frozenset()
        if floor.kind in ("launch", "pass"):
            if changed:
                problems.add(
                    (*loc, "settings"),
                    f"a {floor.kind} floor changes nothing",
                    expected="no settings, or kind 'geometry'",
                )
            continue
        for key in sorted(changed & set(_ANOTHER_MODEL)):
            problems.add(
                (*loc, "settings", key),
                _ANOTHER_MODEL[key],
                expected="no such key: a floor is an arm against itself",
                todo="declare an arm of its own for it",
            )
        if floor.settings is not None:
            engine_settings(problems, loc, arm, floor.settings)
        before = _effective(arm.settings, protocol.capture)
        after = before | {key: getattr(floor.settings, key) for key in changed}
        if all(before[key] == after[key] for key in GEOMETRY_KEYS):
            problems.add(
                (*loc, "settings"),
                f"a geometry floor must change the geometry of arm {shown(arm.name)}",
                expected="another batch, micro_batch, threads, path_shape or cache_prompt",
            )
        if arm.engine in LOGIT_ENGINES:
            batches(problems, (*loc, "settings", "micro_batch"), after["micro_batch"], after["batch"])


def check_arm(problems: Problems, loc: Loc, arm: Arm, protocol: Protocol) -> None:
    """What one arm must be, be it the protocol's or a follow-up."""
    capture = protocol.capture
    if arm.engine == "imported":
        problems.add(
            (*loc, "engine"),
            "imported rows have no engine to run",
            expected="'llama_cpp'",
            todo="bring rows of other tools in with drift import",
        )
        return
    if arm.engine in WRITERS:
        _writer(problems, loc, arm, protocol)
    if arm.engine not in LOGIT_ENGINES:
        if capture.full_vocabulary == "yes" and arm.engine not in WRITERS:
            problems.add(
                (*loc, "engine"),
                f"{shown(arm.engine)} lists the best entries of a row, and full_vocabulary is 'yes'",
                expected="capture.full_vocabulary = 'no' with a kl.topk-* divergence",
            )
        if protocol.sampled is not None and arm.engine not in WRITERS:
            problems.add(
                (*loc, "engine"),
                f"common noise needs logits, and engine {shown(arm.engine)} gives none",
                expected="no [sampled], or arms of " + " or ".join(LOGIT_ENGINES),
            )
    if arm.engine == "llama_cpp" and arm.kv not in get_args(KVType):
        problems.unknown((*loc, "kv"), "KV type", arm.kv, get_args(KVType))
        return
    engine_settings(problems, loc, arm, arm.settings)
    if arm.role == "reference" and arm.launches > 1:
        problems.add(
            (*loc, "launches"),
            f"{arm.launches} launches of the reference",
            expected="1",
            todo="declare a [[floors]] of kind 'launch': that is what the reference's other launches are for",
        )
    if arm.against:
        problems.add((*loc, "against"), "only imported arms have a reference of their own", expected="no such key")
    unquantised = arm.engine != "llama_cpp" or arm.kv in ("f32", "f16", "bf16")
    if not unquantised and arm.settings.flash_attention == "off":
        problems.add(
            (*loc, "settings", "flash_attention"),
            f"a {arm.kv} V cache needs flash attention",
            expected="'on' with a quantised KV cache",
        )
    if arm.engine in LOGIT_ENGINES and (arm.settings.micro_batch or arm.settings.batch):
        settings = _effective(arm.settings, capture)
        batches(problems, (*loc, "settings", "micro_batch"), settings["micro_batch"], settings["batch"])


def _writer(problems: Problems, loc: Loc, arm: Arm, protocol: Protocol) -> None:
    """An engine without rows can be followed and asked, and nothing else."""
    said = f"engine {shown(arm.engine)} writes and scores nothing"
    if arm.role == "reference":
        problems.add((*loc, "engine"), f"{said}: a reference needs rows", expected="an engine that scores")
    elif protocol.branches is None and protocol.rollouts is None and not protocol.tasks:
        problems.add(
            (*loc, "engine"),
            f"{said}, and the protocol asks for nothing that is written",
            expected="[rollouts], [branches] or [[tasks]]",
        )
    if arm.role != "reference" and arm.launches > 1:
        problems.add(
            (*loc, "launches"), f"{said}: a further launch has nothing to be compared by", expected="no such key"
        )
    if arm.settings.path_shape is not None:
        problems.add((*loc, "settings", "path_shape"), f"{said}: rows in no shape are taken", expected="no such key")


_ONLY: dict[str, tuple[str, ...]] = {
    "flash_attention": ("llama_cpp", "transformers"),
    "batch": LOGIT_ENGINES,
    "micro_batch": LOGIT_ENGINES,
    "threads": ("llama_cpp", "transformers"),
    "adapter_scale": ("llama_cpp",),
    "dtype": ("transformers", "mlx"),
    "quantise": ("transformers",),
    "cache_prompt": SERVERS,
    "server": (*SERVERS, "tensorrt_llm", "transformers", "mlx"),
}
"""Which engines take a setting: any other would ignore it, and the protocol would say what is not so."""


def engine_settings(problems: Problems, loc: Loc, arm: Arm, settings: Settings) -> None:
    """Refuse what the arm's engine does not take; ``settings``: the arm's own, or those of a floor of it."""
    for name in type(settings).model_fields:
        takers = _ONLY.get(name)
        if takers is not None and name in settings.model_fields_set and arm.engine not in takers:
            problems.add(
                (*loc, "settings", name),
                f"engine {shown(arm.engine)} does not take it",
                expected=f"no such key, or engine {' or '.join(takers)}",
            )


def _effective(settings: Settings, capture: Capture) -> dict:
    """What an arm runs with: its own settings, else the capture's."""
    return {
        "batch": settings.batch or capture.batch,
        "micro_batch": settings.micro_batch or capture.micro_batch,
        "threads": settings.threads,
        "path_shape": settings.path_shape or capture.path_shape,
        "flash_attention": settings.flash_attention,
        "cache_prompt": settings.cache_prompt,
    }


def batches(problems: Problems, loc: Loc, micro_batch: int, batch: int) -> None:
    # An engine would lower the micro-batch without a word, and a geometry floor would then measure nothing.
    if micro_batch > batch:
        problems.add(loc, f"{micro_batch} is more than the batch of {batch}", expected="a micro_batch of at most batch")
