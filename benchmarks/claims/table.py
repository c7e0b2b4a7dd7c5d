"""The list of claims about the runs that ship."""

from __future__ import annotations

from functools import partial

from benchmarks.claims import of_heads, of_logs, of_tasks, of_writing
from benchmarks.claims.lesson_table import OF_LESSONS
from benchmarks.claims.record import Claim

_README, _BESIDE = "README.md", "benchmarks/README.md"
_TRAINING, _MAPS, _HEADS = "docs/training.md", "docs/reading-maps.md", "docs/measuring-heads.md"
_SIZE = "{encoder} + {decoder} layers, {heads} heads, D = {width}, "
_REST = "{parameters} M parameters, {checkpoints} checkpoints"
_ONE = _SIZE + "one vocabulary of {source} tokens, " + _REST

_OF_LOGS = (
    Claim("{number} trained models come with it", _README, of_logs.how_many_ship),
    Claim(f"the one to explore | {_ONE} |", _README, partial(of_logs.size, "en-es")),
    Claim(f"preset `pre-norm` | {_ONE} |", _README, partial(of_logs.size, "de-en")),
    Claim(
        f"preset `books-small` | {_SIZE}two vocabularies of {{source}} and {{target}} words, "
        f"{_REST} |",
        _README,
        partial(of_logs.size, "books-small"),
    ),
    Claim(
        f"preset `copy` | {_SIZE}{{symbols}} symbols, {_REST} |",
        _README,
        partial(of_logs.size, "copy"),
    ),
    Claim(
        "loss on validation pairs {first} at first (ln {words}), {lowest} at best at step {best}, "
        "{last} at the end; on its 10,000 training pairs",
        _README,
        partial(of_logs.losses, "books-small"),
    ),
    Claim("The {pairs} pairs of `en-es`", _README, partial(of_logs.trained_on, "en-es")),
    Claim(
        "Its data are {pairs} pairs of the Tatoeba project",
        _TRAINING,
        partial(of_logs.trained_on, "en-es"),
    ),
    Claim(
        "Its data are {pairs} pairs of captions", _TRAINING, partial(of_logs.trained_on, "de-en")
    ),
    Claim("{pairs} pairs of captions of Multi30k", _BESIDE, partial(of_logs.trained_on, "de-en")),
    Claim("{source} for `en-es`", _TRAINING, partial(of_logs.size, "en-es")),
    Claim(
        "At the end of `en-es` they are {train} and {last}, while `train_loss` is {batches}",
        _TRAINING,
        partial(of_logs.losses, "en-es"),
    ),
    Claim(
        "the model of `en-es` with at most 8,000 tokens, and a shorter training: another "
        "schedule, pairs of at most 100 tokens a side, and none of them joined, replaced or "
        "encoded otherwise",
        _TRAINING,
        partial(of_logs.unlike_the_preset, "en-es", "default"),
    ),
    Claim(
        "{left} of the {all} checkpoints are in the repository",
        _TRAINING,
        partial(of_logs.made_by_the_command, "en-es"),
    ),
    *(
        Claim(f"# {name}: {minutes} minutes", _TRAINING, partial(of_logs.made_by_the_command, name))
        for name, minutes in (("de-en", 87), ("books-small", 85), ("copy", 3))
    ),
    Claim(
        "is {a} at step 1,000, {d} at 7,000, {e} at 19,000 and {last} at the end",
        _TRAINING,
        partial(of_logs.losses_of_batches, "books-small"),
    ),
    Claim(
        "is {a} at step 1,000, {b} at 2,000, {c} at 5,000, {d} at 7,000 and {last} at the end; a "
        "fixed rate without clipping lets it jump now and then, after step 7,000 up to {jump}",
        _BESIDE,
        partial(of_logs.losses_of_batches, "books-small"),
    ),
    *(
        Claim("{rows}", _BESIDE, partial(of_logs.table_of_milestones, name))
        for name in ("en-es", "de-en", "books-small")
    ),
    Claim(
        "In `en-es` and `de-en` one or more tokens make a written word, and `·` marks a token that "
        "goes on with a word. In `books-small` and `copy` every word is one token",
        _MAPS,
        of_logs.units,
    ),
    Claim(
        "Its sequences have {least} to {most} of the letters {a} to {g}, with spaces",
        _TRAINING,
        of_logs.sequences_of_the_copy_task,
    ),
)

