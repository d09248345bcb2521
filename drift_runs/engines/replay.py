"""Plays a recorded capture: what an engine said once, on another machine or at another time, taken at its word.

A recording is a folder as captures are stored: ``capture.json``, which says who took it, and a Parquet file a window
with its rows. A window is found by its tokens, so that nothing is played for another text. Nothing can be generated:
rows say what came next at the positions that were scored, and no more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from drift_runs import schema
from drift_runs.engines.base import Capabilities, EngineIdentity, EngineSettings, ListedBlock, Written
from drift_runs.errors import CannotGive, ModelFileError, StoreError, one_line
from drift_runs.measure.toplists import TopLists, top_lists
from drift_runs.protocol.part import Digest, Name
from drift_runs.schema import RowFlag
from drift_runs.store import content_id, read_table

DICTIONARY_FILE = "dictionary.parquet"


class _Part(BaseModel):
    # Whatever else an identity says is its own affair.
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class _Engine(_Part):
    engine: str
    build: str
    backend: str
    hardware: str


class _Capture(_Part):
    top_k: Annotated[int, Field(ge=1, lt=2**31)]


class _Settings(_Part):
    path_shape: str
    kv: str


class _Window(_Part):
    tokens_sha256: Digest
    scored: tuple[tuple[Annotated[int, Field(ge=1, lt=2**31)], Annotated[int, Field(ge=1, lt=2**31)]], ...]


class _Recorded(_Part):
    """What of a capture's identity is used to play it."""

    engine: _Engine
    capture: _Capture
    settings: _Settings
    windows: dict[Name, _Window]
    launch: int
    server: dict[str, str] = {}


