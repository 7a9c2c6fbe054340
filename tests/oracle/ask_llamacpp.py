"""Asks llama.cpp what its caches hold, for the configs and settings of a case file.

    pip install xllamacpp==2026.10.11549 transformers==5.20.2 torch
    pip download --no-deps --no-binary :all: xllamacpp==2026.10.11549 && tar xzf xllamacpp-*.tar.gz
    python ask_llamacpp.py xllamacpp-*/thirdparty/llama.cpp oracle-llamacpp.jsonl > remade.jsonl

llama.cpp's own converter turns each config into GGUF metadata (no tensors, no tokenizer), `llama_model_init_from_user` makes the model of
it with `no_alloc`, and `llama_init_from_model` prints its caches, without a GPU and without memory for weights or caches. A row's
value is the sum of the printed sizes of its kind, its tolerance the rounding of the print. Fields that the converter or the loader
wants and that change no cache are filled in below.
"""

import ctypes
import json
import os
import pathlib
import re
import sys
import tempfile
from ctypes import CFUNCTYPE, POINTER, Structure, c_bool, c_char_p, c_float, c_int32, c_size_t, c_uint32, c_void_p

import xllamacpp

LIBRARY = pathlib.Path(xllamacpp.__file__).parent / "xllamacpp.abi3.so"
TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20, "bf16": 30}
# Of a config whose fields were left out since no cache depends on them.
USUAL = {"rms_norm_eps": 1e-6, "layer_norm_eps": 1e-5, "norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu"}
OF_EXPERTS = {
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "routed_scaling_factor": 1.0,
    "norm_topk_prob": True,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "moe_intermediate_size": 512,
    "scoring_func": "sigmoid",
}


class ModelParams(Structure):
    """`llama_model_params` of include/llama.h."""

    _fields_ = [
        ("devices", c_void_p),
        ("tensor_buft_overrides", c_void_p),
        ("n_gpu_layers", c_int32),
        ("split_mode", c_int32),
        ("load_mode", c_int32),
        ("lazy_mode", c_int32),
        ("main_gpu", c_int32),
        ("tensor_split", c_void_p),
        ("progress_callback", c_void_p),
        ("progress_callback_user_data", c_void_p),
        ("kv_overrides", c_void_p),
        ("vocab_only", c_bool),
        ("check_tensors", c_bool),
        ("use_extra_bufts", c_bool),
        ("no_host", c_bool),
        ("no_alloc", c_bool),
        ("load_mtp", c_bool),
    ]


