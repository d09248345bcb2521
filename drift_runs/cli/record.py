"""``drift record``: makes the token streams of a recipe."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from drift_runs.errors import ProtocolError

if TYPE_CHECKING:
    from drift_runs.authoring.recipe import Recipe
    from drift_runs.protocol.generation import PromptIds
    from drift_runs.protocol.model import Stream

HELP = """Make the token streams of a recipe: authored texts are tokenised, the others are written by the reference,
once, and it must itself choose every token of the answers that a text expects. Writes the streams and the windows of
the draft protocol beside the recipe; with --out, streams alone, and the windows are printed. A frozen protocol is never
written to."""
EXAMPLE = """drift record protocols/smollm2-quick.recipe.toml --model f16.gguf --out try-streams
drift record mine.recipe.toml --model f16.gguf --only pb-prose"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", type=Path, help="a recipe file (drift.recipe/1)")
    parser.add_argument(
        "--model", metavar="FILE", type=Path, required=True, help="the reference's weights, a GGUF file"
    )
    parser.add_argument(
        "--only",
        metavar="WINDOW",
        action="append",
        help="record this window and take the other streams as they are; may be repeated",
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="write the streams there and leave the protocol alone")
    parser.add_argument("--threads", type=int, default=1, help="engine threads (default: 1)")


def run(args: argparse.Namespace) -> int:
    from drift_runs.authoring import draft
    from drift_runs.authoring.prompt_ids import write_prompt_ids
    from drift_runs.authoring.recipe import load_recipe
    from drift_runs.authoring.record import Recorded, Recorder
    from drift_runs.cli.progress import ProgressLine
    from drift_runs.engines.base import EngineSettings
    from drift_runs.engines.llama_cpp import LlamaCpp
    from drift_runs.errors import ConfigError, ModelFileError
    from drift_runs.protocol.canonical import file_sha256, write_atomically
    from drift_runs.protocol.lock import lock_path
    from drift_runs.protocol.model import Stream
    from drift_runs.protocol.problems import did_you_mean
    from drift_runs.protocol.streams import dictionary_sha256, write_stream

    if args.threads < 1:
        raise ConfigError(f"{args.threads} threads", where="--threads", expected="1 or more")
    if not args.model.is_file():
        raise ModelFileError(f"{args.model}: no such file", where="--model", expected="the reference's GGUF file")
    recipe = load_recipe(args.recipe)
    folder = args.recipe.parent
    protocol_file = folder / f"{recipe.protocol}.toml"
    if args.out is None and lock_path(protocol_file).is_file():
        raise ProtocolError(
            "the protocol is frozen, and new streams would change it",
            where=str(protocol_file),
            todo="write the streams elsewhere with --out, or record for a new version",
        )
    names = [window.name for window in recipe.windows]
    wanted = args.only or names
    for name in wanted:
        if name not in names:
            raise ConfigError(f"no window {name!r} in {args.recipe}", where="--only", todo=did_you_mean(name, names))
    streams = args.out or folder / recipe.streams
    line = ProgressLine()
    settings = EngineSettings(
        path_shape="prefill",
        context_tokens=recipe.context_tokens,
        batch=recipe.context_tokens,
        micro_batch=min(512, recipe.context_tokens),
        threads=args.threads,
        kv="f16",
        flash_attention="on",
    )
    weights_sha256 = file_sha256(args.model)
    with LlamaCpp(args.model, settings) as engine:
        provenance: dict[str, str | int | float] = {
            "weights_sha256": weights_sha256,
            "engine": engine.identity.engine,
            "build": engine.identity.build,
            # Token by token, flash attention splits a long history among threads: another count, other bytes.
            "threads": args.threads,
        }
        recorder = Recorder(recipe, folder, engine, provenance)
        done: list[Recorded] = []
        for window in recipe.windows:
            file = streams / f"{window.name}.json"
            if window.name in wanted:
                item = recorder.record(
                    window, lambda count, name=window.name: line.show(f"{name}: {count} tokens written")
                )
                if args.out is not None:
                    write_stream(file, item.stream)
                line.clear()
                scored = sum(end - start for start, end in item.layout.scored)
                answers = f", {len(item.layout.answers)} answers" if item.layout.answers else ""
                said = f"{window.name}: {len(item.stream.tokens)} tokens, {scored} scored{answers}"
                print(said, file=sys.stderr, flush=True)
                done.append(item)
            elif file.is_file():
                stream = Stream.model_validate_json(file.read_bytes())
                refuse_another_reference(file, stream, weights_sha256)
                done.append(Recorded(window=window, stream=stream, layout=recorder.layout_of(window, stream)))
            elif args.out is None:
                raise ProtocolError(
                    "no stream was recorded yet", where=str(file), todo="record all windows once, without --only"
                )
        dictionary = (len(recorder.token_bytes), dictionary_sha256(recorder.token_bytes))
        ids = None
        if args.out is None:
            ids = prompt_ids_of(recipe, folder, protocol_file, engine.tokenize, dictionary[1])
    text = draft.blocks(recipe, done, recorder.token_bytes)
    if args.out is not None:
        print(text, end="")
        return 0
    # All of them at the end, with the draft: spans of an earlier recording must not lie over the streams of one that
    # was refused or broken off halfway.
    for item in done:
        if item.window.name in wanted:
            write_stream(streams / f"{item.window.name}.json", item.stream)
    if ids is not None:
        write_prompt_ids(folder / recipe.prompt_ids, ids)
    if protocol_file.is_file():
        text = draft.replaced(protocol_file.read_text(encoding="utf-8"), text, where=str(protocol_file))
    else:
        text = draft.skeleton(recipe, dictionary_size=dictionary[0], dictionary_sha256=dictionary[1], new_blocks=text)
    write_atomically(protocol_file, text.encode("utf-8"))
    print(protocol_file)
    return 0


def prompt_ids_of(
    recipe: Recipe, folder: Path, protocol_file: Path, tokenize: Callable[[str], list[int]], dictionary_sha256: str
) -> PromptIds | None:
    """The recipe's rollout prompts as token ids, in the turns of the protocol's chat; None where it names none."""
    from drift_runs.authoring.prompt_ids import prompt_ids
    from drift_runs.protocol.canonical import file_sha256
    from drift_runs.protocol.files import parse_toml, validate
    from drift_runs.protocol.generation import Chat
    from drift_runs.protocol.problems import Problems
    from drift_runs.protocol.prompts import load_prompts

    if not recipe.prompts:
        return None
    content = parse_toml(protocol_file.read_bytes(), protocol_file.name) if protocol_file.is_file() else {}
    if "chat" not in content:
        raise ProtocolError(
            "nothing says how a prompt's turn is written", where=str(protocol_file), expected="[chat] in the protocol"
        )
    problems = Problems(protocol_file.name, content["chat"])
    chat = validate(problems, Chat, content["chat"])
    problems.raise_all()
    panel = folder / recipe.prompts
    return prompt_ids(load_prompts(panel), chat, tokenize, dictionary_sha256, file_sha256(panel))


def refuse_another_reference(file: Path, stream: Stream, weights_sha256: str) -> None:
    """What the reference wrote or passed comes of one reference; a stream of another would pass for this one's."""
    found = stream.recorded.get("weights_sha256", weights_sha256)
    if found != weights_sha256:
        raise ProtocolError(
            f"it was recorded with other weights ({str(found)[:16]}…)",
            where=str(file),
            expected=f"those of --model ({weights_sha256[:16]}…)",
            todo="record all windows with one model, without --only",
        )
