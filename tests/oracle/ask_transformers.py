"""Asks transformers what its own caches hold, one row of a case file a class.

    pip install transformers==5.20.2 torch
    python ask_transformers.py > answers.jsonl

Every class that decodes is made from its configuration's defaults on the meta device, in bfloat16, so neither weights nor a GPU are
needed. One forward pass of 48 and one of 5,000 tokens fill the cache; a row's value is the bytes of every tensor of two dimensions
or more that the cache then holds. Decoders beside an encoder get 100 tokens of its output. Classes whose code needs values (a
routing by content, pictures) fail on the meta device and are left out, with the reason on standard error.
"""

import json
import sys

import torch
import transformers
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.auto import configuration_auto, modeling_auto

LENGTHS = (48, 5000)
ENCODER_TOKENS = 100
OTHER_PARTS = ("audio_config", "vision_config", "encoder_config", "encoder", "id2label", "label2id")
SPEECH = modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES
PAIRS = {**SPEECH, **modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES}
ALONE = {
    **modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    **modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
}


def tensors(held, seen, found):
    """Collects the tensors of a cache, whatever its classes nest them in."""
    if held is None or id(held) in seen:
        return
    seen.add(id(held))
    if isinstance(held, torch.Tensor):
        if held.dim() >= 2:
            found.append(held)
    elif isinstance(held, dict):
        for value in held.values():
            tensors(value, seen, found)
    elif isinstance(held, (list, tuple)):
        for value in held:
            tensors(value, seen, found)
    elif hasattr(held, "__dict__"):
        tensors(vars(held), seen, found)


def inputs(name, config, is_pair, length):
    tokens = torch.zeros(1, length, dtype=torch.long)
    if not is_pair:
        return {"input_ids": tokens}
    if name not in SPEECH:
        return {"decoder_input_ids": tokens, "input_ids": tokens[:, :1].expand(1, ENCODER_TOKENS)}
    width = getattr(config, "d_model", None) or config.hidden_size
    output = BaseModelOutput(last_hidden_state=torch.zeros(1, ENCODER_TOKENS, width, dtype=torch.bfloat16))
    object.__setattr__(output, "attention_mask", None)
    return {"decoder_input_ids": tokens, "encoder_outputs": output}


def held_bytes(name, config, is_pair):
    names = PAIRS[name] if is_pair else ALONE[name]
    kind = getattr(transformers, names if isinstance(names, str) else names[0])
    with torch.device("meta"):
        model = kind._from_config(config, dtype=torch.bfloat16).eval()
    held = {}
    for length in LENGTHS:
        with torch.device("meta"), torch.no_grad():
            output = model(**inputs(name, config, is_pair, length), use_cache=True)
        cache = getattr(output, "past_key_values", None)
        found = []
        tensors(cache if cache is not None else getattr(output, "cache_params", None), set(), found)
        held[length] = sum(tensor.numel() * tensor.element_size() for tensor in found)
    return held


def main():
    for name, kind in configuration_auto.CONFIG_MAPPING.items():
        is_pair = name in PAIRS and name not in ALONE
        if not is_pair and name not in ALONE:
            continue
        try:
            config = kind()
            held = held_bytes(name, config, is_pair)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        stated = {key: value for key, value in json.loads(config.to_json_string()).items() if key not in OTHER_PARTS}
        stated.update(dtype="bfloat16", model_type=name)
        for length, value in held.items():
            settings = {"context": length}
            if is_pair:
                settings["encoder_tokens"] = ENCODER_TOKENS
            row = {
                "id": f"cfg-{name.replace('_', '-').lower()}-{length}",
                "evidence": "run",
                "title": f"{name}: what its cache holds after {length:,} tokens",
                "url": "transformers 5.20.2, tests/oracle/ask_transformers.py",
                "why": "Bytes of every tensor of the cache that the class itself fills",
                "config": stated,
                "engine": "transformers@5.20",
                "settings": settings,
                "quantity": "resident_bytes",
                "value": value,
                "unit": "B",
                "rel_tol": 0,
                "derivation": "sum over the cache's tensors of numel × element size",
            }
            print(json.dumps(row), flush=True)


main()