class ContextParams(Structure):
    """`llama_context_params` of include/llama.h."""

    _fields_ = [
        *((name, c_uint32) for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_rs_seq", "n_outputs_max", "n_outputs_max_per_seq")),
        *((name, c_int32) for name in ("n_threads", "n_threads_batch", "ctx_type", "rope_scaling_type", "pooling_type", "attention_type", "flash_attn_type")),
        *((name, c_float) for name in ("rope_freq_base", "rope_freq_scale", "yarn_ext_factor", "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow")),
        ("yarn_orig_ctx", c_uint32),
        ("defrag_thold", c_float),
        ("cb_eval", c_void_p),
        ("cb_eval_user_data", c_void_p),
        ("type_k", c_int32),
        ("type_v", c_int32),
        ("moe_cache_size", c_size_t),
        ("abort_callback", c_void_p),
        ("abort_callback_data", c_void_p),
        *((name, c_bool) for name in ("embeddings", "offload_kqv", "no_perf", "op_offload", "swa_full", "kv_unified")),
        ("samplers", c_void_p),
        ("n_samplers", c_size_t),
        ("ctx_other", c_void_p),
    ]


class GgufParams(Structure):
    """`gguf_init_params` of ggml/include/gguf.h."""

    _fields_ = [("no_alloc", c_bool), ("ctx", c_void_p)]


class Llama:
    """The library, with what it has printed since it was last asked."""

    def __init__(self):
        self.library = ctypes.CDLL(str(LIBRARY))
        self.printed = []
        self.on_log = CFUNCTYPE(None, c_int32, c_char_p, c_void_p)(lambda _level, text, _: self.printed.append(text.decode("utf-8", "replace")))
        self.on_tensor = CFUNCTYPE(None, c_void_p, c_void_p)(lambda _tensor, _: None)
        for name, result, arguments in [
            ("llama_model_default_params", ModelParams, []),
            ("llama_context_default_params", ContextParams, []),
            ("gguf_init_from_file", c_void_p, [c_char_p, GgufParams]),
            ("llama_model_init_from_user", c_void_p, [c_void_p, c_void_p, c_void_p, ModelParams]),
            ("llama_init_from_model", c_void_p, [c_void_p, ContextParams]),
            ("llama_free", None, [c_void_p]),
            ("llama_model_free", None, [c_void_p]),
        ]:
            function = getattr(self.library, name)
            function.restype, function.argtypes = result, arguments
        self.library.llama_backend_init()
        self.library.llama_log_set(self.on_log, None)

    def take(self):
        """What was printed, line by line."""
        lines, self.printed = "".join(self.printed).split("\n"), []
        return lines

    def model(self, path):
        """A model of metadata alone; none where the loader wants a key that is not there, which is named."""
        metadata = self.library.gguf_init_from_file(str(path).encode(), GgufParams(True, None))
        params = self.library.llama_model_default_params()
        params.no_alloc, params.use_extra_bufts, params.n_gpu_layers, params.load_mtp = True, False, 0, True
        model = self.library.llama_model_init_from_user(metadata, ctypes.cast(self.on_tensor, c_void_p), None, params)
        return model, self.take()

    def caches(self, model, settings):
        """The lines about the caches of one context."""
        params = self.library.llama_context_default_params()
        for name in ("n_ctx", "n_seq_max", "n_ubatch", "kv_unified", "swa_full"):
            setattr(params, name, settings[name])
        params.n_batch = max(params.n_batch, params.n_ubatch)
        both = settings.get("kv_dtype", "f16")
        params.type_k, params.type_v = TYPES[settings.get("k_dtype", both)], TYPES[settings.get("v_dtype", both)]
        context = self.library.llama_init_from_model(model, params)
        lines = self.take()
        if not context:
            raise RuntimeError("; ".join(line for line in lines if "error" in line) or "no context")
        self.library.llama_free(context)
        return lines


class Converter:
    """llama.cpp's own, on configs in place of checkpoints."""

    def __init__(self, source):
        sys.path[:0] = [str(source / "gguf-py"), str(source)]
        import conversion
        import gguf
        from conversion import base

        self.conversion, self.base, self.gguf = conversion, base, gguf
        # A config is read as it was published: transformers 5 renames kinds of layers that the converter knows by their old names.
        base.AutoConfig.from_pretrained = self.nothing

    @staticmethod
    def nothing(*_, **__):
        """What the converter takes for a config that transformers does not know."""
        raise ValueError("read from the file")

    def write(self, config, path, keys):
        """The metadata of a config as a file without tensors."""
        folder = path.with_suffix(".folder")
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config))
        hparams = self.base.ModelBase.load_hparams(folder, False)
        kind = self.conversion.ModelType.TEXT
        model = self.conversion.get_model_class(self.base.get_model_architecture(hparams, kind))
        model.index_tensors = lambda _self, remote_hf_model_id=None: {}
        converted = model(folder, self.gguf.LlamaFileType.MOSTLY_F16, path, eager=True, hparams=hparams)
        converted.set_gguf_parameters()
        writer = converted.gguf_writer
        known = writer.kv_data[0]
        if "tokenizer.ggml.model" not in known:
            writer.add_tokenizer_model("none")
        if f"{writer.arch}.vocab_size" not in known:
            writer.add_vocab_size(hparams.get("vocab_size") or 1000)
        for key, add in keys.items():
            if key not in known:
                add(writer, key)
        writer.write_header_to_file(path)
        writer.write_kv_data_to_file()
        writer.close()


