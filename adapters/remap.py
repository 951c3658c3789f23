"""Configurations in another's words: P70 to P73, the checkpoints that a stock class serves under another name.

Some checkpoints name a class of their own repository although their mathematics is that of a stock one. Nothing of
their code runs here: their `config.json` is rewritten as the stock class' one, field by field. A field whose meaning is
not known is an error, so that no default stands in for it. The weights need no work of ours: transformers renames and
splits them when the stock class loads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import NotRemapped

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Remap:
    """One row: it takes configurations for which `when` holds; `to` is the stock model type.

    `renamed` are fields by their stock names. The stock class does what each listed value of a `fixed` field says, and
    takes no other. `silent` fields say nothing about a forward pass. `formula` are those that `rest` makes others of.
    `own` says that the configuration is of a stock class too, which ignores what it does not know: fields of no listed
    meaning are carried over. `weights` are patterns of tensor names with what stands in their place.
    """

    when: Callable[[Config], bool]
    to: str
    renamed: Mapping[str, str]
    fixed: Mapping[str, tuple[Any, ...]]
    silent: frozenset[str]
    formula: frozenset[str]
    rest: Callable[[Config], dict[str, Any]]
    own: bool = False
    weights: Mapping[str, str] = field(default_factory=dict)


SAME = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
    "max_position_embeddings", "type_vocab_size", "layer_norm_eps", "pad_token_id", "bos_token_id", "eos_token_id",
    "initializer_range", "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "torch_dtype",
    "dtype",
)  # fmt: skip
"""Fields of one name and one meaning."""

LABELS = frozenset(
    {"architectures", "auto_map", "model_type", "transformers_version", "id2label", "label2id", "_name_or_path",
     "num_labels", "problem_type", "tie_word_embeddings", "use_cache", "_attn_implementation", "finetuning_task"}
)  # fmt: skip
"""What a checkpoint is called and what it was trained for."""


def rotation(config: Config) -> dict[str, Any]:
    """The `rope_parameters` of Alibaba's `new`, whose NTK scaling holds from the first token on.

    A factor s makes the base theta*s and divides every frequency by s^(2/D): (theta*s)^(-2j/D) / s^(2/D), D the size of
    a head. That is the stock `linear` scaling by s^(2/D) over the base theta*s. Raises NotRemapped for another scaling.
    """
    theta = float(config.get("rope_theta", 10000.0))
    scaling = config.get("rope_scaling")
    if scaling is None:
        return {"rope_parameters": {"rope_type": "default", "rope_theta": theta}}
    kind, factor = scaling.get("type", scaling.get("rope_type")), scaling.get("factor")
    if kind != "ntk" or not isinstance(factor, int | float) or factor <= 0:
        raise NotRemapped(f"its config's rope_scaling {scaling!r} is not NTK scaling by a factor above 0")
    if scaling.get("mixed_b") is not None:
        raise NotRemapped(
            "its config's rope_scaling has mixed_b: a divisor for each frequency, which the stock class has not"
        )
    head = int(config["hidden_size"]) // int(config["num_attention_heads"])
    by = float(factor) ** (2 / head)
    return {"rope_parameters": {"rope_type": "linear", "rope_theta": theta * float(factor), "factor": by}}


def turned(config: Config) -> dict[str, Any]:
    """The `rope_parameters` of the first `nomic_bert` configurations: the base alone."""
    return {"rope_parameters": {"rope_type": "default", "rope_theta": float(config.get("rotary_emb_base", 10000.0))}}


ALIBABA_NEW = Remap(
    when=lambda config: config.get("model_type") == "new",
    to="gte",
    renamed={name: name for name in SAME},
    fixed={
        "position_embedding_type": ("rope",),
        "layer_norm_type": ("layer_norm",),
        "pack_qkv": (True,),
        "logn_attention_scale": (False,),
    },
    silent=LABELS | {"unpad_inputs", "use_memory_efficient_attention", "logn_attention_clip1"},
    formula=frozenset({"rope_theta", "rope_scaling"}),
    rest=rotation,
)
FIRST_NOMIC = Remap(
    when=lambda config: config.get("model_type") == "nomic_bert" and "n_embd" in config,
    to="nomic_bert",
    renamed={
        **{name: name for name in SAME},
        "n_embd": "hidden_size",
        "n_head": "num_attention_heads",
        "n_layer": "num_hidden_layers",
        "n_inner": "intermediate_size",
        "n_positions": "max_position_embeddings",
        "layer_norm_epsilon": "layer_norm_eps",
    },
    fixed={
        "activation_function": ("swiglu",),
        "causal": (False,),
        "mlp_fc1_bias": (False,),
        "mlp_fc2_bias": (False,),
        "parallel_block": (False,),
        "prenorm": (False,),
        "qkv_proj_bias": (False,),
        "rotary_emb_fraction": (1.0,),
        "rotary_emb_interleaved": (False,),
        "rotary_emb_scale_base": (None,),
        "rotary_scaling_factor": (None,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "scale_attn_weights": (True,),
        "use_rms_norm": (False, None),
    },
    silent=LABELS
    | {
        "attn_pdrop", "embd_pdrop", "resid_pdrop", "dense_seq_output", "fused_bias_fc", "fused_dropout_add_ln",
        "max_trained_positions", "pad_vocab_size_multiple", "parallel_block_tied_norm", "reorder_and_upcast_attn",
        "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj",
        "use_flash_attn", "use_xentropy",
    },
    formula=frozenset({"rotary_emb_base"}),
    rest=turned,
)  # fmt: skip
SHELL_OF_BERT = Remap(
    when=lambda config: config.get("model_type") == "dpr" and not config.get("projection_dim"),
    to="bert",
    renamed={},
    fixed={},
    silent=frozenset({"model_type", "architectures", "projection_dim"}),
    formula=frozenset(),
    rest=lambda config: {},
    own=True,
    weights={r"^(question_encoder|ctx_encoder)\.bert_model\.": ""},
)
"""Without a projection, DPR's encoder is BERT and gives the first token's vector alone."""
PLACES = ("revision", "cache_dir", "token", "local_files_only", "subfolder")
"""What says where a checkpoint's files are read."""
ROWS = (ALIBABA_NEW, FIRST_NOMIC, SHELL_OF_BERT)


