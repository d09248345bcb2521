"""What this machine has for the arms of a protocol: weight files, adapters, engines, servers. Each is asked once."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from drift_runs.capture.execution import engine_settings
from drift_runs.capture.measured import said_by
from drift_runs.engines.base import Capabilities, Engine, EngineIdentity, EngineSettings, ListedEngine
from drift_runs.engines.registry import ENGINES, Opening, open_engine, process_identity
from drift_runs.errors import ConfigError, DriftError, EngineError, ModelFileError, ServedOtherwise, ServerError
from drift_runs.machine import Machine, Place
from drift_runs.protocol.load import LoadedProtocol
from drift_runs.protocol.model import Arm, Floor
from drift_runs.store import Store, content_id
from drift_runs.weights.gguf_file import WeightsFile, inspect


def costs_one_arm(error: DriftError) -> bool:
    """Whether it is an engine or a server that refuses what it is asked: the other arms go on without it.

    Everything else is wrong in a file that somebody wrote (the protocol, ``drift.toml``, a weight file), and nothing is
    begun with it.
    """
    return isinstance(error, EngineError | ServedOtherwise) and not isinstance(error, ModelFileError)


class Remembered(NamedTuple):
    """Why a server was taken for what it said when it last answered."""

    why: str
    """What came of asking it now."""
    last_ms: int | None
    """When it last answered; None where that is not known."""


class Found(NamedTuple):
    """What takes an arm's rows."""

    engine: EngineIdentity
    said: Mapping[str, str]
    """Of a server: what it says of itself."""
    place: Place | None
    rows: Path | None
    remembered: Remembered | None = None
    """None: it was asked now."""


