"""Asks vLLM's own planner for the figures of case rows, on a machine without a GPU.

    python3 -m venv venv && venv/bin/pip install vllm==0.33.0
    venv/bin/python tests/oracle/ask_vllm.py shared/sizing/tests/data/cases/oracle-vllm.jsonl > remade.jsonl

Every row's model class is built on the meta device under a made-up GPU, so layers choose their back ends and state their
caches themselves. Then the engine's own functions plan: `update_block_size_for_backend`, `get_kv_cache_spec`,
`resolve_kv_cache_layout`, `get_global_kv_cache_groups`, `get_kv_cache_configs`, `get_kv_cache_capacity`,
`_max_memory_usage_bytes_from_groups`, `_estimate_max_model_len_from_groups`. Rows come out with the planner's value; what
cannot be asked goes to standard error.
"""

import copy, gc, glob, importlib.util, json, os, subprocess, sys, tempfile
from types import SimpleNamespace

GPUS = {  # name in cases: compute capability, full name, GiB
    "H100-80GB": ((9, 0), "NVIDIA H100 80GB HBM3", 80),
    "B200": ((10, 0), "NVIDIA B200", 180),
    "A100": ((8, 0), "NVIDIA A100-SXM4-80GB", 80),
}
PLANNED = ("max_model_len", "max_num_batched_tokens", "async_scheduling", "available_kv_bytes")
STATE = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
# Class names for text configs whose outer part a case leaves out.
CLASSES = {
    "gemma3_text": "Gemma3ForCausalLM",
    "gemma4_text": "Gemma4ForCausalLM",
    "glm5_next_text": "Glm5NextForCausalLM",
    "kimi_linear": "KimiLinearForCausalLM",
    "llama4_text": "Llama4ForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen3_5_moe_text": "Qwen3_5MoeForCausalLM",
    "qwen3_5_text": "Qwen3_5ForCausalLM",
    "qwen4_exp_text": "Qwen4ExpForCausalLM",
}
# What classes want to know and what changes no cache.
BESIDE_CACHES = {
    "afmoe": {"score_func": "sigmoid", "n_group": 1, "topk_group": 1},
    "glm4_moe_lite": {"first_k_dense_replace": 1},
    "glm5_next_text": {
        "mhc": False, "topk_method": "noaux_tc", "scoring_func": "sigmoid", "first_k_dense_replace": 1, "mla_use_nope": True,
        "indexer_rope_interleave": True,
        "num_experts_per_tok": 8, "moe_intermediate_size": 1024, "n_shared_experts": 1},
    "longcat_flash": {
        "mla_scale_q_lora": True, "mla_scale_kv_lora": True, "zero_expert_type": "identity", "zero_expert_num": 4},
    "kimi_linear": {
        "mla_use_nope": True, "num_experts": 16, "num_experts_per_token": 8, "moe_intermediate_size": 1024,
        "num_shared_experts": 1, "first_k_dense_replace": 1, "moe_layer_freq": 1, "num_expert_group": 1, "topk_group": 1,
        "moe_renormalize": True, "moe_router_activation_func": "sigmoid", "routed_scaling_factor": 2.4,
        "use_grouped_topk": True, "hidden_act": "silu"},
    "lfm2": {"block_dim": 1024, "block_norm_eps": 1e-5, "block_use_swiglu": True},
    "mimo_v2_flash": {"layernorm_epsilon": 1e-5},
    "minimax_m2": {"rotary_dim": 64},
}


