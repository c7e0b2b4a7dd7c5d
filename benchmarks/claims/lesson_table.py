"""The claims of lessons about the runs that ship."""

from __future__ import annotations

from functools import partial

from benchmarks.claims import of_heads, of_logs, of_tasks, of_writing
from benchmarks.claims.record import Claim

_LESSONS = "viz_app/lessons/texts"
OF_LESSONS = (
    Claim(
        "saw only {pairs} pairs, again and again",
        f"{_LESSONS}/11-overfitting.md",
        partial(of_logs.trained_on, "books-small"),
    ),
    Claim(
        "The loss on pairs that it was **not** trained with falls at first. Then something else "
        "begins.",
        f"{_LESSONS}/11-overfitting.md",
        partial(of_logs.best_by, "books-small"),
    ),
    Claim(
        "where the model is wrong about pairs that it has not seen, it is more and more sure",
        f"{_LESSONS}/11-overfitting.md",
        partial(of_tasks.surer_where_wrong, "books-small"),
    ),
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
        "in *books-small* those of attention end at a cosine of {least} to {most} with step 0, in "
        "*en-es* at {other_least} to {other_most}",
        f"{_LESSONS}/10-learned.md",
        partial(of_writing.edges_of_what_changed, "books-small", "en-es"),
    ),
    Claim(
        "In the shipped runs that, with biases, makes up at least {last} of the variance of its "
        "scores",
        f"{_LESSONS}/19-position.md",
        of_heads.what_layers_wrote,
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
    Claim(
        "run=en-es&kind=cross&layer={layer}&head={number}&heads=writes&dictionary_of=sentence",
        f"{_LESSONS}/20-dictionary.md",
        partial(of_writing.best_dictionary, "en-es"),
    ),
    Claim(
        "## A head that copies page: heads "
        "view: run=en-es&kind=decoder_self&layer={layer}&head={number}&heads=writes"
        "&dictionary_of=sentence",
        f"{_LESSONS}/20-dictionary.md",
        partial(of_writing.copying_heads, "en-es"),
    ),
)
