"""Every kind of causal model that transformers has, with small random weights: does it score correctly, and how is it run?

    python benchmarks/architectures.py --page docs/architectures.md   # all kinds, a minute or two
    python benchmarks/architectures.py mamba rwkv                     # some of them

A network is built from its configuration, made small; its weights are random, and large enough for distributions that are
far from uniform. Its scores are compared with the softmax, in float64, of the logits that the bare network returns for
each text alone. The table says what the self-checks decided, and the largest deviation in nats.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

import wordprob
from wordprob.core.atoms import atoms_of
from wordprob.core.words import define
from wordprob.errors import WordprobError, first_line
from wordprob.models.protocol import PrefixStates, Request

END = "<|endoftext|>"
TEXTS = (
    "She saw the mark. It's the marker's?",
    "Yes.",
    "A longer text, so that the batch is padded: the quick brown fox jumps over the lazy dog.",
)
COLUMNS = ("model_type", "class", "result", "head", "padding", "shared_contexts", "deviation_nats")

SIZES = {
    # width
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "word_embed_proj_dim", "embedding_size"), 32),
    **dict.fromkeys(("attention_hidden_size", "lru_width"), 32),
    **dict.fromkeys(("intermediate_size", "n_inner", "ffn_dim", "dff", "d_ff", "d_inner", "ffn_hidden_size"), 64),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 64),
    # depth
    **dict.fromkeys(("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers", "decoder_layers"), 2),
    # attention
    **dict.fromkeys(("num_attention_heads", "n_head", "num_heads", "n_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("head_dim", "d_kv", "v_head_dim"), 8),
    "num_key_value_heads": 2,
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim"), 4),
    # mixtures of experts
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 32),
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    # state spaces
    **dict.fromkeys(("state_size", "mamba_d_state"), 8),
    **dict.fromkeys(("expand",), 2),
    "n_groups": 1,
    # context
    **dict.fromkeys(("max_position_embeddings", "n_positions"), 256),
}
"""Small sizes, by the names that configurations have for them."""

LINEAR_ATTENTION = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
SMALL_MAMBA_HEADS = {"mamba_n_heads": 8, "mamba_d_head": 8}

SETTINGS: dict[str, dict[str, object]] = {
    "bamba": {**SMALL_MAMBA_HEADS, "attn_layer_indices": [1]},
    "codegen": {"rotary_dim": 4},
    "deepseek_v3": {"head_dim": 4, "num_key_value_heads": 4, "n_group": 1, "topk_group": 1},
    "falcon": {"head_dim": None},
    "gemma3n_text": {
        "layer_types": ["sliding_attention", "full_attention"],
        "num_kv_shared_layers": 0,
        "hidden_size_per_layer_input": 8,
        "vocab_size_per_layer_input": 257,
        "laurel_rank": 4,
        "activation_sparsity_pattern": [0.0, 0.0],
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "gptj": {"rotary_dim": 4},
    "granitemoehybrid": {**SMALL_MAMBA_HEADS, "layer_types": ["mamba", "attention"]},
    "jamba": {
        **{"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1},
        "mamba_dt_rank": 4,
    },
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "mamba2": {"num_heads": 8},
    "qwen3_5_text": LINEAR_ATTENTION,
    "qwen3_next": LINEAR_ATTENTION,
    "reformer": {"axial_pos_embds": False, "attn_layers": ["local", "lsh"]},
    "xlm": {"causal": True},
    "xlnet": {"max_position_embeddings": None, "n_positions": None},
    "xlstm": {"head_dim": None, "v_head_dim": None},
    "zamba": {
        "num_hidden_layers": 4,
        "layer_types": ["mamba", "hybrid", "mamba", "hybrid"],
        **{"attention_hidden_size": 64, "attention_head_dim": 16, "n_mamba_heads": 2},
    },
    "zamba2": {
        "num_hidden_layers": 4,
        "layer_types": ["mamba", "hybrid", "mamba", "hybrid"],
        **{"attention_hidden_size": 64, "attention_head_dim": 16, "hybrid_layer_ids": [1, 3]},
        **{"n_mamba_heads": 8, "mamba_headdim": 8, "mamba_ngroups": 1},
    },
}
"""What some kinds need besides; ``None`` leaves a size as it is."""

MAX_PARAMETERS = 3_000_000
"""Networks that stay larger than this are left out: one of their sizes has a name that is not known here."""

WEIGHT_FACTOR = 3.0
"""What random weights are multiplied with."""


def kinds() -> list[str]:
    """Return every kind of causal model that transformers has."""
    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def byte_tokenizer() -> transformers.PreTrainedTokenizerFast:
    """Return a tokenizer with a token for every byte, and one for the end of a text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({token: i for i, token in enumerate([END, *alphabet])}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=END, eos_token=END)


