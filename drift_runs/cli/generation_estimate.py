"""What a protocol's generation costs at most, before anything is captured: the roots are not known by then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from drift_runs.protocol.load import LoadedProtocol
from drift_runs.protocol.model import WRITERS, Arm, Floor

NO_TIME = "no rate of decoding is stored, and a token that is decoded takes far longer than one that is read"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTokens:
    """Upper bounds of one arm's or floor's own engine, in tokens."""

    name: str
    futures: int = 0
    """Roots at most x futures that this engine takes of each x horizon; those of its counterparts included."""
    constrained: int = 0
    rollouts: int = 0
    sampled: int = 0
    tasks: int = 0
    prefill: int = 0
    """Windows and prompts that are read before anything is written; what tools answer is not counted."""

    @property
    def decoded(self) -> int:
        return self.futures + self.constrained + self.rollouts + self.sampled + self.tasks


def lane_tokens(loaded: LoadedProtocol, follow_ups: Sequence[Arm] = ()) -> tuple[LaneTokens, ...]:
    """One entry an arm and floor, the reference first; none for a protocol that generates nothing.

    Every root counts as another place and nothing as done. Where captures leave their state behind, windows are not
    read again and ``prefill`` is less.
    """
    protocol = loaded.protocol
    if protocol.branches is None and protocol.rollouts is None and not protocol.tasks:
        return ()
    arms = [arm for arm in (*protocol.arms, *follow_ups) if arm.engine != "imported"]
    names = {arm.name for arm in arms}
    floors = [floor for floor in protocol.floors if floor.arm in names]
    reference = protocol.reference.name
    found = []
    for arm in sorted(arms, key=lambda one: one.name != reference):
        own = [floor for floor in floors if floor.arm == arm.name]
        paired = [one for one in arms if one.name != reference] if arm.name == reference else [arm]
        # An arm without rows has one future a place where it is asked, and so has the reference beside it.
        futures = sum((1 if one.engine in WRITERS else 2) * _roots(loaded) for one in paired)
        futures += sum(_roots(loaded, floor) for floor in own)
        held = sum(item.arm == arm.name for item in protocol.constrained)
        lanes = {"futures": futures, "constrained": held * _roots(loaded)}
        found.append(_tokens(loaded, arm.name, **lanes, draws=arm.engine not in WRITERS))
        found += [_tokens(loaded, floor.name, futures=_roots(loaded, floor), floor=floor) for floor in own]
    return tuple(found)


def _tokens(
    loaded: LoadedProtocol,
    name: str,
    *,
    futures: int,
    constrained: int = 0,
    floor: Floor | None = None,
    draws: bool = True,
) -> LaneTokens:
    protocol = loaded.protocol
    branches, rollouts, sampled = protocol.branches, protocol.rollouts, protocol.sampled
    horizon = branches.horizon_tokens if branches is not None else 0
    prefill = 0
    for count in (futures, constrained):
        prefill += _held(loaded, (window.name for window in _windows(loaded, floor))) if count and horizon else 0
    prefill += _held(loaded, {task.window for task in protocol.tasks})
    written = {"rollouts": 0, "sampled": 0}
    for lane, rule, times in (
        ("rollouts", rollouts, 1),
        ("sampled", sampled, sampled.draws * len(sampled.temperatures) if sampled is not None and draws else 0),
    ):
        if rule is not None and loaded.prompts is not None and loaded.prompt_ids is not None:
            subset = rule.subset if lane == "rollouts" else rule.prompts
            prompts = [one.name for one in loaded.prompts.prompts if subset == "all" or one.quick]
            written[lane] = len(prompts) * rule.tokens * times
            prefill += times * sum(len(loaded.prompt_ids.ids[prompt]) for prompt in prompts)
    return LaneTokens(
        name=name,
        futures=futures * horizon,
        constrained=constrained * horizon,
        tasks=sum(task.horizon_tokens for task in protocol.tasks),
        prefill=prefill,
        **written,
    )


def _windows(loaded: LoadedProtocol, floor: Floor | None) -> list:
    chosen = floor.windows if floor is not None else ()
    return [window for window in loaded.protocol.windows if not chosen or window.name in chosen]


def _roots(loaded: LoadedProtocol, floor: Floor | None = None) -> int:
    """Of one comparison: the cap, or every scored position where there are fewer."""
    branches = loaded.protocol.branches
    scored = sum(end - start for window in _windows(loaded, floor) for start, end in window.scored)
    return 0 if branches is None else min(branches.cap, scored)


def _held(loaded: LoadedProtocol, windows: Iterable[str]) -> int:
    """Tokens of windows as far as they are scored."""
    return sum(loaded.protocol.window(name).scored[-1][1] - 1 for name in windows)


def estimate_json(found: Sequence[LaneTokens]) -> dict[str, Any] | None:
    """For ``--json``; None where nothing is generated."""
    if not found:
        return None
    return {
        "bound": "at most",
        "arms": [asdict(one) | {"decoded": one.decoded} for one in found],
        "decoded": sum(one.decoded for one in found),
        "prefill": sum(one.prefill for one in found),
        "seconds": None,
        "no_seconds_because": NO_TIME,
    }


def estimate_lines(found: Sequence[LaneTokens]) -> list[str]:
    """For a person, as wide as the other lines of a plan."""
    if not found:
        return []
    lanes = ("futures", "constrained", "rollouts", "sampled", "tasks")
    lines = [
        f"writing  at most {sum(one.decoded for one in found):,} tokens decoded, behind at most "
        f"{sum(one.prefill for one in found):,} that are read; roots are known once the captures are there"
    ]
    for one in found:
        parts = ", ".join(f"{lane} {value:,}" for lane in lanes if (value := getattr(one, lane)))
        lines.append(f"         {one.name}: at most {one.decoded:,} ({parts}), read {one.prefill:,}")
    return [*lines, f"         time not estimated: {NO_TIME}"]
