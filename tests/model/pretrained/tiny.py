"""Tiny random models of each family, and folders with trained tokenizers, as people have them.

Widths, depths and heads differ between encoder and decoder wherever the family allows it. Every
model has a twin with the same weights that ``transformers`` runs itself ("eager").
"""

from __future__ import annotations

import functools
import json
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import Tensor

from headwise.model.decoding.greedy import longest_target
from headwise.model.masks import PADDING
from headwise.model.pretrained.attention import ATTENTION
from headwise.model.pretrained.folders import quiet
from headwise.model.pretrained.model import PretrainedModel
from headwise.model.pretrained.tokenizers import TARGET_TOKENIZER
from tests.floats import PASS, assert_near

VOCABULARY = 53
LANGUAGE = 5
"""The id that M2M100 is made to begin every target with, as if it were a language code."""
Texts = dict[str, list[str]]
"""Sentences by language."""
MakeFolder = Callable[[str], Path]
"""The fixture ``make_folder``: from a name of ``FOLDERS`` to a folder."""
WEIGHTS = "model.safetensors"
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
PAIRS = (
    *("bert2bert", "bert2roberta", "bert2gpt2"),
    *("roberta2roberta", "xlm-roberta2camembert", "camembert2xlm-roberta"),
)
"""Encoder-decoders whose stacks are models of their own; those of two families have two widths."""
FAMILY_NAMES = (
    *("marian", "bart", "mbart", "pegasus", "m2m_100", "blenderbot"),
    *("blenderbot-small", "plbart"),
    *("t5", "t5_1_1", "mt5", "umt5"),
    *PAIRS,
    *("t5gemma", "t5gemma2"),
)
MAKES = (
    *("marian", "mbart", "blenderbot-small", "t5", "umt5"),
    *("bert2bert", "bert2gpt2", "t5gemma", "t5gemma2"),
)
"""Families with every value of every field of a description among them.

Analyses know a model by its description, so these stand for all.
"""


@dataclass(frozen=True)
class Twins:
    """One model twice: as ``transformers`` runs it, and behind our interface."""

    eager: Any
    ours: PretrainedModel

    def logits(self, source: Tensor, target: Tensor, **settings: Any) -> Any:
        """What ``transformers`` returns for ids (B, S) and (B, T)."""
        mask = (source != PADDING).long()
        filler = self.eager.config.pad_token_id
        source, target = (ids.masked_fill(ids == PADDING, filler) for ids in (source, target))
        with torch.no_grad(), patch.object(torch.nn.functional, "softmax", _exact_softmax):
            return self.eager(
                input_ids=source,
                attention_mask=mask,
                decoder_input_ids=target,
                use_cache=False,
                **settings,
            )

    def generate(self, source: list[int], **settings: Any) -> list[int]:
        """What ``generate`` makes of a source, with the limit of our decoding."""
        longest = longest_target(len(source), self.ours.description.max_length)
        ids = torch.tensor([source])
        is_t5 = self.ours.description.positions == "relative"
        found = self.eager.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            num_beams=1,
            do_sample=False,
            max_new_tokens=longest,
            use_cache=not is_t5,  # of unequal depths, it raises IndexError with a cache
            **settings,
        )
        target: list[int] = found[0].tolist()
        return target

    @property
    def prefix(self) -> list[int]:
        """What every target begins with."""
        forced = self.eager.generation_config.forced_bos_token_id
        return [self.ours.special_ids.start, *([] if forced is None else [forced])]


