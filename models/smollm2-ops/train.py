"""Train the adapter: LoRA on all linear layers of SmolLM2-135M-Instruct, on drawn operations tasks and replayed chat.

    python train.py --model SmolLM2-135M-Instruct.Q4_1.gguf --work work [--steps N] [--threads 2]

Needs the project's extra ``train`` (torch, transformers, peft, gguf), two cores and about 8 GB. Everything drawn is a
function of the seed and the step, so that a run that was stopped goes on from its last checkpoint with the batches that
it would have had. Arithmetic in bfloat16 on several threads is not promised to give the same bits on another machine.

What is optimised: the mean negative log-likelihood of the answers' tokens (their end of turn included), and of the
whole text of replay, which the base model wrote itself before the first step: it holds the tuned model near the base
where no task is asked (see the card).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from ops_tasks.chat import PROMPTS, TEXT_STARTS
from ops_tasks.draw import draw
from ops_tasks.tasks import pieces
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

RANK = 12
ALPHA = 24.0
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
LONGEST_TOKENS = 1024
STEPS = 1000
POOL = 48
"""Examples that a step draws to find some of like length."""


class Example(NamedTuple):
    """Token ids and which of them are learned (bool for each; the first token never is)."""

    tokens: list[int]
    learned: list[bool]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    made.add_argument("--model", type=Path, required=True, help="the base model's GGUF file")
    made.add_argument("--work", type=Path, required=True, help="folder of checkpoints and of the log")
    made.add_argument("--seed", type=int, default=20251)
    made.add_argument(
        "--steps", type=int, default=STEPS, help="optimiser steps; the learning rate falls to 0 at the last"
    )
    made.add_argument("--batch-tokens", type=int, default=2048, help="tokens of a batch, padding included")
    made.add_argument("--rate", type=float, default=1e-3, help="largest learning rate")
    made.add_argument("--replay", type=float, default=0.1, help="share of the steps that replay what the base wrote")
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--minutes", type=float, default=0, help="stop after the checkpoint that follows; 0: when done")
    return made


def main() -> None:
    args = parser().parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    args.work.mkdir(parents=True, exist_ok=True)
    folder, name = str(args.model.parent), args.model.name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = AutoModelForCausalLM.from_pretrained(
        folder,
        gguf_file=name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
        attn_implementation="eager",  # at these lengths faster on a CPU than the fused kernel, forward and backward
    )
    replay = replayed(model, tokenizer, args.work / f"replay-{args.seed}.json", args.seed)
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=0.0, bias="none", target_modules=list(TARGETS))
    # The adapter computes in bfloat16 like the rest, which is half as fast again as float32; what is optimised is a
    # float32 copy of it, because a late step is smaller than what bfloat16 can add to a weight.
    tuned = get_peft_model(model, config, autocast_adapter_dtype=False)
    weights = [weight for _name, weight in trained(tuned)]
    exact = [weight.detach().float().requires_grad_() for weight in weights]
    print(f"{sum(weight.numel() for weight in weights):,} weights to train", flush=True)
    optimiser = torch.optim.AdamW(exact, lr=args.rate, betas=(0.9, 0.99), weight_decay=0.0)
    checkpoint = args.work / "checkpoint.pt"
    first, tokens_seen = 0, 0
    if checkpoint.is_file():
        saved = torch.load(checkpoint, weights_only=True)
        if saved["arguments"] != arguments_of(args):
            raise SystemExit(f"{checkpoint} is of {saved['arguments']}: give the same arguments, or use another --work")
        for weight, copy, value in zip(weights, exact, saved["adapter"].values(), strict=True):
            copy.data.copy_(value)
            weight.data.copy_(value)
        optimiser.load_state_dict(saved["optimiser"])
        first, tokens_seen = saved["step"], saved["tokens_seen"]
        print(f"going on from step {first}", flush=True)
    begun, saved_at, tokens_here = time.monotonic(), time.monotonic(), 0
    with (args.work / "log.jsonl").open("a", encoding="utf-8") as log:
        for step in range(first, args.steps):
            for group in optimiser.param_groups:
                group["lr"] = args.rate * rate_at(step, args.steps)
            batch = batch_of(step, args.seed, tokenizer, replay, args.replay, args.batch_tokens)
            loss, learned = backward(tuned, batch)
            for weight, copy in zip(weights, exact, strict=True):
                copy.grad, weight.grad = weight.grad.float(), None
            norm = float(torch.nn.utils.clip_grad_norm_(exact, 1.0))
            optimiser.step()
            for weight, copy in zip(weights, exact, strict=True):
                weight.data.copy_(copy.data)
            count = sum(len(example.tokens) for example in batch)
            tokens_seen, tokens_here = tokens_seen + count, tokens_here + count
            pace = tokens_here / (time.monotonic() - begun)
            left_s = (args.steps - step - 1) * (time.monotonic() - begun) / (step - first + 1)
            row = {
                "step": step + 1,
                "loss": loss,
                "learned": learned,
                "tokens": tokens_seen,
                "norm": norm,
                "tok_s": pace,
            }
            print(json.dumps(row), file=log, flush=True)
            print(
                f"step {step + 1}/{args.steps} loss {loss:.4f} {pace:.0f} tok/s, {left_s / 60:.0f} min left", flush=True
            )
            out_of_time = bool(args.minutes) and time.monotonic() - begun > args.minutes * 60
            if time.monotonic() - saved_at > 180 or step + 1 == args.steps or out_of_time:
                named = {name: copy for (name, _), copy in zip(trained(tuned), exact, strict=True)}
                save(checkpoint, named, optimiser, args, step + 1, tokens_seen)
                saved_at = time.monotonic()
            if out_of_time:
                raise SystemExit(f"stopped at step {step + 1}; the same command goes on from there")
    print(f"done: {tokens_seen:,} tokens; now: python export.py --work {args.work}", flush=True)


def rate_at(step: int, steps: int) -> float:
    """Share of the largest rate: 20 steps up, then half a cosine down to 0."""
    warm = min(20, max(1, steps // 10))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def encode(tokenizer, parts: list[tuple[str, bool]]) -> Example:
    """Tokens of (text, learned) parts. Parts are cut where the tokenizer cuts too: behind a role's newline."""
    tokens: list[int] = []
    learned: list[bool] = []
    for text, is_learned in parts:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        tokens += ids
        learned += [is_learned] * len(ids)
    learned[0] = False
    return Example(tokens, learned)