def build(kind: str, vocab_size: int = 257) -> torch.nn.Module:
    """Return a small network of a kind; raise what transformers raises if it cannot be made small in this way."""
    config_class = CONFIG_MAPPING[kind]
    default = config_class()
    sizes = {name: size for name, size in SIZES.items() if _has(default, name)}
    settings = {**sizes, **SETTINGS.get(kind, {}), "vocab_size": vocab_size}
    settings = {name: value for name, value in settings.items() if value is not None}
    config = config_class(**settings, bos_token_id=0, eos_token_id=0, pad_token_id=0)
    if hasattr(config, "is_decoder"):
        config.is_decoder = True  # BERT and the like predict the next token only then
    with torch.device("meta"):
        parameters = sum(p.numel() for p in transformers.AutoModelForCausalLM.from_config(config).parameters())
    if parameters > MAX_PARAMETERS:
        raise ValueError(f"{parameters:,} parameters, which is too many to try it here")
    torch.manual_seed(0)
    network = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if parameter.dim() > 1 and "conv" not in name and "A_log" not in name:
                parameter.mul_(WEIGHT_FACTOR)
    network.eval()
    with torch.inference_mode():
        network(input_ids=torch.arange(3, 9)[None], use_cache=False)
    return network


def _has(config: object, name: str) -> bool:
    try:
        return hasattr(config, name)
    except Exception:  # some sizes differ from layer to layer
        return False


