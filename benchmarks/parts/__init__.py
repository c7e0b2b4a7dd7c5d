"""The parts of ``python -m benchmarks``: functions that measure, and what they are declared as.

Each is given ``Findings`` to add to, and how many rounds to measure in.
"""

PARTS = {
    "forward": ("compared.forward", "a pass beside Marian (sdpa) and torch.nn.Transformer"),
    "capture": ("compared.capture", "all attention recorded, beside Marian and TransformerLens"),
    "trace": ("compared.trace", "a trace beside Marian's attention and BertViz's model view"),
    "greedy": ("compared.greedy", "greedy decoding beside Marian's generate and CTranslate2"),
    "training": ("compared.training", "an optimiser step beside Marian and torch.nn.Transformer"),
    "pages": ("pages.measure", "a new sentence in Chromium beside BertViz: bytes and seconds"),
    "reruns": ("reruns.measure", "the server's processor: a sentence, another head or page"),
    "felt": ("web_vitals.measure", "Core Web Vitals of every page and of ten clicks; page turns"),
    "start": ("start.measure", "seconds from the process to the first map, and its imports"),
    "growth": ("growth.measure", "seconds and bytes of a page by the tokens of its sentence"),
    "load": ("load.measure", "1, 5 and 20 sessions at once on one server"),
}
"""Name → function in this package, and what it measures; in the order in which they run."""