def batch_of(step: int, seed: int, tokenizer, replay: list[list[int]], share: float, room: int) -> list[Example]:
    """The examples of one step: of like length, as many as fit ``room`` tokens with padding.

    Replay has steps of its own. Mixed with tasks it would drown them: each of its tokens is learned, of a task a few,
    and what a sampled text still leaves to learn is a hundred times what a task does.
    """
    rng = np.random.default_rng([seed, 77, step])
    if rng.random() < share:
        texts = [replay[int(index)] for index in rng.integers(len(replay), size=POOL)]
        pool = [Example(tokens, [False] + [True] * (len(tokens) - 1)) for tokens in texts]
    else:
        tasks = (draw("train", seed, step * POOL + slot) for slot in range(POOL))
        drawn = (
            encode(tokenizer, [(piece.text, piece.answer is not None) for piece in pieces(task)]) for task in tasks
        )
        pool = [example for example in drawn if len(example.tokens) <= LONGEST_TOKENS]
    target = rng.random()
    pool.sort(key=lambda example: len(example.tokens))
    at = int(target * len(pool))
    chosen = [pool[at]]
    low, high = at - 1, at + 1
    while True:
        side = pool[high] if high < len(pool) else (pool[low] if low >= 0 else None)
        if side is None or (len(chosen) + 1) * max(len(side.tokens), *(len(one.tokens) for one in chosen)) > room:
            return chosen
        chosen.append(side)
        low, high = (low, high + 1) if high < len(pool) else (low - 1, high)


def backward(model, batch: list[Example]) -> tuple[float, int]:
    """Gradients of one batch; mean loss in nats and how many tokens were learned.

    Padding stands at the right, where a causal model cannot see it from the left, so no mask is needed. The output
    matrix is applied to learned positions only: it is a quarter of all weights.
    """
    width = max(len(example.tokens) for example in batch)
    ids = torch.zeros((len(batch), width), dtype=torch.long)
    learned = torch.zeros((len(batch), width), dtype=torch.bool)
    for row, example in enumerate(batch):
        ids[row, : len(example.tokens)] = torch.tensor(example.tokens)
        learned[row, : len(example.tokens)] = torch.tensor(example.learned)
    inner = model.get_base_model()
    hidden = inner.model(input_ids=ids, use_cache=False).last_hidden_state
    wanted = learned[:, 1:]
    logits = inner.lm_head(hidden[:, :-1][wanted]).float()
    loss = torch.nn.functional.cross_entropy(logits, ids[:, 1:][wanted])
    loss.backward()
    return float(loss.detach()), int(wanted.sum())


def replayed(model, tokenizer, file: Path, seed: int) -> list[list[int]]:
    """Texts that the base model writes, sampled from its whole distribution: once, before the first step."""
    if file.is_file():
        return json.loads(file.read_text(encoding="utf-8"))
    torch.manual_seed(seed)
    openings = [f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n" for prompt in PROMPTS]
    openings += list(TEXT_STARTS)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    texts: list[list[int]] = []
    begun = time.monotonic()
    tokenizer.padding_side = "left"
    tokenizer.pad_token_id = end
    for first in range(0, len(openings), 48):
        given = tokenizer(openings[first : first + 48], add_special_tokens=False, padding=True, return_tensors="pt")
        with torch.inference_mode():
            written = model.generate(
                **given,
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                max_new_tokens=128,
                pad_token_id=end,
                eos_token_id=end,
            )
        for row, mask in zip(written.tolist(), given["attention_mask"].tolist(), strict=True):
            prompt = row[mask.index(1) : len(mask)]
            answer = row[len(mask) :]
            answer = answer[: answer.index(end) + 1] if end in answer else answer
            texts.append(prompt + answer)
        print(f"replay {len(texts)}/{len(openings)}, {time.monotonic() - begun:.0f} s", flush=True)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(texts), encoding="utf-8")
    os.replace(part, file)
    return texts


def arguments_of(args: argparse.Namespace) -> dict[str, float]:
    """What the batches and steps depend on; a run that goes on must have the same."""
    return {name: getattr(args, name) for name in ("seed", "steps", "batch_tokens", "rate", "replay")}


def trained(model) -> list[tuple[str, torch.nn.Parameter]]:
    """The adapter's weights with their names, in the model's order."""
    return [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]


def save(path: Path, adapter: dict, optimiser, args: argparse.Namespace, step: int, tokens_seen: int) -> None:
    """Write a checkpoint whole or not at all."""
    part = path.with_suffix(".part")
    torch.save(
        {
            "adapter": {name: weight.detach() for name, weight in adapter.items()},
            "optimiser": optimiser.state_dict(),
            "arguments": arguments_of(args),
            "seed": args.seed,
            "steps": args.steps,
            "step": step,
            "tokens_seen": tokens_seen,
        },
        part,
    )
    os.replace(part, path)


if __name__ == "__main__":
    main()