def deviation(scorer: wordprob.Scorer, network: torch.nn.Module) -> float:
    """Return how far scores are from the softmax of the bare network's logits, in float64: the largest difference.

    Texts are scored together, one by one, and from the middle on, after contexts that are run once.
    """
    model = scorer.model
    vocabulary = model.tokenizer.vocabulary
    atoms = atoms_of(vocabulary, define("whitespace"), model.vocab_size)
    sequences = [np.array([*vocabulary.start_ids, *tokens.ids]) for tokens in model.tokenizer.encode(TEXTS)]
    expected = [_log_probs(network, ids) for ids in sequences]
    requests = [Request(ids) for ids in sequences]
    differences = [0.0]
    for number, scores in [*model.score(requests, atoms), *((0, s) for _, s in model.score(requests[:1], atoms))]:
        ids, log_probs = sequences[number], expected[number]
        differences.append(np.abs(scores.target - log_probs[np.arange(len(ids) - 1), ids[1:]]).max())
        for atom in range(len(atoms.labels)):
            members = np.flatnonzero(atoms.atom_of_token == atom)
            if len(members):
                mass = np.logaddexp.reduce(log_probs[:, members], axis=1)
                differences.append(np.abs(scores.mass[:, atom] - mass).max())
    halves = [Request(ids, first=len(ids) // 2) for ids in sequences for _ in range(2)]
    for number, scores in model.open(halves, atoms, PrefixStates()):
        ids, log_probs = sequences[number // 2], expected[number // 2]
        first = halves[number].first
        rows = np.arange(first, len(ids) - 1)
        differences.append(np.abs(scores.target - log_probs[rows, ids[rows + 1]]).max(initial=0.0))
    return float(np.max(differences))


def _log_probs(network: torch.nn.Module, ids: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        logits = network(input_ids=torch.from_numpy(ids)[None], use_cache=False).logits[0].double()
    return torch.log_softmax(logits, dim=-1).numpy()


def try_kind(kind: str, tokenizer: transformers.PreTrainedTokenizerFast) -> dict[str, str]:
    """Return the row of a kind in the table."""
    row = dict.fromkeys(COLUMNS, "") | {"model_type": kind}
    try:
        network = build(kind)
    except Exception as error:  # a configuration that needs other sizes may raise anything
        return row | {"result": f"not built: {first_line(error)}"}
    row["class"] = type(network).__name__
    try:
        scorer = wordprob.load(network, tokenizer)
        found = deviation(scorer, network)
    except WordprobError as error:
        return row | {"result": f"refused: {first_line(error)}"}
    except Exception as error:  # a fault of ours or of the network: the table shows it
        return row | {"result": f"FAILED: {type(error).__name__}: {first_line(error)}"}
    shortcuts = scorer.model.shortcuts
    return row | {
        "result": "works",
        "head": shortcuts["head"],
        "padding": shortcuts["padding"].partition(":")[0],
        "shared_contexts": shortcuts["shared contexts"],
        "deviation_nats": f"{found:.1e}",
    }


def page(rows: list[dict[str, str]]) -> str:
    """Return the page of the documentation that shows the table."""
    works = [row for row in rows if row["result"] == "works"]
    refused = [row for row in rows if row["result"].startswith(("refused", "FAILED"))]
    left_out = [row for row in rows if row["result"].startswith("not built")]
    largest = max(float(row["deviation_nats"]) for row in works)
    lines = [
        "# Architectures that were tried",
        "",
        f"These are all kinds of causal models in transformers {transformers.__version__}, each built from its configuration, with small random weights.",
        "`python benchmarks/architectures.py --page docs/architectures.md` makes this page. The scores of three texts, together, one by one, and from a context on,",
        "were compared with the softmax, in float64, of the logits that the bare network returns for each text alone.",
        f"**{len(works)} kinds work**; the largest difference of a log-probability is {largest:.1e} nats.",
        "",
        "No list of models is behind this. When a model is opened, it is tried on a few tokens, and each shortcut is used only if it gives what the plain way gives:",
        "",
        "- *Head*: a plain head is applied to the last hidden states, so that no logits are stored. Otherwise (a cap, a scale, an adapter) the network's own logits are taken.",
        "- *Padding*: networks that do not see what comes after a text need no mask.",
        "- *Contexts*: with key/value states that can be shared, a context is run once for all that follows it. State-space and most hybrid models run it again.",
        "",
        "| kind | class | head | padding | contexts | difference in nats |",
        "|---|---|---|---|---|---|",
    ]
    for row in works:
        head = "own logits" if "own" in row["head"] else "plain"
        contexts = "shared" if row["shared_contexts"] == "run once" else "run again"
        cells = (f"`{row['model_type']}`", row["class"], head, row["padding"], contexts, row["deviation_nats"])
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## Refused", "", "These are not causal with the settings tried here, and the message says so:", ""]
    lines += [f"- `{row['model_type']}`: {row['result'].removeprefix('refused: ')}." for row in refused]
    lines += [
        *("", "## Not tried", ""),
        "Their configurations could not be made small by the names of sizes that the script knows, or they are parts of models for images and sound. They may work:",
        "`wordprob models --check NAME` says so for a model that you have.",
        "",
        ", ".join(f"`{row['model_type']}`" for row in left_out) + ".",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, help="where to write the page of the documentation")
    parser.add_argument("kinds", nargs="*", help="kinds of models; all by default")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    tokenizer = byte_tokenizer()
    rows = []
    for kind in arguments.kinds or kinds():
        rows.append(try_kind(kind, tokenizer))
        print("\t".join(rows[-1].values()), flush=True)
    if arguments.page is not None:
        arguments.page.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