def filled(config):
    """A config with what the converter wants of experts and the loader of draft layers."""
    config = json.loads(json.dumps(config))
    text = config["text_config"] if isinstance(config.get("text_config"), dict) else config
    if any("expert" in name and isinstance(value, int) and value > 1 for name, value in text.items()):
        for name, value in OF_EXPERTS.items():
            if text.get(name) is None:
                text[name] = value
    kind = str(text.get("model_type"))
    if "deepseek_v4" in kind:
        text.update(scoring_func="sqrtsoftplus", num_hash_layers=0, swiglu_limit=text.get("swiglu_limit", 10.0))
    if kind.startswith(("qwen3_5", "qwen3_next", "qwen4")):
        text["mtp_num_hidden_layers"] = 1
    return config, text


def model_of(llama, converter, config, path):
    """The model, after as many tries as fields were missing."""
    config, text = filled(config)
    keys = {}
    for _ in range(40):
        try:
            converter.write(config, path, keys)
        except KeyError as missing:
            name = str(missing.args[0])
            head = text["hidden_size"] // text["num_attention_heads"] if name == "head_dim" else None
            config[name] = text[name] = head or USUAL.get(name, 1)
            continue
        model, lines = llama.model(path)
        if model:
            return model
        printed = "\n".join(lines)
        if missing := re.search(r"key not found in model: (\S+)", printed):
            keys[missing[1]] = lambda writer, key: writer.add_uint32(key, 1)
        elif wrong := re.search(r"key (\S+) has wrong type \S+ but expected type (\S+)", printed):
            is_float = "f32" in wrong[2]
            keys[wrong[1]] = lambda writer, key, is_float=is_float: (writer.add_float32(key, 1.0) if is_float else writer.add_bool(key, True))
        else:
            raise RuntimeError(next((line for line in lines if "error" in line), "no model"))
    raise RuntimeError("fields are missing without end")


def sums(lines):
    """MiB and lines of each kind of cache, by the line that announces it."""
    kind, found = "kv", {}
    for line in lines:
        if "creating" in line and "cache" in line:
            of_window = "SWA KV cache" in line and "non-SWA" not in line
            kind = "window" if of_window else "index" if "indexer" in line else "kv"
        state = re.search(r"(llama_memory_recurrent: size =|llama_dsv4_comp_state: .*ratio = .* size =)\s*([\d.]+) MiB", line)
        cache = re.search(r"(llama_kv_cache: size =)\s*([\d.]+) MiB", line)
        for match, of in ((state, "state"), (cache, kind)):
            if match:
                total, count = found.get(f"{of}_bytes", (0.0, 0))
                found[f"{of}_bytes"] = (total + float(match[2]), count + 1)
    return found


def answer(llama, converter, row):
    """Prints the row with what llama.cpp says."""
    with tempfile.TemporaryDirectory() as folder:
        model = model_of(llama, converter, row["config"], pathlib.Path(folder) / "model.gguf")
        lines = llama.caches(model, row["settings"])
    mebibytes, count = sums(lines).get(row["quantity"], (0.0, 0))
    row["value"] = mebibytes * 2**20
    row["rel_tol"] = 0.0051 * count / mebibytes + 1e-9 if mebibytes else 0
    row["derivation"] = "; ".join(line.strip() for line in lines if "size =" in line and ("cells" in line or "ratio" in line) and "creating" not in line)
    print(json.dumps(row, ensure_ascii=False), flush=True)


def main(source, cases):
    llama, converter = Llama(), Converter(pathlib.Path(source))
    for text in pathlib.Path(cases).read_text().splitlines():
        row = json.loads(text)
        # The library ends its process where it meets what it did not expect.
        child = os.fork()
        if child == 0:
            try:
                answer(llama, converter, row)
            except Exception as error:
                print(f"{row['id']}: {error!r}", file=sys.stderr, flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            print(f"{row['id']}: ended by {status}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
