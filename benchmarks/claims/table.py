"""The list of claims about the runs that ship."""

from __future__ import annotations

from functools import partial

from benchmarks.claims import of_heads, of_logs, of_tasks, of_writing
from benchmarks.claims.record import Claim

_README, _BESIDE = "README.md", "benchmarks/README.md"
_TRAINING, _MAPS, _HEADS = "docs/training.md", "docs/reading-maps.md", "docs/measuring-heads.md"
_LESSONS = "viz_app/lessons/texts"
_SIZE = "{encoder} + {decoder} layers, {heads} heads, D = {width}, "
_REST = "{parameters} M parameters, {checkpoints} checkpoints"
_ONE = _SIZE + "one vocabulary of {source} tokens, " + _REST

_OF_LOGS = (
    Claim("{number} trained models come with it", _README, of_logs.how_many_ship),
    Claim(
        f"the one to explore | {_ONE} |",
        _README,
        partial(of_logs.size, "en-es"),
    ),
    Claim(
        f"preset `pre-norm` | {_ONE} |",
        _README,
        partial(of_logs.size, "de-en"),
    ),
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
    Claim(
        "saw only {pairs} pairs, again and again",
        f"{_LESSONS}/11-overfitting.md",
        partial(of_logs.trained_on, "books-small"),
    ),
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
        "the command above makes the same training in one go. {left} of its {all} checkpoints are "
        "in the repository",
        _TRAINING,
        partial(of_logs.made_by_the_command, "en-es"),
    ),
    *(
        Claim(
            f"# {name}: {minutes} minutes",
            _TRAINING,
            partial(of_logs.made_by_the_command, name),
            title=f"the command that made {name}",
        )
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
        Claim(
            "{rows}",
            _BESIDE,
            partial(of_logs.table_of_milestones, name),
            title=f"the table of loss, BLEU and chrF of {name}",
        )
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

_OF_HEADS = (
    Claim(
        "Of the shipped runs `de-en` shows the first two: at its step {step} the language model "
        "finds the translations likelier than the references ({own} and {reference} nats a token), "
        "with a chrF of {chrf}, and the source's part in predictions is at its lowest",
        _HEADS,
        partial(of_heads.first_two_stages, "de-en"),
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
            ("en-es", "4"),
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
        "The measures of the shipped runs are over the first {sentences} validation sentences of",
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
        "to {high}): in all {article} of the article, in {negation} of {each} of negation and of "
        "the pronoun, and in {tense} of {each} both of tense and of *Den Hund beobachtet der "
        "Junge*, where the object comes first: it takes the present, and the first noun for the "
        "subject, whatever the source says. No head's interval is above 0.",
        _HEADS,
        partial(of_heads.accuracy_on_pairs, "de-en"),
    ),
)

_OF_TASKS = (
    Claim(
        "all {right} of {all} unseen sequences are copied exactly",
        _README,
        of_tasks.copies_what_it_has_not_seen,
    ),
    Claim(
        "layer 1, head 1 of cross-attention has its largest weight on the copied symbol in {share} "
        "of the rows",
        _README,
        of_tasks.looks_at_the_copied_symbol,
    ),
    Claim(
        "left out of {sentences} example sentences: the rank correlation (Spearman) of its share "
        "with the log-probability lost, the mean over predictions, is {rho_alti} for `de-en` on "
        "its own translations ({rho_cross} for the mean of the last layer's cross-attention), and "
        "the strongest token is the same in {same_alti} of predictions ({same_cross})",
        _HEADS,
        partial(of_tasks.strongest_source_token, "de-en"),
    ),
)

_OF_LESSONS = (
    Claim(
        "neighbouring rows look more alike than rows some places apart",
        f"{_LESSONS}/02-input.md",
        of_tasks.neighbouring_places_look_alike,
    ),
    Claim(
        "The translation is nonsense.",
        f"{_LESSONS}/10-learned.md",
        of_logs.nothing_is_known_at_first,
    ),
    Claim(
        "mostly by little: the weights of a row are spread nearly evenly",
        f"{_LESSONS}/10-learned.md",
        of_heads.maps_are_flat_at_first,
    ),
    Claim(
        "All that time the other loss **rises**",
        f"{_LESSONS}/11-overfitting.md",
        partial(of_logs.best_by, "books-small"),
    ),
    Claim(
        "It falls to almost nothing.",
        f"{_LESSONS}/11-overfitting.md",
        partial(of_logs.by_heart, "books-small"),
    ),
    Claim(
        "So the loss can rise while the translations get better.",
        f"{_LESSONS}/11-overfitting.md",
        partial(of_logs.best_by, "books-small"),
    ),
    Claim(
        "Look for it in this head, and in the other heads of the picture.",
        f"{_LESSONS}/12-copy.md",
        of_tasks.looks_at_the_copied_symbol,
    ),
    Claim(
        "Where two heads bring the same, either can be missed: that is *redundancy*",
        f"{_LESSONS}/12-copy.md",
        of_tasks.two_heads_bring_the_same,
    ),
    Claim(
        "The run *copy* learned one thing: to repeat a sequence of symbols.",
        f"{_LESSONS}/12-copy.md",
        of_tasks.copies_what_it_has_not_seen,
    ),
    Claim(
        "By the loss, the best checkpoint is not the last one.",
        f"{_LESSONS}/11-overfitting.md",
        partial(of_logs.best_by, "books-small"),
    ),
    Claim(
        "Up to here the translation is the same, and only the ending is open.",
        f"{_LESSONS}/16-agreement.md",
        partial(of_tasks.only_the_ending_is_open, "en-es"),
    ),
    Claim(
        "The second sentence has a word more, whose column is grey",
        f"{_LESSONS}/18-negation.md",
        partial(of_tasks.an_added_word_has_no_counterpart, "en-es"),
    ),
    Claim("Costs of heads do not add up.", f"{_LESSONS}/12-copy.md", of_tasks.costs_do_not_add_up),
)

_OF_WRITING = (
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

CLAIMS = (*_OF_LOGS, *_OF_HEADS, *_OF_TASKS, *_OF_LESSONS, *_OF_WRITING)
