"""What is said of the shipped runs on data that do not ship: where, and what computes it."""

from __future__ import annotations

from benchmarks.claims.record import OfCorpora

_README, _BESIDE = "README.md", "benchmarks/README.md"
_TRAINING, _HEADS = "docs/training.md", "docs/measuring-heads.md"
_EVALUATE, _BEYOND = "python -m headwise.model.evaluate", "python -m benchmarks.beyond"
OF_CORPORA = (
    OfCorpora(
        "**51.0 BLEU** (95% interval 49.1 to 52.7) against all references of a sentence, one or "
        "more, 68.8 chrF (67.5 to 70.0), loss 1.087 nats a token (perplexity 2.97), greedy",
        _README,
        f"{_EVALUATE} --run en-es --data test.jsonl",
    ),
    OfCorpora(
        "six of its sentences in one input: 52.6 BLEU (50.0 to 55.2)",
        _README,
        f"{_BEYOND} --run en-es --data test.jsonl --train train.jsonl",
    ),
    OfCorpora(
        "**40.8 BLEU** (95% interval 39.2 to 42.3) against the one reference of each sentence, "
        "greedy, **41.8** (40.2 to 43.3) with a beam",
        _README,
        f"{_EVALUATE} --run de-en --data test.jsonl, and with --beam 5",
    ),
    OfCorpora(
        "on its 10,000 training pairs, measured in the same way, 0.0039 at the end",
        _README,
        f"{_EVALUATE} --run books-small --data train.jsonl, of its 10,000 pairs",
    ),
    OfCorpora(
        "a sixth of the names that it has not seen are garbled",
        _README,
        f"{_BEYOND} --run en-es --data test.jsonl --train train.jsonl",
    ),
    OfCorpora(
        "of ten such sentences ([benchmarks/beyond.py](../benchmarks/beyond.py)) three were right",
        _TRAINING,
        f"{_BEYOND} prints them; a person judged",
    ),
    OfCorpora(
        "47.1, 47.8, 52.0 and 52.6 BLEU",
        _BESIDE,
        f"{_BEYOND} --run en-es --data test.jsonl --train train.jsonl",
    ),
    OfCorpora(
        "| names in no training text | 74.5% kept | 82.5% kept |",
        _BESIDE,
        f"{_BEYOND} --run en-es --data test.jsonl --train train.jsonl",
    ),
    OfCorpora(
        "without the 89 of which a text is in the 1,816 pairs for choices, the 1,818 (1,569 "
        "distinct sources) of the test",
        _TRAINING,
        "headwise.model.train prints them, with --leave-out",
    ),
    OfCorpora(
        "28 of the 240 sources for English to Spanish, short ones, also stand in the training data "
        "of Tatoeba; `en-es` was trained without them",
        _HEADS,
        "a search of train.jsonl by `bare` of model/training/data.py",
    ),
    OfCorpora(
        "none of their sources is in the training data of `en-es` or `de-en`",
        _HEADS,
        "a search of train.jsonl",
    ),
    OfCorpora(
        "`en-es` translates texts of 60 words and more whole, but a single long sentence often has "
        "a mistake",
        _README,
        f"{_BEYOND} --run en-es --data test.jsonl --train train.jsonl",
    ),
    OfCorpora(
        "several sentences of 60 words together are translated whole, as well as each by itself",
        _TRAINING,
        f"{_BEYOND} --run en-es --data test.jsonl --train train.jsonl",
    ),
    OfCorpora(
        "A sixth of the names that it has not seen are garbled, 5% of numbers are not kept",
        _TRAINING,
        f"{_BEYOND} --run en-es --data test.jsonl --train train.jsonl",
    ),
    OfCorpora(
        "| numbers of 2 to 6 digits | 96.0% kept | 94.5% kept |",
        _BESIDE,
        f"{_BEYOND} --run en-es --data test.jsonl --train train.jsonl",
    ),
    OfCorpora(
        "captions of Multi30k (Elliott et al. 2016), whose 29,000 have three twice",
        _TRAINING,
        "headwise.model.train prints it",
    ),
    OfCorpora(
        "The weights of the last step have a loss of 0.0039 on all 10,000 pairs.",
        _TRAINING,
        f"{_EVALUATE} --run books-small --data train.jsonl, of its 10,000 pairs",
    ),
    OfCorpora(
        "a beam of 5 gives 42.5 at the end with the paper's length penalty of 0.6, 42.8 with 1.0",
        _BESIDE,
        f"{_EVALUATE} --run de-en --data valid.jsonl --beam 5, and --length-penalty 1",
    ),
    OfCorpora(
        "25 best scores are higher, none is lower, and BLEU is 41.81 instead of 41.74",
        _BESIDE,
        f"{_EVALUATE} --run de-en --data test.jsonl --beam 5, with and without --early-stopping",
    ),
    OfCorpora(
        '"shows": "names it has not seen"',
        "model/samples/en-es.jsonl",
        "a search of train.jsonl and of model/training/names.txt",
    ),
)
