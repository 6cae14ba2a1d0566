"""Configurations of transformers at small width: what a family's own default has, each size of it made small.

A size is known by its field's name, as most families share names; `OWN` has what single families need beside it.
"""

from __future__ import annotations

import warnings
from typing import Any

from transformers import CONFIG_MAPPING

VOCABULARY = 96
LAYERS, WIDTH, HEADS, HEAD = 2, 32, 4, 8

# The largest that fields of these names may be.
LIMITS = """
1: n_group topk_group num_expert_group first_k_dense_replace
2: num_hidden_layers num_layers n_layer n_layers depth encoder_layers decoder_layers num_decoder_layers
2: num_encoder_layers num_hidden_groups decoder_num_hidden_layers encoder_num_hidden_layers
2: speech_encoder_layers t2u_encoder_layers t2u_decoder_layers num_adapter_layers
2: memory_attention_num_layers decoder_num_layers num_blocks layers num_encoder_decoder_blocks
2: resampler_depth num_res_blocks max_window_layers qformer_layers num_mem_blocks num_block_layers
2: speech_decoder_postnet_layers num_key_value_heads swa_num_key_value_heads num_kv_heads
2: resampler_num_key_value_heads num_experts_per_tok moe_topk moe_k num_experts_per_token n_shared_experts
2: num_frames n_mamba_heads num_codebooks
4: num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads
4: attention_heads decoder_num_attention_heads encoder_num_attention_heads speech_encoder_attention_heads
4: t2u_encoder_attention_heads t2u_decoder_attention_heads decoder_self_attention_heads
4: decoder_cross_attention_heads swa_num_attention_heads index_n_heads linear_num_value_heads
4: linear_num_heads resampler_heads resampler_n_heads linear_num_key_heads
4: memory_attention_num_attention_heads num_experts num_local_experts n_routed_experts moe_num_experts
4: rotary_dim index_topk
6: sliding_window sliding_window_size num_queries
8: head_dim d_kv qk_nope_head_dim v_head_dim linear_key_head_dim linear_value_head_dim kv_channels
8: linear_head_dim swa_head_dim dim_head attention_head_dim global_head_dim resampler_head_dim d_head
8: qk_rope_head_dim patch_size hidden_size_per_layer_input mamba_d_state state_size ssm_state_size
8: mamba_n_heads mamba_d_head mamba_num_heads mamba_head_dim chunk_size mamba_chunk_size
8: attention_chunk_size
16: index_head_dim kv_lora_rank q_lora_rank moe_intermediate_size shared_expert_intermediate_size
16: moe_shared_expert_intermediate_size expert_ffn_hidden_size expert_intermediate_size num_mel_bins
32: hidden_size d_model n_embd embed_dim embedding_size hidden_dim encoder_hidden_size decoder_hidden_size
32: projection_dim out_hidden_size emb_dim encoder_hidden_dim decoder_embed_dim embedding_dim
32: projector_hidden_size text_hidden_size fusion_hidden_size latent_dim output_dim fpn_hidden_size
32: codebook_dim word_embed_proj_dim neck_hidden_size attention_hidden_size hidden_size_global
32: output_hidden_size backbone_hidden_size num_filters rnn_hidden_size lru_width
32: cross_attention_hidden_size vision_output_dim d_embed dim unit_embed_dim proj_codevector_dim
32: codevector_dim mm_embed_dim classifier_proj_size pooler_hidden_size conv_dim_size xvector_output_dim
32: query_dim auxiliary_channels memory_attention_hidden_size memory_encoder_hidden_size
32: memory_fuser_embed_dim image_text_hidden_size mask_feature_size feature_size pooler_output_size
32: project_dim vector_quantization_hidden_dimension codebook_size
64: intermediate_size ffn_dim d_ff n_inner encoder_ffn_dim decoder_ffn_dim mlp_dim d_inner
64: encoder_intermediate_size decoder_intermediate_size ffn_hidden_size encoder_ffn_size dim_feedforward
64: encoder_feedforward_dim speech_encoder_intermediate_size t2u_encoder_ffn_dim t2u_decoder_ffn_dim
64: shared_intermediate_size block_ff_dim dense_intermediate_size intermediate_size_mlp d_conv_hidden
64: memory_attention_feed_forward_hidden_size memory_fuser_intermediate_dim max_2d_position_embeddings
64: image_size
96: vocab_size vocab_size_per_layer_input unit_hifi_gan_vocab_size t2u_vocab_size char_vocab_size
128: max_position_embeddings n_positions max_source_positions max_target_positions context_length max_seq_len
128: model_max_length original_max_position_embeddings t2u_max_position_embeddings
"""
SMALL = {
    name: int(limit)
    for line in LIMITS.strip().splitlines()
    for limit, names in [line.split(":")]
    for name in names.split()
}

