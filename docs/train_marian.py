"""Train a small Marian with the Trainer of Hugging Face, and watch its heads as they form.

    python docs/train_marian.py pairs.jsonl valid.jsonl my-marian --source en --target es
    headwise my-marian

Each line of the files is {"translation": {"en": "…", "es": "…"}}. Nothing here is particular to
Headwise: it opens the folder while the training writes it, and afterwards.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import datasets
import numpy as np
import sacrebleu
import sentencepiece
import tyro
from transformers import (
    DataCollatorForSeq2Seq,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)


@dataclass(frozen=True)
class TrainMarianArguments:
    """Train a Marian of 3 + 3 layers, 4 heads, D = 192."""

    train: Annotated[Path, tyro.conf.Positional]
    """Sentence pairs to learn from."""
    valid: Annotated[Path, tyro.conf.Positional]
    """Sentence pairs to evaluate on; the first 500 are taken."""
    out: Annotated[Path, tyro.conf.Positional]
    """Folder of the checkpoints."""
    source: str = "en"
    """Name of the source language in the files."""
    target: str = "es"
    """Name of the target language in the files."""
    steps: int = 4_000
    """Steps in all."""
    checkpoints: int = 8
    """Number of checkpoints, at equal distances."""
    batch: int = 64
    """Pairs of a batch."""
    vocabulary: int = 4_000
    """Tokens of each language."""


def train_tokenizer(arguments: TrainMarianArguments, pairs: datasets.Dataset) -> MarianTokenizer:
    """Learn a sentencepiece model for each language, and one vocabulary for both."""
    folder = arguments.out / "tokenizer"
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {"</s>": 0, "<unk>": 1}
    for language, name in ((arguments.source, "source"), (arguments.target, "target")):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(pair[language] for pair in pairs["translation"]),
            model_prefix=str(folder / name),
            vocab_size=arguments.vocabulary,
            character_coverage=1.0,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        (folder / f"{name}.model").rename(folder / f"{name}.spm")
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.spm"))
        for id in range(3, pieces.get_piece_size()):
            vocabulary.setdefault(pieces.id_to_piece(id), len(vocabulary))
    vocabulary["<pad>"] = len(vocabulary)
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False))
    files = (str(folder / name) for name in ("source.spm", "target.spm", "vocab.json"))
    return MarianTokenizer(*files, source_lang=arguments.source, target_lang=arguments.target)


def make_model(tokenizer: MarianTokenizer) -> MarianMTModel:
    """Make an untrained model for a tokenizer."""
    return MarianMTModel(
        MarianConfig(
            vocab_size=len(tokenizer),
            decoder_vocab_size=len(tokenizer),
            d_model=192,
            encoder_layers=3,
            decoder_layers=3,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=768,
            decoder_ffn_dim=768,
            activation_function="relu",
            max_position_embeddings=128,
            scale_embedding=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
            decoder_start_token_id=tokenizer.pad_token_id,
            forced_eos_token_id=None,
            bad_words_ids=[[tokenizer.pad_token_id]],
        )
    )


def main(arguments: TrainMarianArguments) -> None:
    """Train, evaluate and save."""
    files = {"train": str(arguments.train), "valid": str(arguments.valid)}
    data = datasets.load_dataset("json", data_files=files)
    tokenizer = train_tokenizer(arguments, data["train"])

    def encode(rows: dict[str, list[dict[str, str]]]) -> Any:
        pairs = rows["translation"]
        return tokenizer(
            [pair[arguments.source] for pair in pairs],
            text_target=[pair[arguments.target] for pair in pairs],
            max_length=100,
            truncation=True,
        )

    def measure(prediction: Any) -> dict[str, float]:
        lines = [
            tokenizer.batch_decode(
                np.where(ids < 0, tokenizer.pad_token_id, ids), skip_special_tokens=True
            )
            for ids in (prediction.predictions, prediction.label_ids)
        ]
        return {
            "bleu": sacrebleu.corpus_bleu(lines[0], [lines[1]]).score,
            "chrf": sacrebleu.corpus_chrf(lines[0], [lines[1]]).score,
        }

    columns = data["train"].column_names
    train = data["train"].map(encode, batched=True, remove_columns=columns)
    valid = data["valid"].select(range(min(500, len(data["valid"]))))
    model = make_model(tokenizer)
    every = max(1, arguments.steps // arguments.checkpoints)
    trainer = Seq2SeqTrainer(
        model,
        Seq2SeqTrainingArguments(
            str(arguments.out),
            max_steps=arguments.steps,
            per_device_train_batch_size=arguments.batch,
            per_device_eval_batch_size=arguments.batch,
            learning_rate=1e-3,
            warmup_steps=arguments.steps // 10,
            label_smoothing_factor=0.1,
            logging_steps=max(1, every // 10),
            eval_strategy="steps",
            eval_steps=every,
            save_steps=every,
            save_only_model=True,
            predict_with_generate=True,
            generation_max_length=100,
            report_to=[],
        ),
        train_dataset=train,
        eval_dataset=valid.map(encode, batched=True, remove_columns=columns),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model),
        processing_class=tokenizer,
        compute_metrics=measure,
    )
    trainer.train()


if __name__ == "__main__":
    main(tyro.cli(TrainMarianArguments))
