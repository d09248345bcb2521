"""Everything that a protocol asks of this machine, in order: the reference, its floors, candidates, follow-ups."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from drift_runs.capture.execution import COPY_SETTINGS, Execution, Kind, engine_settings, settings_identity
from drift_runs.capture.observed import Observer, costs_one_arm, engine_of
from drift_runs.engines.base import EngineIdentity
from drift_runs.errors import DriftError, ModelFileError, NotComparable, ProtocolError
from drift_runs.machine import Machine
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.protocol.model import HERE, WRITERS, Arm, Floor
from drift_runs.store import Store, content_id


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReference:
    """A reference's capture that another machine took."""

    run_id: str
    capture_id: str
    identity: Mapping[str, object]


class LeftOut(NamedTuple):
    """An arm that is left out, with its launches and floors, because its engine or server refused when it was asked."""

    arm: str
    error: DriftError
    """What came of asking: no answer, another model, something that the protocol needs and it cannot give."""


def plan_executions(
    loaded: LoadedProtocol,
    machine: Machine,
    engine: EngineIdentity | None = None,
    *,
    follow_ups: Sequence[Arm] = (),
    only: Sequence[str] = (),
    reference: StoredReference | None = None,
    store: Store | None = None,
    left_out: list[LeftOut] | None = None,
    keep: bool = True,
) -> tuple[Execution, ...]:
    """Everything to execute, the reference first, then its floors, candidates and follow-ups in the protocol's order.

    Further launches of an arm come before it, so that its figures can say how far the launches lie apart; floors of an
    arm come after it, because they are compared with its rows. ``only``: names of candidates and follow-ups to take;
    the reference and its floors always belong. ``engine``: identity of ``llama_cpp`` where it is known already.

    ``store``: where it is kept what servers said; one that does not answer now is taken for what it was, because rows
    that are whole need no server. Without ``keep`` nothing is written there. ``left_out`` receives the arms whose
    engine or server refuses when it is asked, and that the store knows nothing of; without it the first of them is an
    error. A reference that refuses is an error always.

    With a stored ``reference`` nothing is executed for it. Its own arm is run here under the name ``<name>-here``: what
    lies between the two is the other machine. Its floors are those of that arm; a second pass of it is left out,
    because only a reference is kept open for one.

    Raises
    ------
    ProtocolError
        an unknown name in ``only``.
    NotComparable
        a stored reference of other windows, positions or settings of capture.
    ModelFileError
        a weight file is missing or not of the type that the protocol declares; an adapter's file is missing.
    ConfigError
        an adapter's file is named and no scale is declared, or the other way round; a server that is not named.
    EngineError, ServedOtherwise
        the reference's engine or server refuses, and without ``left_out`` any other.
    """
    protocol = loaded.protocol
    named = [arm.name for arm in (*protocol.arms, *follow_ups)]
    for name in only:
        if name not in named:
            raise ProtocolError(f"unknown arm {name!r}", where="--arms", expected=f"some of {', '.join(named)}")
    plan = _Plan(loaded, Observer(machine, protocol.dictionary.size, engine, store=store, keep=keep), machine)
    floors = {arm.name: [floor for floor in protocol.floors if floor.arm == arm.name] for arm in protocol.arms}
    first = protocol.reference
    if reference is None:
        plan.add(first, "reference")
        for floor in floors[first.name]:
            plan.add(first, "floor", floor)
    else:
        plan.add_stored(first, reference)
        here = first.model_copy(update={"name": f"{first.name}{HERE}", "title": f"{first.title or first.name}, here"})
        with plan.sparing(here.name, left_out):
            plan.add(here, "candidate", table=first, beside=reference.capture_id)
            for floor in floors[first.name]:
                if floor.kind != "pass":
                    plan.add(here, "floor", floor.model_copy(update={"arm": here.name}), table=first)
    for arm in (*protocol.arms, *follow_ups):
        if arm.role == "reference" or (only and arm.name not in only):
            continue
        with plan.sparing(arm.name, left_out):
            for number in range(2, arm.launches + 1):
                plan.add(arm, "launch", launch=number)
            plan.add(arm, "follow-up" if arm.role == "follow-up" else "candidate")
            for floor in floors.get(arm.name, ()):
                plan.add(arm, "floor", floor)
    _refuse_twins(plan.executions)
    return tuple(plan.executions)