# Lists of a size for each stage.
DEPTHS = ("depths", "num_block_repeats", "layer_depths", "num_blocks_per_stage")
WIDTHS = (
    "hidden_sizes",
    "embed_dims",
    "embed_dim",
    "neck_hidden_sizes",
    "conv_dim",
    "encoder_hidden_size",
    "decoder_hidden_sizes",
    "channels",
    "encoder_channels",
    "tdnn_dim",
    "embedding_dims",
)

_RESNET = {
    "model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16, 32, 64], "depths": [1, 1, 1, 1],
    "out_features": ["stage2", "stage3", "stage4"],
}  # fmt: skip
_ROTATED = {
    "text_config": {
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
    }
}
_RT = {"encoder_in_channels": [16, 32, 64], "decoder_in_channels": [WIDTH] * 3}
_HG = {
    "backbone_config": {"hidden_sizes": [256, 512, 1024, 2048]},
    "encoder_in_channels": [512, 1024, 2048],
    "decoder_in_channels": [WIDTH] * 3,
}
_LAST = {"backbone_config": {**_RESNET, "out_features": ["stage4"]}}

# What single families need beside it.
OWN: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        ("glm46v", "glm4v", "glm_ocr", "glmga", "paddleocr_vl", "qwen2_5_vl", "qwen2_vl"), _ROTATED
    ),
    "bamba": {"attn_layer_indices": [1]},
    "blt": {"encoder_hash_byte_group_vocab": 50},
    "conditional_detr": _LAST,
    "d_fine": _HG,
    "deimv2": _HG,
    "pp_doclayout_v2": _HG,
    "pp_doclayout_v3": _HG,
    "rt_detr": _RT,
    "rt_detr_v2": _RT,
    "data2vec-vision": {"num_hidden_layers": 4, "out_indices": [1, 2, 3, 4]},
    "dab-detr": _LAST,
    "deformable_detr": {"backbone_config": _RESNET},
    "detr": _LAST,
    "grounding-dino": {"backbone_config": _RESNET},
    "mm-grounding-dino": {"backbone_config": _RESNET},
    "table-transformer": _LAST,
    "cpmant": {"prompt_types": 2, "segment_types": 32, "prompt_length": 4, "position_bias_max_distance": 64},
    "ctrl": {"dff": 64},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "deepseek_v4": {"o_lora_rank": 16, "o_groups": 2, "head_dim": 16},
    "dots1": {
        "n_shared_experts": 1,
        "n_routed_experts": 4,
        "moe_intermediate_size": 16,
        "num_experts_per_tok": 2,
    },
    "falcon_h1": {"mamba_d_ssm": 64},
    "gemma3n_text": {
        "num_kv_shared_layers": 0,
        "layer_types": ["sliding_attention", "full_attention"],
        "laurel_rank": 4,
        "activation_sparsity_pattern": [0.0, 0.0],
    },
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"]},
    "hgnet_v2": {"hidden_sizes": [256, 512, 1024, 2048]},
    "jamba": {
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
    },
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "longcat_flash": {"zero_expert_num": 2},
    "mamba2": {"num_heads": 8},
    "nemotron": {"num_key_value_heads": 2},
    "qwen4_exp_text": {
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 16,
        "indexer_budget": 16,
        "indexer_compress_ratio": 4,
        "hc_lowrank": 8,
        "ngram_vocab_size_base": 200,
        "split_ngram_parts": 2,
    },
    "recurrent_gemma": {"num_hidden_layers": 3},
    "reformer": {"is_decoder": True, "hash_seed": 0, "axial_pos_embds": False},
    "roc_bert": {"pronunciation_vocab_size": 30, "shape_vocab_size": 30},
    "xlstm": {"chunk_size": 16, "num_heads": 4},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "num_hidden_layers": 4,
        "layers_block_type": ["linear_attention", "hybrid"] * 2,
        "attention_hidden_size": 64,
        "attention_head_dim": 16,
    },
    "zamba2": {"attention_hidden_size": 64, "attention_head_dim": 16},
    "bit": {"hidden_sizes": [128, 128, 256, 256]},
    "cvt": {"num_heads": [1, 2, 4], "embed_dim": [16, 32, 64]},
    "donut-swin": {"image_size": 224},
    "efficientnet": {"width_coefficient": 0.1, "depth_coefficient": 0.2, "hidden_dim": 128},
    "levit": {"image_size": 224, "patch_size": 16},
    "mobilevit": {"hidden_sizes": [32, 48, 64]},
    "mobilenet_v1": {"depth_multiplier": 0.125},
    "mobilenet_v2": {"depth_multiplier": 0.125},
    "luke": {"entity_vocab_size": 40, "entity_emb_size": 16},
    "mluke": {"entity_vocab_size": 40, "entity_emb_size": 16},
    "perceiver": {
        "d_latents": 32,
        "num_latents": 8,
        "num_self_attends_per_block": 2,
        "num_self_attention_heads": 4,
        "num_cross_attention_heads": 4,
        "d_model": 32,
        "position_embedding_init_scale": 0.1,
    },
    "dia": {
        "encoder_config": {"head_dim": 8},
        "decoder_config": {"cross_head_dim": 8, "cross_hidden_size": 32},
    },
    "convnext": {"num_stages": 4, "hidden_sizes": [16, 24, 32, 64]},
    "convnextv2": {"num_stages": 4, "hidden_sizes": [16, 24, 32, 64]},
    "layoutlmv3": {"coordinate_size": 6, "shape_size": 4},
    "lilt": {"hidden_size": 48},
    "mimi": {"num_filters": 16, "upsample_groups": 32},
    "swin": {"image_size": 224},
    "textnet": {"hidden_sizes": [64, 64, 128, 256, 512]},
    "esm": {"vocab_size": 96, "pad_token_id": 1, "mask_token_id": 2},
    "esmc": {"num_key_value_heads": 4},
    "neomme": {"head_dim": 16},
    "wav2vec2-bert": {"vocab_size": 96},
    "wav2vec2-conformer": {"vocab_size": 96},
}


