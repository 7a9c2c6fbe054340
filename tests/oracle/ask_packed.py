"""Asks an older vLLM's own functions how it packs DeepSeek-V4's caches, on a machine without a GPU.

    pip download --no-deps vllm==0.26.0 && unzip -q vllm-0.26.0-*.whl 'vllm/*.py' -d vllm-0.26.0
    venv/bin/python tests/oracle/ask_packed.py vllm-0.26.0 flash

`venv` is that of `ask_vllm.py`: the release's sources go before the installed ones, and of 0.20 to 0.28 import with them. The
layers' specs are those that `models/deepseek_v4` states; groups, blocks, concurrency and the fit check are the release's answers.
"""

import dataclasses, sys
from types import SimpleNamespace

sys.path.insert(0, sys.argv[1])

import torch
import vllm.v1.core.kv_cache_utils as planner
import vllm.v1.kv_cache_interface as interface

LENGTH, BATCH, AVAILABLE = 131_072, 8192, 40_000_000_000
# Tokens of all batches in flight; before 0.26 specs ask the scheduler's configuration for one batch.
IN_FLIGHT = 2 * BATCH
# Layers, those that compress 4 tokens, and those that compress 128.
MODELS = {
    "flash": (43, range(2, 43, 2), range(3, 43, 2)),
    "pro": (61, range(2, 61, 2), [0, 1, *range(3, 61, 2)]),
}


def spec(kind, **fields):
    """A spec with those of the fields that this release has."""
    known = {field.name for field in dataclasses.fields(kind)}
    return kind(num_kv_heads=1, alignment=576, **{name: value for name, value in fields.items() if name in known})


def specs(layers, fours, hundreds):
    entry = {"head_size": 512, "dtype": torch.uint8, "cache_dtype_str": "fp8_ds_mla", "model_version": "deepseek_v4",
             "state_content_bytes": 584}
    full, window = interface.MLAAttentionSpec, interface.SlidingWindowMLASpec
    found = {}
    for layer in range(layers):
        found[f"{layer}.window"] = spec(window, block_size=64, sliding_window=128, **entry)
        ratio = 4 if layer in fours else 128 if layer in hundreds else None
        if ratio is None:
            continue
        ratios = {"compress_ratio": ratio, "tokens_per_state": ratio}
        found[f"{layer}.stream"] = spec(full, block_size=256, **ratios, **entry)
        if ratio == 128:
            waits = [(8, 1024, 128)]
        else:
            waits = [(4, 2048, 8), (4, 512, 8)]
            found[f"{layer}.keys"] = spec(full, block_size=256, head_size=132, dtype=torch.uint8, **ratios)
        for index, (block, width, tokens) in enumerate(waits):
            found[f"{layer}.compressor{index}"] = spec(
                window, block_size=block, head_size=width, dtype=torch.float32, sliding_window=tokens)
    return found


config = SimpleNamespace(
    parallel_config=SimpleNamespace(
        decode_context_parallel_size=1, prefill_context_parallel_size=1, pipeline_parallel_size=1),
    model_config=SimpleNamespace(max_model_len=LENGTH, original_max_model_len=LENGTH),
    scheduler_config=SimpleNamespace(max_num_batched_tokens=BATCH, disable_hybrid_kv_cache_manager=False),
    cache_config=SimpleNamespace(num_gpu_blocks_override=None, cache_dtype="fp8_ds_mla"),
    kv_transfer_config=None, speculative_config=None, num_speculative_tokens=0, max_in_flight_tokens=IN_FLIGHT,
)
groups = planner.get_kv_cache_groups(config, specs(*MODELS[sys.argv[2]]))
for group in groups:
    kept = group.kv_cache_spec
    blocks = -(-kept.max_memory_usage_bytes(config) // kept.page_size_bytes)
    print(f"{len(group.layer_names)} layers, {kept.page_size_bytes} B, {blocks} blocks of a request")
plan = planner.get_kv_cache_config_from_groups(config, groups, AVAILABLE)
concurrency = planner.get_max_concurrency_for_kv_cache_config(config, plan)
print(f"{plan.num_blocks} blocks, {concurrency}x, {int(concurrency * LENGTH)} tokens")
print(f"{planner._max_memory_usage_bytes_from_groups(config, groups)} B needed")