class Replay:
    """A recorded capture as a ``ListedEngine``. ``rows``: its folder.

    ``ModelFileError``: no capture lies there, or it was taken in another path shape or with another KV type.
    """

    gives_wanted = True
    retries = 0

    def __init__(self, rows: Path, settings: EngineSettings) -> None:
        self.folder = Path(rows)
        self.settings = settings
        self._capture, self.recorded = _identity(self.folder)
        for what, recorded, asked in (
            ("path shape", self.recorded.settings.path_shape, settings.path_shape),
            ("KV type", self.recorded.settings.kv, settings.kv),
        ):
            if recorded != asked:
                self._refuse(
                    f"it was recorded with the {what} {recorded!r}", expected=f"{asked!r}, as the arm declares"
                )
        found = self.recorded.engine
        self._identity = EngineIdentity(
            engine=f"replay of {found.engine}",
            build=found.build,
            backend=found.backend,
            hardware=found.hardware,
            capabilities=self.capabilities,
        )

    @property
    def identity(self) -> EngineIdentity:
        return self._identity

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            full_vocabulary=False,
            largest_top_k=self.recorded.capture.top_k,
            path_shapes=(self.recorded.settings.path_shape,),
            token_ids=True,
            continues=False,
        )

    def said(self) -> Mapping[str, str]:
        """Which capture it is, a digest of its rows, and what the server said when it was recorded."""
        said = {f"recorded {name}": value for name, value in self.recorded.server.items()}
        return {"capture": self._capture, "rows": self._digest(), "launch": str(self.recorded.launch), **said}

    def _digest(self) -> str:
        """Of every window's file: rows that were exchanged are another recording, whatever its identity says."""
        digests = {}
        for name in self.recorded.windows:
            path = self.folder / f"{name}.parquet"
            try:
                digests[name] = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
            except OSError as error:
                raise ModelFileError(f"cannot be read: {error.strerror}", where=str(path)) from None
        return content_id(digests)

    def token_bytes(self) -> list[bytes] | None:
        """What lies in the recording's folder, or up to two above it for several of one model; None without any."""
        above = (self.folder, *self.folder.resolve().parents[:2])
        file = next((place / DICTIONARY_FILE for place in above if (place / DICTIONARY_FILE).is_file()), None)
        if file is None:
            return None
        return [bytes(value) for value in read_table(file, schema.DICTIONARY)["bytes"].to_pylist()]

    def tokenize(self, text: str) -> list[int] | None:
        return None

    def score_listed(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        *,
        top_k: int,
        wanted: Sequence[Sequence[int]] | None = None,
    ) -> Iterator[ListedBlock]:
        """Rows as they were recorded, cut to ``top_k``; ids that are wanted as far as they were recorded.

        Raises
        ------
        ModelFileError
            the text or a position was not recorded, or fewer entries than are asked for.
        """
        if not len(positions):
            return
        name = self._window(tokens, positions)
        rows = self._rows(name)
        place = {int(position): at for at, position in enumerate(rows.position)}
        asked = list(map(int, positions))
        if not place.keys() >= set(asked) or any(rows.token[place[at]] != tokens[at] for at in asked):
            self._refuse(f"{name}.parquet holds other rows than its capture.json says", expected="those of this text")
        recorded = self.recorded.capture.top_k
        if top_k > recorded:
            self._refuse(f"{top_k} entries are asked for", expected=f"at most {recorded}, as recorded")
        rows = rows.take(np.asarray([place[at] for at in asked]))
        kept = rows.cut(top_k)
        told = _told(rows, wanted)
        yield ListedBlock(
            positions=kept.position,
            ids=kept.ids,
            logprobs=kept.logprobs,
            token_logprob=kept.logprob,
            token_rank=kept.rank,
            wanted_ids=told[0],
            wanted_logprobs=told[1],
            sentinels=((kept.flags & RowFlag.SENTINEL) > 0).astype(np.int32),
        )

    def _window(self, tokens: Sequence[int], positions: Sequence[int]) -> str:
        """The window of that text which holds those positions: several may score one text in different places."""
        digest = hashlib.sha256(np.asarray(tokens, dtype="<u4").tobytes()).hexdigest()
        windows = self.recorded.windows
        of_text = [name for name, window in windows.items() if window.tokens_sha256 == digest]
        missing: list[int] = []
        for name in of_text:
            spans = windows[name].scored
            lacks = [at for at in map(int, positions) if not any(start <= at < end for start, end in spans)]
            if not lacks:
                return name
            missing = missing or lacks
        if of_text:
            self._refuse(f"position {min(missing)} was not recorded", expected="the positions of the recording")
        self._refuse("this text was not recorded", expected=f"one of {len(windows)} windows, token by token")

    def _rows(self, name: str) -> TopLists:
        try:
            table = read_table(self.folder / f"{name}.parquet", schema.ROWS)
        except (StoreError, OSError, pa.ArrowException) as error:
            raise ModelFileError(f"cannot be read: {error}", where=str(self.folder / f"{name}.parquet")) from None
        return top_lists(table, side="recorded")

    def write(self, tokens: Sequence[int], count: int, *, top_k: int) -> list[Written]:
        raise CannotGive(
            "a recording of rows writes nothing",
            where=str(self.folder),
            expected="a protocol without free generation, or an engine that runs",
            todo="leave [branches], [rollouts] and [[tasks]] out, or run the engine itself",
        )

    def _refuse(self, what: str, *, expected: str) -> NoReturn:
        raise ModelFileError(
            what, where=str(self.folder), expected=expected, todo="play it with the protocol that it was recorded for"
        )

    def close(self) -> None:
        return None


def _told(rows: TopLists, wanted: Sequence[Sequence[int]] | None) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of ids that were asked for, where the recording knows them."""
    width = max((len(ids) for ids in wanted or ()), default=0)
    ids = np.full((len(rows), width), -1, dtype=np.int32)
    for row, asked in enumerate(wanted or ()):
        ids[row, : len(asked)] = asked
    logprobs = rows.logprobs_of(ids) if width else np.zeros((len(rows), 0))
    return np.where(np.isnan(logprobs), -1, ids).astype(np.int32), logprobs


def _identity(folder: Path) -> tuple[str, _Recorded]:
    """Id of the recorded capture, and what is needed of its identity."""
    path = folder / "capture.json"
    try:
        raw = path.read_bytes()
        return content_id(json.loads(raw)), _Recorded.model_validate_json(raw)
    except FileNotFoundError:
        what = "no such file"
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"]))
        what = f"not the identity of a capture: {one_line(key)}: {first['msg'].lower()}"
    except (OSError, ValueError, RecursionError) as error:
        what = f"not the identity of a capture: {error}"
    raise ModelFileError(
        what, where=str(path), expected="the folder of a recorded capture", todo="correct rows in drift.toml"
    )