def with_driver_stub():
    """Extensions link to the GPU's driver. A library with its symbols, each of which fails, lets them load."""
    if os.environ.get("ORACLE_STUB"):
        return
    where = tempfile.mkdtemp(prefix="oracle-stub-")
    root = os.path.dirname(importlib.util.find_spec("vllm").origin)
    names = {"cuModuleGetFunction", "cuInit", "cuDeviceGet", "cuGetErrorString"}
    for library in glob.glob(f"{root}/**/*.so", recursive=True) + glob.glob(os.path.expanduser("~/.triton/cache/*/*.so")):
        listed = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True).stdout
        symbols = (line.split()[-1].split("@")[0] for line in listed.splitlines() if line.split())
        names |= {name for name in symbols if name.startswith("cu") and name[2:3].isupper()}
    with open(f"{where}/driver.c", "w") as source:
        source.writelines(f"int {name}(void) {{ return 100; }}\n" for name in sorted(names))
    library = f"{where}/libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", library, source.name], check=True)
    os.mkdir(f"{where}/bin")
    for tool in ("nvcc", "ninja"):  # asked for, never run
        with open(f"{where}/bin/{tool}", "w") as script:
            script.write("#!/bin/sh\n")
        os.chmod(script.name, 0o755)
    env = dict(os.environ, ORACLE_STUB=where, LD_LIBRARY_PATH=where, CUDA_HOME=where, HF_HUB_OFFLINE="1",
               PATH=f"{where}/bin:{os.environ['PATH']}", VLLM_LOGGING_LEVEL="ERROR", VLLM_NO_USAGE_STATS="1")
    os.execve(sys.executable, [sys.executable, *sys.argv], env)


class Nothing:
    """Has every attribute, does nothing, and is false."""

    cuda_stream = 0

    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args, **kwargs):
        return self

    def __bool__(self):
        return False

    def __int__(self):
        return 0


def pretend_gpu(name):
    """Makes torch and vLLM believe in the GPU of that name."""
    import torch

    capability, full_name, gib = GPUS[name]
    properties = SimpleNamespace(
        major=capability[0], minor=capability[1], name=full_name, total_memory=gib << 30, multi_processor_count=132,
        shared_memory_per_block_optin=232448, shared_memory_per_block=49152, L2_cache_size=50 << 20, warp_size=32,
        max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536, uuid="none", gcnArchName="")
    always = {
        "is_available": True, "device_count": 64, "get_device_capability": capability, "current_device": 0,
        "get_device_properties": properties, "get_device_name": full_name, "is_initialized": False,
        "synchronize": None, "empty_cache": None, "set_stream": None, "mem_get_info": (gib << 30, gib << 30)}
    for function, answer in always.items():
        setattr(torch.cuda, function, lambda *args, answer=answer, **kwargs: answer)
    torch.cuda.Stream, torch.cuda.Event = type("Stream", (Nothing,), {}), type("Event", (Nothing,), {})
    torch.cuda.current_stream = lambda *args, **kwargs: torch.cuda.Stream()
    answers = {"current_device_index": 0, "device_count": 64, "is_available": True, "empty_cache": None,
               "synchronize": None, "current_accelerator": torch.device("cuda")}
    for function, answer in answers.items():
        setattr(torch.accelerator, function, lambda *args, answer=answer, **kwargs: answer)

    import vllm.platforms as platforms, vllm.platforms.cuda as cuda
    from vllm.platforms.interface import DeviceCapability

    answers = {
        "get_device_capability": DeviceCapability(*capability), "get_device_name": full_name,
        "get_device_total_memory": gib << 30, "get_device_uuid": "none", "is_fully_connected": True, "device_count": 64,
        "num_compute_units": 132, "get_device_numa_node": None, "get_all_device_numa_nodes": None}
    methods = {key: classmethod(lambda cls, *args, answer=answer, **kwargs: answer) for key, answer in answers.items()}
    cuda.CudaPlatform = type("PretendedCudaPlatform", (cuda.CudaPlatformBase,), {"device_name": "cuda", **methods})
    platforms._current_platform = cuda.CudaPlatform()