_OF_MAKING = (
    Claim(
        "captions of pictures; preset `{preset}`", _README, partial(of_logs.made_as_said, "de-en")
    ),
    Claim(
        "overfitting, whole words, norm after each sublayer; preset `{preset}`",
        _README,
        partial(of_logs.made_as_said, "books-small"),
    ),
    Claim(
        "the symbol that it copies; preset `{preset}`",
        _README,
        partial(of_logs.made_as_said, "copy"),
    ),
    Claim(
        "the pairs of `books-small` are from the Tatoeba project (CC BY 2.0 FR, tatoeba.org and "
        "manythings.org/anki). Those of `de-en` are Multi30k",
        _README,
        of_logs.whose_data,
    ),
    Claim(
        "some of them joined to longer inputs from its {epoch} epoch on",
        _TRAINING,
        partial(of_logs.joined_from, "en-es"),
    ),
    Claim(
        "{tokens} M target tokens in 112 minutes", _BESIDE, partial(of_logs.target_tokens, "en-es")
    ),
    Claim(
        "{encoder} + {decoder} layers of D = {width} instead of 3 + 3 of 192, dropout 0.3, a "
        "vocabulary of {source}.",
        _BESIDE,
        partial(of_logs.size, "de-en"),
    ),
    Claim(
        "`books-small` learns by heart and translates badly, with {bleu} BLEU on validation pairs "
        "at best",
        _TRAINING,
        partial(of_logs.highest_bleu, "books-small"),
    ),
    Claim("They are those of the float16 files as they ship", _TRAINING, of_logs.stored_in_float16),
)

_OF_HEADS = (
    Claim(
        "Of the shipped runs only `de-en` has a checkpoint that fits the first stage: at step "
        "{step} the language model finds the translations likelier than the references ({own} and "
        "{reference} nats a token), with a chrF of {chrf}, and the source's share in predictions "
        "is at its lowest",
        _HEADS,
        partial(of_heads.first_stage, "de-en"),
    ),
    Claim(
        "None shows a late stage of reordering: from where chrF is half of what it is at the end, "
        "the score departs from that of the references by at most {most}",
        _HEADS,
        of_heads.no_stage_of_reordering,
    ),
    *(
        Claim("{row}", _BESIDE, partial(of_heads.best_aligning_heads, name))
        for name in ("en-es", "de-en", "books-small", "copy")
    ),
    Claim(
        "Three of them align the word that they are about to write; in `en-es`, trained the "
        "longest, a head of the first layer aligns the word that was read last better than any "
        "head aligns the next",
        _BESIDE,
        of_heads.which_word_heads_align,
    ),
    Claim(
        "```\n{links}\n``` In `3-5`, *red*, word 3 of the source, is aligned with *rojo*",
        "docs/from-the-shell.md",
        partial(of_heads.aligned_words, "en-es"),
    ),
    Claim(
        "of the {heads} heads of cross-attention of `en-es`, the two with most weight on `</s>` "
        "are the {first} and the {second} by what switching them off costs",
        _MAPS,
        partial(of_heads.resting_heads_are_needed, "en-es"),
    ),
    *(
        Claim(
            f"| {{steps}} | {minutes} min | {{size}} kB |",
            _BESIDE,
            partial(of_heads.sizes_of_measures, name),
        )
        for name, minutes in (
            ("en-es", "6.3"),
            ("de-en", "about 9"),
            ("books-small", "5.9"),
            ("copy", "1.0"),
        )
    ),
    Claim(
        "`measures/{name}`, of about {size} kB for two stacks of three layers with {width} neurons",
        _HEADS,
        partial(of_heads.size_of_neurons, "en-es"),
    ),
    Claim(
        "the rest comes from what layers wrote and from biases: in the shipped runs at least "
        "{upper} above the first layer, and at least {last} in the last",
        _HEADS,
        of_heads.what_layers_wrote,
    ),
    Claim(
        "The measures of the shipped runs are over the first {sentences} validation sentences of "
        "each, from Tatoeba, Multi30k or the copy task",
        _HEADS,
        of_heads.sentences_of_measures,
    ),
    Claim(
        "{spanish} for English to Spanish and {english} for German to English",
        _HEADS,
        of_heads.numbers_of_pairs,
    ),
    Claim(
        "At its last checkpoint `de-en` is right in {share} of {count} pairs (95% interval {low} "
        "to {high}): in all {article} of the article (exact interval {article_low} to "
        "{article_high}), in {negation} of {each} of negation and of the pronoun ({negation_low} "
        "to {negation_high}), and in {tense} of {each} ({tense_low} to {tense_high}) both of tense "
        "and of *Den Hund beobachtet der Junge*, where the object comes first: it takes the "
        "present, and the first noun for the subject, whatever the source says. No head's interval "
        "is above 0.",
        _HEADS,
        partial(of_heads.accuracy_on_pairs, "de-en"),
    ),
)

