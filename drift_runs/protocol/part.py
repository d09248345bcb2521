"""What every table of a protocol file has in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Part(BaseModel):
    """Common settings: frozen, and an unknown key is an error rather than a silent no-op."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