class _Plan:
    def __init__(self, loaded: LoadedProtocol, observer: Observer, machine: Machine) -> None:
        self.loaded = loaded
        self.protocol = loaded.protocol
        self.observer = observer
        self.machine = machine
        self.full_rows = self.protocol.capture.full_vocabulary == "yes"
        self.executions: list[Execution] = []

    @contextlib.contextmanager
    def sparing(self, arm: str, left_out: list[LeftOut] | None) -> Iterator[None]:
        """What is added within is taken back where the arm's engine refuses: its floors have nothing to repeat."""
        before = len(self.executions)
        try:
            yield
        except DriftError as error:
            if left_out is None or not costs_one_arm(error):
                raise
            del self.executions[before:]
            left_out.append(LeftOut(arm, error))

    def add(
        self,
        arm: Arm,
        kind: Kind,
        floor: Floor | None = None,
        *,
        launch: int = 1,
        table: Arm | None = None,
        beside: str = "",
    ) -> None:
        """``table``: the arm whose table in ``drift.toml`` says where it is found; None: its own. ``beside``: capture
        of a stored reference, so that on the very same machine the arm is still an execution of its own."""
        protocol, found_as = self.protocol, table or arm
        weights, adapter = self.observer.weights(found_as), self.observer.adapter(found_as)
        settings = engine_settings(protocol.capture, arm, floor, threads=self.machine.threads(found_as.name))
        if floor is not None and floor.kind == "launch":
            launch = arm.launches + 1
        pass_ = 2 if floor is not None and floor.kind == "pass" else 1
        found = self.observer.found(found_as, settings, floor=floor, launch=launch)
        wanted = floor.windows if floor is not None and floor.windows else ()
        windows = tuple(window.name for window in protocol.windows if not wanted or window.name in wanted)
        if arm.engine in WRITERS:
            windows = ()
        against = protocol.reference.name if floor is None else floor.arm
        capture = _capture(self.loaded)
        wanted_from = ""
        if windows and kind != "reference" and protocol.capture.divergence == "kl.topk-tail" and not self.full_rows:
            wanted_from = next(other.capture_id for other in self.executions if other.name == against)
            capture["wanted_from"] = wanted_from
        identity = {
            "engine": asdict(found.engine),
            "weights_sha256": None if weights is None else weights.sha256,
            "settings": settings_identity(arm, settings, found.place),
            "capture": capture,
            "launch": launch,
            "pass": pass_,
            "windows": {name: window_identity(self.loaded, name) for name in windows},
        }
        if adapter is not None:  # absent otherwise: what was captured before adapters were known keeps its id
            identity["adapter"] = {"sha256": adapter.sha256, "scale": settings.adapter_scale}
        if beside:
            identity["beside"] = beside
        if found.said:
            identity["server"] = dict(found.said)
        self.executions.append(
            Execution(
                name=floor.name if floor is not None else f"{arm.name}#{launch}" if kind == "launch" else arm.name,
                kind=kind,
                against=against,
                arm=arm,
                full_rows=self.full_rows,
                wanted_from=wanted_from,
                may_equal=bool(beside),
                engine=found.engine,
                place=found.place,
                rows=found.rows,
                said=found.said,
                remembered=found.remembered,
                floor=floor,
                weights=weights,
                adapter=adapter,
                settings=settings,
                launch=launch,
                pass_=pass_,
                windows=windows,
                identity=identity,
                capture_id=content_id(identity),
                marks=self._marks,
            )
        )

    @property
    def _marks(self) -> dict[str, int]:
        return self.protocol.marks.model_dump(include=COPY_SETTINGS, exclude_defaults=True)

    def add_stored(self, arm: Arm, stored: StoredReference) -> None:
        """The reference as another machine took it."""
        protocol, identity = self.protocol, stored.identity
        settings = identity.get("settings")
        threads = settings.get("threads") if isinstance(settings, Mapping) else None
        wanted = {
            "capture": _capture(self.loaded),
            "windows": {window.name: window_identity(self.loaded, window.name) for window in protocol.windows},
        }
        for name, value in wanted.items():
            if identity.get(name) != value:
                raise NotComparable(
                    f"its {name} are not those of this protocol" if name == "windows" else "it was captured otherwise",
                    where=f"reference of run {stored.run_id}",
                    expected=f"the windows and [capture] of {protocol.name} version {protocol.version}",
                    todo="name a run of this protocol, or run the reference here",
                )
        self.executions.append(
            Execution(
                name=arm.name,
                kind="reference",
                against=arm.name,
                arm=arm,
                full_rows=self.full_rows,
                engine=_engine_of(identity, stored.run_id),
                floor=None,
                weights=None,
                adapter=None,
                # As many as the other machine had: arms here that have another count differ from it in that.
                settings=engine_settings(protocol.capture, arm, None, threads=threads or 1),
                launch=int(identity.get("launch", 1)),
                pass_=int(identity.get("pass", 1)),
                windows=tuple(window.name for window in protocol.windows),
                identity=identity,
                capture_id=stored.capture_id,
                from_run=stored.run_id,
                marks=self._marks,
            )
        )


def _capture(loaded: LoadedProtocol) -> dict[str, object]:
    capture = loaded.protocol.capture
    return {"top_k": capture.top_k, "full_vocabulary": capture.full_vocabulary}


def _engine_of(identity: Mapping[str, object], run_id: str) -> EngineIdentity:
    """What another machine observed of its engine."""
    try:
        return engine_of(identity["engine"])
    except (KeyError, TypeError, ValueError):
        raise NotComparable(
            "it does not say which engine took it", where=f"reference of run {run_id}", todo="run the reference here"
        ) from None


def window_identity(loaded: LoadedProtocol, name: str) -> dict[str, object]:
    """Token ids, as a digest, and scored spans of a window."""
    ids = np.asarray(loaded.tokens(name), dtype="<u4").tobytes()
    spans = [list(span) for span in loaded.protocol.window(name).scored]
    return {"tokens_sha256": hashlib.sha256(ids).hexdigest(), "scored": spans}


def _refuse_twins(planned: Sequence[Execution]) -> None:
    """Two names for one execution would be compared with itself, or counted twice."""
    seen: dict[str, str] = {}
    for execution in planned:
        twin = seen.setdefault(execution.capture_id, execution.name)
        if twin != execution.name:
            todo = "drift.toml gives them the same weights and settings"
            if execution.floor is not None and execution.floor.settings and execution.floor.settings.threads:
                todo = f"{twin} already runs with {execution.settings.threads} threads: set another count in drift.toml"
            raise ModelFileError(
                f"{execution.name} and {twin} are the same execution",
                where=f"arms {twin} and {execution.name}",
                expected="another weight file or setting",
                todo=todo,
            )