def remapped(config: Config) -> dict[str, Any] | None:
    """A `config.json` in a stock class' words, or None if it is of no kind that is known here.

    Raises NotRemapped if the stock class does not do what a field says, or the field is not known.
    """
    row = _row_of(config)
    if row is None:
        return None
    for name, value in config.items():
        _check(row, name, value)
    kept = {name: name for name in config if row.own and name not in row.silent} | dict(row.renamed)
    carried = {kept[name]: value for name, value in config.items() if name in kept}
    return {"model_type": row.to, **carried, **row.rest(config)}


def stock_config(name: str, **places: Any) -> tuple[Any, dict[str, str]] | None:
    """For a checkpoint of another class: the stock class' config, and the `key_mapping` of its weights; else None.

    `places` (revision, cache_dir, token, local_files_only) say where `config.json` is read. Raises NotRemapped.
    """
    from transformers import AutoConfig, PreTrainedConfig

    given, _ = PreTrainedConfig.get_config_dict(name, **places)
    fields = remapped(given)
    if fields is None:
        return None
    return AutoConfig.for_model(fields.pop("model_type"), **fields), renamed_weights(given)


def renamed_weights(config: Config) -> dict[str, str]:
    """For a checkpoint's own configuration: what `from_pretrained` takes as `key_mapping`; mostly nothing."""
    row = _row_of(config)
    return dict(row.weights) if row is not None else {}


def _row_of(config: Config) -> Remap | None:
    return next((row for row in ROWS if row.when(config)), None)


def _check(row: Remap, name: str, value: Any) -> None:
    if row.own or name in row.renamed or name in row.silent or name in row.formula:
        return
    if name not in row.fixed:
        raise NotRemapped(f"its config's {name!r} has no known meaning for {row.to}")
    if value not in row.fixed[name]:
        known = " or ".join(map(repr, row.fixed[name]))
        raise NotRemapped(f"its config's {name} is {value!r}, and {row.to} does only {known}")