_OF_TASKS = (
    Claim(
        "Its embeddings leave to the positions the dimensions in which these differ most.",
        _TRAINING,
        partial(of_tasks.embeddings_leave_dimensions, "copy"),
    ),
    Claim(
        "all {right} of {all} unseen sequences are copied exactly (95% interval from {low})",
        _README,
        of_tasks.copies_what_it_has_not_seen,
    ),
    Claim(
        "layer 1, head 1 of cross-attention has its largest weight on the copied symbol in all "
        "{rows} of their rows",
        _README,
        of_tasks.looks_at_the_copied_symbol,
    ),
    Claim(
        "left out of {sentences} example sentences. Over {predictions} predictions of `de-en`'s "
        "own translations, the rank correlation (Spearman) of its share with the log-probability "
        "lost is {rho_alti} on average ({rho_cross} for the mean of the last layer's "
        "cross-attention), and the strongest token is the same in {same_alti} ({same_cross}; 95% "
        "interval of the difference, over sentences: {low} to {high} points). So shares name the "
        "token that matters most more often",
        _HEADS,
        partial(of_tasks.strongest_source_token, "de-en"),
    ),
)

_APART = (
    Claim(
        "A reference of `en-es` or `de-en` has a higher mean than an unrelated sentence, each with "
        "each, in more than 99.9%. Cross-attention tells them apart hardly: the weight that heads "
        "have at most on the source token that they look at least is higher in {share_en} (95% "
        "interval {low_en} to {high_en}) and {share_de} ({low_de} to {high_de}), where guessing "
        "has 50%.",
        _HEADS,
        of_tasks.references_told_apart,
    ),
)
_BY_NORMS = (
    *(
        Claim("{row}", _HEADS, partial(of_tasks.aligned_by_norms, name, rows))
        for name in ("en-es", "de-en")
        for rows in ("predicted", "consumed")
    ),
    Claim(
        "So the direction is found in one of four: layers of `en-es` by the consumed word. By the "
        "predicted word the intervals have 0 in them, norms of single heads are nowhere better, "
        "and in `de-en` no map aligns the consumed word as well as the diagonal does ({diagonal})",
        _HEADS,
        of_tasks.where_norms_align_better,
    ),
)
_ALIKE = "nearly alike over 512 sentences (rank correlation {least} to {most})"
_OF_ZERO = (
    Claim(
        f"A head's mean output in its place ranks the heads of the runs that ship {_ALIKE}; in "
        "{moved} of the {runs} another head is first",
        "viz_app/analysis/labels.py",
        of_tasks.zero_and_mean_rank_alike,
    ),
    Claim(
        "Over their corpora zero and mean rank the heads of the shipped runs alike to a rank "
        "correlation of {least} to {most}; in {moved} of the {runs} another head is first",
        _HEADS,
        of_tasks.zero_and_mean_rank_alike,
    ),
)

_OF_WRITING = (
    Claim(
        "In `en-es` {above_en} of {edges_en} edges lie above and {below_en} as far below, in "
        "`de-en` {above_de} and {below_de} of {edges_de}, in `books-small` no more than by chance",
        _MAPS,
        of_writing.edges_beyond_chance,
    ),
    Claim(
        "In `books-small` {count} of {of} edges between heads stands out; its matrices of "
        "attention are still close to the random ones of step 0 (cosine {least} to {most}; in "
        "`en-es` {other_least} to {other_most}). Of what training added to them, more than half of "
        "the edges stand out.",
        _HEADS,
        partial(of_writing.edges_of_what_changed, "books-small", "en-es"),
    ),
    Claim(
        "Both heads of the first layer of `copy`'s decoder end at {last_0} and {last_1} by "
        "position, from {first_0} and {first_1} at step 0",
        _HEADS,
        of_writing.copying_is_by_position,
    ),
    Claim(
        "In the encoder of `en-es` one head of the first layer is by position to {most} ± {error}, "
        "and none above the first layer to more than 0.10",
        _HEADS,
        partial(of_writing.first_layer_by_position, "en-es"),
    ),
    Claim(
        "In `en-es` the token that head {head} of cross-attention raises most is the translation "
        "of {right} of {tokens} source tokens of the lexicon ({share}, 95% interval {low} to "
        "{high}; with the other entries' translations {chance})",
        _HEADS,
        partial(of_writing.best_dictionary, "en-es"),
    ),
    Claim(
        "In its decoder head {copies_head} copies: {copies} of the vocabulary is raised less than "
        "the token that it reads ({copies_chance} where it reads another one), and head "
        "{lowers_head} suppresses: {lowers} ({lowers_chance})",
        _HEADS,
        partial(of_writing.copying_heads, "en-es"),
    ),
    Claim(
        "In `copy` both heads of the last layer of cross-attention write the symbol that they "
        "read, all seven",
        _HEADS,
        of_writing.copy_writes_all,
    ),
)

CLAIMS = (
    *_OF_LOGS,
    *_OF_MAKING,
    *_OF_HEADS,
    *_OF_TASKS,
    *_APART,
    *_BY_NORMS,
    *_OF_ZERO,
    *OF_LESSONS,
    *_OF_WRITING,
)