def shrunk(config: Any, own: dict[str, Any]) -> dict[str, Any]:
    """The fields of a configuration that are not as its default has them, so that it is small."""
    fields: dict[str, Any] = {}
    told = {config.attribute_map.get(name, name): value for name, value in own.items()}
    for name, value in vars(config).items():
        shown = next((k for k, v in config.attribute_map.items() if v == name and k in SMALL), name)
        limit = SMALL.get(name, SMALL.get(shown))
        if isinstance(own.get(name), dict) and "model_type" in own[name]:
            fields[name] = own[name]
        elif name in config.sub_configs and value is not None:
            fields[name] = {"model_type": value.model_type, **shrunk(value, own.get(name, {}))}
        elif name in told:
            continue
        elif name == "_out_features" and value:
            stages = getattr(config, "stage_names", value)
            fields["out_features"] = (
                value if "stage4" in value or "depths" in vars(config) else [stages[1], stages[2]]
            )
        elif name == "num_key_value_heads" and value == config.num_attention_heads:
            fields[name] = min(value, HEADS)
        elif type(value) is int and limit is not None:
            fields[name] = min(value, limit)
        elif name in DEPTHS and isinstance(value, (list, tuple)):
            fields[name] = [min(v, 1) if type(v) is int else [1] * len(v) for v in value]
        elif name in WIDTHS and isinstance(value, (list, tuple)) and all(type(v) is int for v in value):
            fields[name] = [max(v * 2 * WIDTH // max(value), 1) for v in value]
        elif (
            name in ("num_heads", "num_attention_heads")
            and isinstance(value, (list, tuple))
            and value[0] != 1
        ):
            fields[name] = [2 << i for i in range(len(value))]
        elif name in ("image_size", "patch_size") and isinstance(value, (list, tuple)):
            fields[name] = [min(v, SMALL[name]) for v in value]
        elif (
            name.endswith(("_token_id", "_token_index", "_index"))
            and type(value) is int
            and value >= VOCABULARY
        ):
            fields[name] = (
                VOCABULARY - 1 - len([k for k in fields if k.endswith(("_token_id", "_token_index"))]) % 60
            )
        elif name == "head_dim" and value is None:
            fields[name] = HEAD
        elif name == "rope_parameters" and value and "mrope_section" in value:
            half = int(fields.get("head_dim", HEAD) * value.get("partial_rotary_factor", 1.0)) // 2
            fields[name] = {**value, "mrope_section": [half - 2 * (half // 3), half // 3, half // 3]}
        elif name == "initializer_range" and isinstance(value, float):
            fields[name] = 0.1
        elif isinstance(value, float) and "drop" in name:
            fields[name] = 0.0
        elif name in ("layer_types", "mlp_layer_types", "layers_block_type", "indexer_types") and value:
            kinds = list(dict.fromkeys(value))
            fields[name] = (kinds * LAYERS)[: max(LAYERS, len(kinds))]
    for kinds in ("layer_types", "layers_block_type"):
        if kinds in fields:
            for name in ("num_hidden_layers", "n_layer", "num_layers"):
                if name in fields:
                    fields[name] = len(fields[kinds])
    return {**fields, **{k: v for k, v in told.items() if k not in config.sub_configs}}


def small(family: str, own: dict[str, Any] | None = None) -> Any:
    """The configuration of a family (`model_type`) at small width."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = CONFIG_MAPPING[family]
        return kind(**shrunk(kind(), {**OWN.get(family, {}), **(own or {})}))
