"""How much of a protocol's generation a campaign runs."""

from __future__ import annotations

from dataclasses import dataclass

from drift_runs.protocol.model import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits below those of the protocol; None: the protocol's own. What is bounded is said beside every figure."""

    roots: int | None = None
    """Roots of an arm, the first in their order."""
    horizon_tokens: int | None = None
    prompts: int | None = None
    """Rollout prompts, the first in the panel's order."""
    tasks: int | None = None
    """Tasks, spread over the windows."""
    sampled: bool = True
    """False: decoding at a temperature is left out."""
    crossed: bool = True
    """False: neither side goes on from the other side's token, so that a root has two futures in place of four."""
    floors: int = 1
    """A floor has one of so many of the roots and prompts of an arm."""

    def of_floor(self, count: int | None) -> int | None:
        """How many of an arm's ``count`` a floor has; at least one."""
        return None if count is None else max(1, count // self.floors)

    def said(self, protocol: Protocol) -> tuple[str, ...]:
        """What is bounded, for a person; empty when nothing is."""
        words = []
        branches = protocol.branches
        if branches is not None and self.roots is not None and self.roots < branches.cap:
            words.append(f"{self.roots} roots an arm of at most {branches.cap}")
        if branches is not None and self.horizon_tokens is not None and self.horizon_tokens < branches.horizon_tokens:
            words.append(f"a horizon of {self.horizon_tokens} tokens in place of {branches.horizon_tokens}")
        if protocol.rollouts is not None and self.prompts is not None:
            words.append(f"{self.prompts} rollout prompts")
        if self.tasks is not None and self.tasks < len(protocol.tasks):
            words.append(f"{self.tasks} of {len(protocol.tasks)} tasks" if self.tasks else "no tasks")
        if branches is not None and not self.crossed:
            words.append("no futures from the other side's token")
        if protocol.floors and self.floors > 1:
            words.append(f"one of {self.floors} of these for a floor")
        if protocol.sampled is not None and not self.sampled:
            words.append("no sampled decoding")
        return tuple(words)


WHOLE = Bounds()
DEMO = Bounds(roots=6, horizon_tokens=48, prompts=8, tasks=0, sampled=False, crossed=False, floors=2)
"""What the demo runs: a few minutes on two cores."""