def _exact_softmax(scores: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """Compute it in float64 where scores are, of which T5Gemma's own code makes float32 first."""
    return scores.softmax(dim, dtype=torch.promote_types(scores.dtype, dtype or scores.dtype))


def _pair_settings(name: str) -> dict[str, Any]:
    """The configuration of a model whose stacks are of these two families."""
    of_all = {"vocab_size": VOCABULARY, "max_position_embeddings": 43, "pad_token_id": 0}
    encoder, _, decoder = name.partition("2")
    stacks = {
        "encoder": {
            "model_type": encoder,
            "hidden_size": 24 if encoder == decoder else 20,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "intermediate_size": 31,
        },
        "decoder": {
            "model_type": decoder,
            "hidden_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "intermediate_size": 29,
            "pad_token_id": 0 if encoder == decoder else 1,
            "is_decoder": True,
            "add_cross_attention": True,
        },
    }
    if decoder == "gpt2":
        names = {"hidden_size": "n_embd", "num_hidden_layers": "n_layer"}
        names |= {"intermediate_size": "n_inner", "num_attention_heads": "n_head"}
        stacks["decoder"] = {names.get(k, k): v for k, v in stacks["decoder"].items()}
        stacks["decoder"] |= {"n_positions": 43, "pad_token_id": None}
    whole = {"pad_token_id": 0, "decoder_start_token_id": 2, "eos_token_id": 4}
    return whole | {stack: of_all | values for stack, values in stacks.items()}


def _t5gemma_settings() -> dict[str, Any]:
    """Unequal widths, heads that share keys, scores and logits whose caps can be seen."""
    of_all = {
        "vocab_size": VOCABULARY,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 6,
        "query_pre_attn_scalar": 7,
        "bos_token_id": 2,
        "max_position_embeddings": 43,
        "sliding_window": 43,
        "attn_logit_softcapping": 1.5,
        "final_logit_softcapping": 6.0,
    }
    sizes = {
        "encoder": {"hidden_size": 20, "num_hidden_layers": 3, "intermediate_size": 31},
        "decoder": {"hidden_size": 24, "num_hidden_layers": 2, "intermediate_size": 29},
    }
    return {stack: of_all | values for stack, values in sizes.items()}


def _t5gemma2_settings() -> dict[str, Any]:
    """As T5Gemma's, but of equal widths, with layers of two kinds and a window of two halves."""
    settings: dict[str, Any] = _t5gemma_settings()
    for values in settings.values():
        values |= {"hidden_size": 24, "sliding_window": 85, "attn_logit_softcapping": None}
        kinds = ["sliding_attention", "full_attention", "sliding_attention"]
        values["layer_types"] = kinds[: values["num_hidden_layers"]]
    of_images = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    of_images |= {"num_attention_heads": 1, "image_size": 8, "patch_size": 4}
    settings["encoder"] = {
        "text_config": settings["encoder"],
        "vision_config": {"model_type": "siglip_vision_model"} | of_images,
        "mm_tokens_per_image": 4,
        "eoi_token_index": 10_000,  # none of a text's
    }
    return settings | {"image_token_index": 10_001}


def _settings(name: str) -> tuple[str, dict[str, Any]]:
    """The ``model_type`` and the configuration of a family's tiny model."""
    if name in PAIRS:
        return "encoder-decoder", _pair_settings(name)
    if name == "t5gemma":
        return name, _t5gemma_settings()
    if name == "t5gemma2":
        return name, _t5gemma2_settings()
    if name.endswith(("t5", "t5_1_1")):
        values: dict[str, Any] = {
            "d_kv": 5,
            "d_ff": 31,
            "num_layers": 3,
            "num_decoder_layers": 2,
            "num_heads": 3,
            "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 16,
            "decoder_start_token_id": 0,
            "feed_forward_proj": "relu" if name == "t5" else "gated-gelu",
        }
        if name == "t5_1_1":
            values["tie_word_embeddings"] = False
    else:
        values = {
            "encoder_layers": 3,
            "decoder_layers": 2,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 3,
            "encoder_ffn_dim": 31,
            "decoder_ffn_dim": 29,
            "max_position_embeddings": 43,
            "scale_embedding": name not in ("bart", "plbart"),
            "forced_eos_token_id": None,
            "decoder_start_token_id": 2,
        }
        if name == "marian":
            padding = VOCABULARY - 1
            values |= {"pad_token_id": padding, "decoder_start_token_id": padding}
            values |= {"eos_token_id": 0, "decoder_vocab_size": VOCABULARY}
        if name.startswith("blenderbot"):
            values |= {"pad_token_id": 0, "decoder_start_token_id": 1}
        if name == "pegasus":
            values |= {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    kind = "t5" if name == "t5_1_1" else name
    return kind, values | {"vocab_size": VOCABULARY, "d_model": 24}


def randomise(inner: Any, spread: float = 0.2, seed: int = 23) -> None:
    """Give a model random weights, biases and norms too; what it computes itself stays."""
    generator = torch.Generator().manual_seed(seed)
    biases = [item for item in inner.named_buffers() if item[0] == "final_logits_bias"]
    with torch.no_grad():
        for name, tensor in [*inner.named_parameters(), *biases]:
            noise = torch.randn(tensor.shape, generator=generator)
            if name.endswith("relative_attention_bias.weight"):
                tensor.copy_(noise)
            elif name.lower().endswith("norm.weight"):
                tensor.copy_(1 + 0.2 * noise)
            elif not name.endswith("embed_positions.weight") or tensor.requires_grad:
                tensor.copy_(spread * noise)


def compute_in_float64(inner: Any) -> None:
    """Let T5 and T5Gemma compute in float64 what their own code computes in float32."""

    def of_t5(norm: Any, x: Tensor) -> Tensor:
        return norm.weight * x * (x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon).rsqrt()

    def of_t5gemma(norm: Any, x: Tensor) -> Tensor:
        return norm._norm(x) * (1 + norm.weight)

    for module in inner.modules():
        for name, forward in (("T5LayerNorm", of_t5), ("RMSNorm", of_t5gemma)):
            if type(module).__name__.endswith(name):
                module.forward = types.MethodType(forward, module)
        if hasattr(module, "scalar_embed_scale"):
            module.embed_scale.fill_(module.scalar_embed_scale)


def build(
    name: str, *, forced: int | None = LANGUAGE, dtype: torch.dtype = torch.float32, **changes: Any
) -> Twins:
    """Make a model and its twin, with these changes of its configuration.

    M2M100 is made to begin targets with ``forced``. In float64, two passes can be compared in all
    digits.
    """
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

    kind, values = _settings(name)
    if "encoder" in values:
        for stack in ("encoder", "decoder"):
            of_stack = values[stack].get("text_config", values[stack])
            own = {key: changes[key] for key in changes.keys() & of_stack.keys()}
            of_stack |= own | changes.pop(stack, {})
    with quiet():
        made = [
            AutoModelForSeq2SeqLM.from_config(
                AutoConfig.for_model(kind, **(values | changes)), attn_implementation=attention
            ).eval()
            for attention in ("eager", ATTENTION)
        ]
    randomise(made[0])
    made[1].load_state_dict(made[0].state_dict())
    for inner in made:
        inner.to(dtype)
        if dtype == torch.float64:
            compute_in_float64(inner)
        if name == "marian":  # as opus-mt: the padding is the likeliest token, and forbidden
            padding = inner.config.pad_token_id
            inner.final_logits_bias[0, padding] = 50.0
            inner.generation_config.bad_words_ids = [[padding]]
        if name == "m2m_100":
            inner.generation_config.forced_bos_token_id = forced
        if name.endswith(("roberta", "camembert")):
            # Behind padding that is written, they number positions otherwise with a cache.
            inner.generation_config.bad_words_ids = [[inner.config.decoder.pad_token_id]]
    return Twins(made[0], PretrainedModel(made[1]))


def stack_of(inner: Any, stack: str) -> Any:
    """The encoder or the decoder in a model of ``transformers``."""
    found = (inner.get_encoder() if stack == "encoder" else inner.get_decoder()).base_model
    return getattr(found, "text_model", found)


def random_ids(
    *lengths: int, first: int | None = None, seed: int = 3, most: int = VOCABULARY
) -> Tensor:
    """Ids (B, longest) without special tokens, padded on the right; ``first`` begins each row."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(6, most - 1, (len(lengths), max(lengths)), generator=generator)
    for row, length in zip(ids, lengths, strict=True):
        row[length:] = PADDING
    if first is not None:
        ids[:, 0] = first
    return ids


def run(model: PretrainedModel, source: Tensor, target: Tensor) -> Tensor:
    """Compute the logits (B, T, V) of a pass without a cache."""
    with torch.inference_mode():
        memory, mask = model.encode(source)
        return model.unembed(model.decode(target, memory, mask))


def inputs(twins: Twins, *lengths: int) -> tuple[Tensor, Tensor]:
    """Make sources of these lengths, padded, and targets of nine tokens."""
    start = twins.ours.special_ids.start
    return random_ids(*lengths), random_ids(*[9] * len(lengths), first=start, seed=4)


def assert_same(found: Tensor, expected: Any, *, size: float | None = None) -> None:
    """Compare what two passes of float64 twins gave, or two ways to compute a part of a pass."""
    assert found.dtype == torch.float64
    assert_near(found, expected, size=size, operations=PASS)


def change_json(path: Path, **values: Any) -> None:
    """Change values of an object in a file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def trainer_state(step: int, **values: Any) -> str:
    """Return what the Trainer writes at a step, with these changes."""
    rows = [
        {"step": 10, "loss": 2.5, "learning_rate": 1e-3, "grad_norm": float("nan"), "epoch": 0.5},
        {"step": step, "eval_loss": 2.0, "eval_bleu": 12.5, "eval_runtime": 3.0},
    ]
    return json.dumps({"global_step": step, "max_steps": 60, "log_history": rows} | values)


def _sentencepiece(path: Path, texts: list[str], size: int) -> list[tuple[str, float]]:
    """Train a sentencepiece model into a file; returns its tokens with their scores."""
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_prefix=str(path.with_suffix("")),
        vocab_size=size,
        hard_vocab_limit=False,
        character_coverage=1.0,
        minloglevel=2,
        bos_id=-1,
        num_threads=1,
    )
    path.with_suffix(".model").rename(path)
    path.with_suffix(".vocab").unlink()
    trained = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ids = range(trained.get_piece_size())
    return [(trained.id_to_piece(i), trained.get_score(i)) for i in ids]


def _pieces(path: Path, texts: Texts, first: tuple[str, ...]) -> list[tuple[str, float]]:
    """Train one for both languages; special tokens are the first."""
    trained = _sentencepiece(path, texts["en"] + texts["es"], 250)
    special = [(token, 0.0) for token in first]
    return special + [token for token in trained if token[0] not in first]


def _bpe(texts: Texts, split: Any, size: int, **settings: Any) -> dict[str, Any]:
    """Train a byte-pair encoding; return its tokens and merges."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = split
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(_SPECIAL), **settings)
    inner.train_from_iterator(texts["en"] + texts["es"], trainer)
    trained = json.loads(inner.to_str())["model"]
    return {"vocab": trained["vocab"], "merges": [tuple(merge) for merge in trained["merges"]]}


def save_model(folder: Path, name: str, **changes: Any) -> None:
    """Write a family's tiny model into a folder."""
    with quiet():
        build(name, **changes).eager.save_pretrained(folder)


def _number(*lists: list[tuple[str, float]], first: tuple[str, ...] = ()) -> dict[str, int]:
    names = dict.fromkeys([*first, *(token for tokens in lists for token, _ in tokens)])
    return {name: id for id, name in enumerate(names)}


def _make_marian(folder: Path, texts: Texts, *, separate: bool = False) -> None:
    from transformers import MarianTokenizer

    source = _sentencepiece(folder / "source.spm", texts["en"], 150)
    target = _sentencepiece(folder / "target.spm", texts["es"], 190)
    first = ("</s>", "<unk>", "<pad>") if separate else ("</s>", "<unk>")
    codes = () if separate else (">>spa<<", ">>cat<<")
    vocabularies = [_number(source, first=first), _number(target, first=first)]
    if not separate:
        vocabularies = [_number(source, target, first=(*first, *codes))]
        vocabularies[0]["<pad>"] = len(vocabularies[0])
    paths = [folder / "vocab.json", folder / "target_vocab.json"][: len(vocabularies)]
    for path, vocabulary in zip(paths, vocabularies, strict=True):
        path.write_text(json.dumps(vocabulary))
    tokenizer = MarianTokenizer(
        str(folder / "source.spm"),
        str(folder / "target.spm"),
        *map(str, paths),
        separate_vocabs=separate,
    )
    tokenizer.save_pretrained(folder)
    padding = vocabularies[0]["<pad>"]
    save_model(
        folder,
        "marian",
        vocab_size=len(vocabularies[0]),
        decoder_vocab_size=len(vocabularies[-1]),
        share_encoder_decoder_embeddings=not separate,
        pad_token_id=padding,
        decoder_start_token_id=padding,
    )


def _make_t5(folder: Path, texts: Texts) -> None:
    from transformers import T5Tokenizer

    tokens = _pieces(folder / "spiece.model", texts, ("<pad>", "</s>", "<unk>"))
    tokenizer = T5Tokenizer(vocab=tokens, extra_ids=3)
    tokenizer.save_pretrained(folder)
    task = {"prefix": "translate English to Spanish: "}
    save_model(
        folder,
        "t5",
        vocab_size=len(tokenizer) + 8,  # published ones are rounded up as well
        task_specific_params={"translation_en_to_es": task},
    )


def _make_nllb(folder: Path, texts: Texts) -> None:
    from transformers import NllbTokenizer

    tokenizer = NllbTokenizer(
        **_bpe(texts, pre_tokenizers.Metaspace(), 120),
        src_lang="eng_Latn",
        extra_special_tokens=["eng_Latn", "spa_Latn", "fra_Latn"],
    )
    tokenizer.save_pretrained(folder)
    save_model(folder, "m2m_100", forced=None, vocab_size=len(tokenizer))


def _make_mbart(folder: Path, texts: Texts) -> None:
    from transformers import MBartTokenizer

    tokens = _pieces(folder / "sentencepiece.bpe.model", texts, _SPECIAL)
    tokenizer = MBartTokenizer(vocab=tokens, src_lang="en_XX", tgt_lang="es_XX")
    tokenizer.save_pretrained(folder)
    start = tokenizer.convert_tokens_to_ids("es_XX")
    save_model(folder, "mbart", vocab_size=len(tokenizer), decoder_start_token_id=start)


def _make_m2m(folder: Path, texts: Texts) -> None:
    from transformers import M2M100Tokenizer

    trained = _sentencepiece(folder / "sentencepiece.bpe.model", texts["en"] + texts["es"], 250)
    (folder / "vocab.json").write_text(json.dumps(_number(trained, first=_SPECIAL)))
    tokenizer = M2M100Tokenizer(
        str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"), src_lang="en"
    )
    tokenizer.save_pretrained(folder)
    size = max(tokenizer.lang_code_to_id.values()) + 9  # published ones have 8 more as well
    save_model(folder, "m2m_100", forced=None, vocab_size=size)


def _make_bart(folder: Path, texts: Texts) -> None:
    from transformers import BartTokenizer

    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = BartTokenizer(**_bpe(texts, split, 400, initial_alphabet=split.alphabet()))
    tokenizer.save_pretrained(folder)
    save_model(folder, "bart", vocab_size=len(tokenizer))


def _make_bert(folder: Path, texts: Texts) -> None:
    from transformers import BertTokenizer

    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
    inner = Tokenizer(models.WordPiece(unk_token=special[1]))
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=list(special))
    inner.train_from_iterator(texts["en"] + texts["es"], trainer)
    tokenizer = BertTokenizer(vocab=inner.get_vocab(), do_lower_case=False, mask_token=None)
    tokenizer.save_pretrained(folder)
    start, end = tokenizer.cls_token_id, tokenizer.sep_token_id
    changes = {"vocab_size": len(tokenizer), "decoder_start_token_id": start, "eos_token_id": end}
    save_model(folder, "bert2bert", **changes)