def leave_out_what_keeps_no_cache():
    """Experts take long to build and keep nothing; workspaces and class inspection want a device or a process."""
    import torch
    import vllm.model_executor.layers.fused_moe as moe, vllm.model_executor.layers.fused_moe.layer as layer
    import vllm.model_executor.models.registry as registry
    import vllm.v1.worker.workspace as workspace

    class Experts(torch.nn.Module):
        def __init__(self, *args, **kwargs):
            super().__init__()

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                if name.startswith("__"):
                    raise
                return Nothing()

    for module in (moe, layer):
        for name in ("FusedMoE", "FusedMoEFactory", "SharedFusedMoE"):
            if callable(getattr(module, name, None)):
                setattr(module, name, type(name, (Experts,), {}))
    workspace._manager = Nothing()
    registry._run_in_subprocess = lambda function: function()
    registry._LazyRegisteredModel._load_modelinfo_from_cache = lambda *args, **kwargs: None
    registry._LazyRegisteredModel._save_modelinfo_to_cache = lambda *args, **kwargs: None


def on_meta():
    """Every tensor on the meta device, whatever device the code names."""
    import torch

    class OnMeta(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs, name = dict(kwargs or {}), getattr(function, "__name__", "")
            if "device" in kwargs:
                kwargs["device"] = torch.device("meta")
            if name == "to" and len(args) > 1 and isinstance(args[1], (str, torch.device)):
                args = (args[0], torch.device("meta"), *args[2:])
            return args[0] if name in ("cuda", "pin_memory") else function(*args, **kwargs)

    return OnMeta()


class Ranks:
    """A process group by its size and a place in it."""

    def __init__(self, size, rank=0):
        import torch

        self.world_size, self.rank_in_group, self.rank, self.local_rank = size, rank, rank, 0
        self.ranks, self.device = list(range(size)), torch.device("meta")
        self.is_first_rank, self.is_last_rank, self.first_rank, self.last_rank = rank == 0, rank == size - 1, 0, size - 1
        self.next_rank, self.prev_rank = (rank + 1) % size, (rank - 1) % size
        self.device_group = self.cpu_group = SimpleNamespace(size=lambda: size, rank=lambda: 0)
        self.use_device_communicator, self.device_communicator, self.mq_broadcaster = False, None, None
        self.unique_name = "pretended"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


def set_ranks(tp, pp, pp_rank, dcp):
    import torch, vllm.distributed.parallel_state as state, vllm.v1.attention.ops.cp_common as cp

    state._WORLD, state._TP, state._PP = Ranks(tp * pp, pp_rank * tp), Ranks(tp), Ranks(pp, pp_rank)
    state._DCP, state._ETP = Ranks(dcp), Ranks(tp)
    state._DP = state._EP = state._PCP = state._EPLB = Ranks(1)
    state.model_parallel_is_initialized = lambda: True
    state.in_the_same_node_as = cp.in_the_same_node_as = lambda group, source_rank=0: [False] * group.size()
    torch.distributed.is_initialized = lambda: True
    torch.distributed.get_rank = lambda *args, **kwargs: 0
    torch.distributed.get_world_size = lambda *args, **kwargs: tp * pp


def loadable(config):
    """The row's config with what the class needs besides."""
    config = copy.deepcopy(config)
    text = config.get("text_config")
    if isinstance(text, dict) and text.get("model_type") in CLASSES:
        outer = {key: config[key] for key in ("dtype", "torch_dtype") if key in config}
        config = {**outer, **text, "architectures": [CLASSES[text["model_type"]]]}
    for key in ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"):
        if isinstance(config.get(key), int):
            config[key] = min(config[key], 16)
    lengths = ("max_position_embeddings", "max_target_positions", "seq_length", "n_positions", "max_seq_len")
    if not any(key in config for key in lengths):
        config["max_position_embeddings"] = 1 << 20
    if not config.get("model_type", "").startswith(("gemma", "qwen4", "deepseek_v4")):
        config.pop("rope_scaling", None)  # reduced in the rows, and of no weight for caches
    if "kv_lora_rank" in config:
        config = {"n_group": 1, "topk_group": 1, **config}
    return {**BESIDE_CACHES.get(config.get("model_type"), {}), **config}


def engine_config(config, settings):
    from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig
    from vllm.engine.arg_utils import EngineArgs
    from vllm.transformers_utils.config import _CONFIG_REGISTRY

    name = config.get("model_type")
    if name and name not in CONFIG_MAPPING and name not in _CONFIG_REGISTRY:
        AutoConfig.register(name, type(f"Any{name}", (PreTrainedConfig,), {"model_type": name}))
    kv = settings.get("kv_dtype", "auto")
    args = {"kv_cache_dtype": "auto" if kv == "bf16" else kv, "load_format": "dummy", "skip_tokenizer_init": True,
            "enable_chunked_prefill": True, "max_num_seqs": 256,
            "tensor_parallel_size": settings.get("tp", 1), "pipeline_parallel_size": settings.get("pp", 1),
            "decode_context_parallel_size": settings.get("dcp", 1)}
    same = {"max_model_len": "max_model_len", "max_num_batched_tokens": "max_num_batched_tokens",
            "async_scheduling": "async_scheduling", "prefix_caching": "enable_prefix_caching", "block_size": "block_size"}
    args |= {flag: settings[key] for key, flag in same.items() if key in settings}
    if "hybrid_manager" in settings:
        args["disable_hybrid_kv_cache_manager"] = not settings["hybrid_manager"]
    for key, flag in (("state_dtype", "mamba_ssm_cache_dtype"), ("conv_dtype", "mamba_cache_dtype")):
        if key in settings:
            args[flag] = STATE[settings[key]]
    if "gdn_prefill_backend" in settings:
        args["additional_config"] = {"gdn_prefill_backend": settings["gdn_prefill_backend"]}
    if drafts := settings.get("num_speculative_tokens"):
        method = {"method": "mtp"} if settings.get("draft_layers") else {"method": "ngram", "prompt_lookup_max": 4}
        args["speculative_config"] = {**method, "num_speculative_tokens": drafts}
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/config.json", "w") as file:
            json.dump(config, file)
        return EngineArgs(model=folder, **args).create_engine_config()


def layer_specs(vllm_config, settings):
    """The caches of every pipeline rank's layers, and the layouts that their back ends take."""
    import torch
    from vllm.compilation.backends import set_model_tag
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.platforms import current_platform
    from vllm.utils.torch_utils import set_default_torch_dtype
    from vllm.v1.attention.backends.utils import get_supported_kv_cache_layouts
    from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec
    from vllm.v1.worker.worker_base import get_current_attn_backends

    tp, pp, dcp = settings.get("tp", 1), settings.get("pp", 1), settings.get("dcp", 1)
    block, dtype, specs, layouts = vllm_config.cache_config.block_size, vllm_config.model_config.dtype, [], []
    for rank in range(pp):
        set_ranks(tp, pp, rank, dcp)
        vllm_config.compilation_config.static_forward_context.clear()
        vllm_config.cache_config.block_size = block
        with set_default_torch_dtype(dtype), torch.device("meta"), on_meta(), set_current_vllm_config(vllm_config):
            model = initialize_model(vllm_config=vllm_config, model_config=vllm_config.model_config)
            if settings.get("draft_layers") and rank == pp - 1:
                draft = vllm_config.speculative_config.draft_model_config
                with set_model_tag("eagle_head"):
                    initialize_model(vllm_config=vllm_config, model_config=draft)
        with set_current_vllm_config(vllm_config):
            current_platform.update_block_size_for_backend(vllm_config)
            specs.append(get_kv_cache_spec(vllm_config))
            backends = get_current_attn_backends(vllm_config)
            layouts.append([layout.name for layout in get_supported_kv_cache_layouts(backends)])
        del model
        gc.collect()
    return specs, layouts


def build(config, settings):
    from vllm.v1.attention.backends.utils import resolve_kv_cache_layout
    from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs

    set_ranks(settings.get("tp", 1), settings.get("pp", 1), 0, settings.get("dcp", 1))
    vllm_config = engine_config(loadable(config), settings)
    register_all_kvcache_specs(vllm_config)
    specs, layouts = layer_specs(vllm_config, settings)
    resolve_kv_cache_layout(vllm_config, layouts, [spec for rank in specs for spec in rank.values()])
    return vllm_config, specs


def answers(vllm_config, specs, settings):
    """The planner's figures for one pool and one longest request."""
    from vllm.v1.core import kv_cache_planning as planning, kv_cache_utils as utils
    from vllm.v1.core.kv_cache_config_builder import get_kv_cache_config_builder
    from vllm.v1.kv_cache_interface import MambaSpec, iter_layer_specs

    scheduler = vllm_config.scheduler_config
    vllm_config.model_config.max_model_len = settings["max_model_len"]
    if tokens := settings.get("max_num_batched_tokens"):
        scheduler.max_num_batched_tokens = scheduler.max_num_encoder_input_tokens = tokens
    scheduler.async_scheduling = settings.get("async_scheduling", scheduler.async_scheduling)
    available, specs = settings["available_kv_bytes"], [dict(rank) for rank in specs]
    whole = planning.get_global_kv_cache_groups(vllm_config, specs)
    builder = get_kv_cache_config_builder(vllm_config)
    ranks = [groups for groups in (planning._project_kv_cache_groups_to_worker(whole, rank) for rank in specs) if groups]
    held = [-(-group.kv_cache_spec.max_memory_usage_bytes(vllm_config) // group.kv_cache_spec.page_size_bytes)
            for group in whole]
    states = [any(isinstance(spec, MambaSpec) for spec in iter_layer_specs(group.kv_cache_spec)) for group in whole]
    found = {"attention_block_size": vllm_config.cache_config.block_size,
             "state_blocks_per_request": sum(blocks for blocks, state in zip(held, states) if state)}
    if ranks:
        found["needed_bytes_one_request"] = max(
            planning._max_memory_usage_bytes_from_groups(builder, vllm_config, groups) for groups in ranks)
        found["estimated_max_model_len"] = min(
            planning._estimate_max_model_len_from_groups(
                builder, vllm_config, groups,
                available - planning._pool_bytes_per_block_from_builder(builder, vllm_config, groups))
            for groups in ranks)
    try:
        configs = planning.get_kv_cache_configs(vllm_config, specs, [available] * len(specs), whole)
    except ValueError:  # one request does not fit
        return found
    planned = utils.generate_scheduler_kv_cache_config(configs)
    found["num_blocks"] = planned.num_blocks
    if whole:
        found["logged_kv_tokens"], found["max_concurrency"] = utils.get_kv_cache_capacity(vllm_config, planned)
    return found


def main():
    with open(sys.argv[1]) as file:
        rows = [json.loads(line) for line in file if line.strip()]
    gpus = sys.argv[2:] or sorted({row["settings"]["gpu"] for row in rows})
    for other in gpus[1:]:  # vLLM remembers its GPU, so every other one has a process of its own
        subprocess.run([sys.executable, *sys.argv[:2], other], check=True)
    gpu = gpus[0]
    pretend_gpu(gpu)
    leave_out_what_keeps_no_cache()
    known = (None, None)
    for row in (row for row in rows if row["settings"]["gpu"] == gpu):
        settings = row["settings"]
        key = json.dumps([row["config"], {key: settings[key] for key in sorted(settings) if key not in PLANNED}])
        try:
            if known[0] != key:
                known = (key, build(row["config"], settings))
            row["value"] = answers(*known[1], settings)[row["quantity"]]
            print(json.dumps(row), flush=True)
        except Exception as error:
            known = (None, None)
            print(f"{row['id']}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)


if __name__ == "__main__":
    with_driver_stub()
    main()