class Observer:
    """``engine``: identity of ``llama_cpp`` where it is known already. ``store``: keeps what servers said; without
    ``keep`` it is read alone."""

    def __init__(
        self,
        machine: Machine,
        dictionary_size: int,
        engine: EngineIdentity | None = None,
        *,
        store: Store | None = None,
        keep: bool = True,
    ) -> None:
        self._machine = machine
        self._keep = keep
        self._store = store
        self._size = dictionary_size
        self._llama_cpp = engine
        self._files: dict[Path, WeightsFile] = {}
        self._asked: dict[str, tuple[EngineIdentity, Mapping[str, str]]] = {}
        self._remembered: dict[str, Remembered] = {}
        self._silent: dict[tuple[str, str], ServerError] = {}
        """By address and name of the model: what came of asking a server that does not answer."""
        self._facts: dict[tuple[str, str], Mapping[str, str]] = {}
        """By address and name of the model: what a server says of itself and nothing that was measured of it."""
        self._launched: dict[str, str] = {}
        """Which launch of which arm is found where."""

    def weights(self, arm: Arm) -> WeightsFile | None:
        """The arm's weight file or model folder; None where a server's owner names none."""
        needs = ENGINES[arm.engine].needs
        if needs == "rows" or (needs == "place" and not self._machine.names_model(arm.name)):
            return None
        path = self._machine.model_file(arm.name)
        found = self._inspected(path, folder=path.is_dir() and needs != "gguf")
        declared = arm.weights.lower()
        # What is quantised when it is loaded has another type than its file; the facet names what is computed with.
        if arm.settings.quantise is not None:
            if declared != arm.settings.quantise.lower():
                raise ConfigError(
                    f"arm {arm.name} declares weights {arm.weights}, and they are quantised as {arm.settings.quantise}",
                    where=f"arms.{arm.name}",
                    expected=f"weights = {arm.settings.quantise!r}",
                )
        elif found.dominant != declared and needs != "place":
            raise ModelFileError(
                f"arm {arm.name} declares weights {arm.weights}, the file holds {found.label}",
                where=str(path),
                todo="name the right file in drift.toml",
            )
        return found

    def adapter(self, arm: Arm) -> WeightsFile | None:
        """The adapter's file of an arm that declares one."""
        path = adapter_file(self._machine, arm)
        return None if path is None else self._inspected(path, folder=False, what="adapter")

    def _inspected(self, path: Path, *, folder: bool, what: str = "model") -> WeightsFile:
        if path not in self._files:
            if folder:
                from drift_runs.weights.folder_file import inspect_folder

                self._files[path] = inspect_folder(path)
            else:
                self._files[path] = inspect(path, what=what)
        return self._files[path]

    def found(self, arm: Arm, settings: EngineSettings, *, floor: Floor | None, launch: int) -> Found:
        """The engine of an arm, or of a repeat of it.

        Raises
        ------
        ConfigError
            a further launch of a server without a server of its own: a running server cannot be started anew from here.
        ServedOtherwise
            a further launch is another server, or a server does not serve what ``drift.toml`` names.
        EngineError
            an engine's library is missing, a server does not answer, or it cannot give what the protocol needs.
        """
        kind = ENGINES[arm.engine]
        if kind.needs in ("gguf", "folder"):
            if arm.engine == "llama_cpp" and self._llama_cpp is not None:
                return Found(self._llama_cpp, {}, None, None)
            return Found(process_identity(arm.engine, settings), {}, None, None)
        name = self._table(arm, floor, launch)
        place = self._machine.place(name) if kind.needs == "place" else None
        rows = self._machine.rows_folder(name) if kind.needs == "rows" else None
        opening = Opening(engine=arm.engine, settings=settings, dictionary_size=self._size, place=place, rows=rows)
        asked = json.dumps(opening.as_json(), sort_keys=True)
        if asked not in self._asked:
            self._ask(opening, asked)
        if launch > 1:
            self._refuse_another(arm, name, settings, place, rows)
        return Found(*self._asked[asked], place, rows, self._remembered.get(asked))

    def _ask(self, opening: Opening, asked: str) -> None:
        """What it is and says; of a server that does not answer now, or refuses, what it said at the last time.

        Rows that are whole need no server. Before it takes others it is asked again, and held to this.
        """
        place = opening.place
        key = content_id({"asked": asked})
        try:
            if place is not None and (place.url, place.served) in self._silent:
                raise self._silent[place.url, place.served]  # asked once: each asking waits its time
            with contextlib.closing(open_engine(opening)) as engine:
                said, facts = said_by(engine), {} if place is None else dict(engine.facts())
                found = engine.identity
        except (EngineError, ServedOtherwise) as error:
            if not costs_one_arm(error):
                raise
            if place is not None and isinstance(error, ServerError) and error.status is None:
                self._silent[place.url, place.served] = error
            known = None if self._store is None else self._store.read_observed(key)
            if known is None:
                raise
            found, said, facts = engine_of(known["engine"]), known["said"], known["facts"]
            last_ms = known.get("time_ms")
            self._remembered[asked] = Remembered(error.line(), last_ms if isinstance(last_ms, int) else None)
        else:
            if self._store is not None and place is not None and self._keep:
                content = {"engine": asdict(found), "said": said, "facts": facts, "time_ms": time.time_ns() // 10**6}
                self._store.write_observed(key, content)
        self._asked[asked] = found, said
        if place is not None:
            self._facts[place.url, place.served] = facts

    def _refuse_another(
        self, arm: Arm, name: str, settings: EngineSettings, place: Place | None, rows: Path | None
    ) -> None:
        """A further launch stands at a place of its own, and is the very same server there: else the floor would
        measure nothing, or the difference between two servers."""
        first = self.found(arm, settings, floor=None, launch=1)
        where = f"{self._machine.path.name}: arms.{name}"
        here = str(rows) if place is None else place.url
        taken = {str(first.rows) if first.place is None else first.place.url: arm.name, **self._launched}
        if taken.get(here, name) != name:
            raise ConfigError(
                f"{taken[here]} is found there too",
                where=where,
                expected="a place of its own: one server, or one recording, is one launch",
                todo="start the server once more at another port",
            )
        self._launched[here] = name
        if place is None or first.place is None:
            return
        one, other = (self._facts[found.url, found.served] for found in (first.place, place))
        for key in sorted({*one, *other}):
            before, after = one.get(key, "not said"), other.get(key, "not said")
            if before != after:
                raise ServedOtherwise(
                    f"another server than that of arm {arm.name}: {key} is {after}, and {before} there",
                    where=where,
                    expected="the same server, started once more",
                    todo="start it with the same model and options",
                )

    def _table(self, arm: Arm, floor: Floor | None, launch: int) -> str:
        """Name of the table in ``drift.toml`` that says where a repeat of an arm is found."""
        if floor is not None and floor.kind == "pass":
            return arm.name  # the same process goes on, whatever table bears the floor's name
        repeat = floor.name if floor is not None else f"{arm.name}#{launch}" if launch > 1 else arm.name
        if self._machine.knows(repeat):
            return repeat
        if launch > 1:
            raise ConfigError(
                "a further launch needs a server of its own",
                where=f"{self._machine.path.name}: arms.{repeat}",
                expected=f"a table of that name: the same server of arm {arm.name}, started once more",
                todo="start it again at another port, or declare a floor of kind 'pass'",
            )
        return arm.name


def open_arm(loaded: LoadedProtocol, machine: Machine, arm: Arm) -> Engine | ListedEngine:
    """The engine of an arm, open for scoring and writing. Raises what its opening raises."""
    observer = Observer(machine, loaded.protocol.dictionary.size)
    settings = engine_settings(loaded.protocol.capture, arm, None, threads=machine.threads(arm.name))
    weights, adapter = observer.weights(arm), observer.adapter(arm)
    needs = ENGINES[arm.engine].needs
    opening = Opening(
        engine=arm.engine,
        settings=settings,
        dictionary_size=loaded.protocol.dictionary.size,
        model=None if weights is None else weights.path,
        adapter=None if adapter is None else adapter.path,
        place=machine.place(arm.name) if needs == "place" else None,
        rows=machine.rows_folder(arm.name) if needs == "rows" else None,
    )
    return open_engine(opening, branches=True)


def engine_of(content: Mapping[str, Any]) -> EngineIdentity:
    """An identity as it was stored. ``KeyError``, ``TypeError`` or ``ValueError`` for what is none."""
    found = dict(content)
    able = dict(found.pop("capabilities"))
    able["path_shapes"] = tuple(able["path_shapes"])
    return EngineIdentity(**found, capabilities=Capabilities(**able))


def adapter_file(machine: Machine, arm: Arm) -> Path | None:
    """The adapter that an arm is run with; None for none.

    A file alone would change every number of the arm without the protocol's knowledge, so it takes both: the scale in
    the protocol, the file in ``drift.toml``.
    """
    path, scale = machine.adapter_file(arm.name), arm.settings.adapter_scale
    where = f"{machine.path.name}: arms.{arm.name}"
    if path is None and scale is not None:
        raise ConfigError(
            f"the protocol applies an adapter at scale {scale:g}, and no file is named",
            where=where,
            expected='adapter = "…"',
            todo="name the adapter's file; same_model_as takes over the weight file alone",
        )
    if path is not None and scale is None:
        raise ConfigError(
            "the protocol applies no adapter to this arm",
            where=f"{where}.adapter",
            expected=f"no such key, or settings = {{ adapter_scale = 1.0 }} for arm {arm.name} in the protocol",
            todo="take the key away, or declare the scale in a new version of the protocol",
        )
    return path