def _make_camembert_to_xlm_roberta(folder: Path, texts: Texts) -> None:
    """One tokenizer for both, XLM-R's, of which padding has the id 1."""
    from transformers import XLMRobertaTokenizer

    tokens = _pieces(folder / "sentencepiece.bpe.model", texts, _SPECIAL)
    tokenizer = XLMRobertaTokenizer(vocab=tokens)
    tokenizer.save_pretrained(folder)
    special = {"pad_token_id": 1, "decoder_start_token_id": 0, "eos_token_id": 2}
    save_model(folder, "camembert2xlm-roberta", vocab_size=len(tokenizer), **special)


def _make_bert_to_gpt2(folder: Path, texts: Texts) -> None:
    """BERT's tokenizer for the source, GPT-2's in a folder beside it for the target."""
    from transformers import GPT2Tokenizer

    _make_bert(folder, texts)
    size = json.loads((folder / "config.json").read_text())["encoder"]["vocab_size"]
    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = GPT2Tokenizer(**_bpe(texts, split, 400, initial_alphabet=split.alphabet()))
    tokenizer.save_pretrained(folder / TARGET_TOKENIZER)
    end = tokenizer.eos_token_id
    stacks = {"encoder": {"vocab_size": size}, "decoder": {"vocab_size": len(tokenizer)}}
    save_model(folder, "bert2gpt2", decoder_start_token_id=end, eos_token_id=end, **stacks)


FOLDERS: dict[str, Callable[[Path, Texts], None]] = {
    "marian": _make_marian,
    "marian_separate": functools.partial(_make_marian, separate=True),
    "t5": _make_t5,
    "nllb": _make_nllb,
    "mbart": _make_mbart,
    "m2m_100": _make_m2m,
    "bart": _make_bart,
    "bert2bert": _make_bert,
    "bert2gpt2": _make_bert_to_gpt2,
    "camembert2xlm-roberta": _make_camembert_to_xlm_roberta,
}
"""Functions that write model and tokenizer into a folder. ``marian`` has two sentencepiece models
and one ``vocab.json``, ``marian_separate`` a vocabulary for each side."""
