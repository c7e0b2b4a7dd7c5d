"""Corrupt the content of files: any bytes, JSON, and the header of a safetensors file."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

Corruption = tuple[str, bytes]
"""What was done, and the content after that."""

# Placeholders, replaced in the text by what json would not write.
_RAW, _TWICE = "@raw@", "@twice@"
_RAWS = (
    *("NaN", "-Infinity", "1e999", "-0.0", "9" * 400, "9" * 5_000),
    *("[" * 100_000 + "]" * 100_000, '{"a":' * 5_000 + "1" + "}" * 5_000, "[" * 900 + "]" * 900),
    *(r'"\ud800"', r'"a\u0000b"'),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 0.5, 1e308),
    *(10**9, 2**31, 2**53 + 1, 2**63, 2**64, -(10**30)),
    *("", "x", "0", "../../../etc/passwd", "/dev/zero", "<b>%{z}</b>", "a" * 100_000),
    "e\u0301\u202e\U0001f469\u200d\U0001f680",
    *([], [1], [[]], {}, {"a": 1}, list(range(10_000))),
)


_BYTES = ("flip", "flip", "overwrite", "truncate", "delete", "insert", "append")
_BYTES += ("swap", "zero", "length")
_ODD = (b"\0", b"\n", b"\xff", b"\xed\xa0\x80", b"{", b'"', b"\\", b"\xef\xbb\xbf", b",0")


def of_bytes(content: bytes, rng: random.Random) -> Corruption:
    """Change some bytes of any file that has some."""
    how, size = rng.choice(_BYTES), len(content)
    start = rng.randrange(size)
    stop = min(start + rng.randint(1, 64), size)
    before, within, after = content[:start], content[start:stop], content[stop:]
    match how:
        case "flip":
            flipped = bytearray(content)
            for _ in range(rng.choice((1, 1, 1, 2, 8))):
                flipped[rng.randrange(size)] ^= 1 << rng.randrange(8)
            changed = bytes(flipped)
        case "overwrite":
            changed = before + rng.randbytes(min(9, len(within))) + within[9:] + after
        case "truncate":
            changed = content[: rng.choice((0, 1, 8, size - 1, start))]
        case "delete":
            changed = before + after
        case "insert":
            changed = before + rng.choice((*_ODD, rng.randbytes(len(within)))) + within + after
        case "append":
            changed = content + rng.choice(
                (b"\0", b"\n", b"{}", b"x\n", content, rng.randbytes(64))
            )
        case "swap":  # a part and as long a part of what follows it
            length = min(rng.randint(1, max(1, size // 3)), len(content[start:]) // 2)
            at = rng.randint(start + length, size - length)
            first, second = content[start : start + length], content[at : at + length]
            changed = (
                before + second + content[start + length : at] + first + content[at + length :]
            )
        case "zero":
            length = min(rng.randint(1, rng.choice((8, 512, size))), size - start)
            changed = before + bytes(length) + content[start + length :]
        case _:  # the length of a safetensors header
            length = rng.choice((0, 1, 2**31, 2**62, 2**64 - 1, size, rng.randrange(2**20)))
            changed = length.to_bytes(8, "little") + content[8:]
    return how, changed


def _holders(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (object or array, key or index) in a value."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _holders(value[key])


def of_json(content: bytes, rng: random.Random) -> Corruption:
    """Change one place of a JSON text: its value, its key, or whether it is there."""
    root = {"root": json.loads(content)}
    places = list(_holders(root))
    # As likely one of the places near the root as one of the thousands of a vocabulary.
    holder, key = rng.choice(places[: rng.choice((10, 60, len(places)))])
    ways = ("value", "value", "value", "raw", "remove", "rename", "twice", "copy", "move")
    how = rng.choice(ways)
    raw, twice = rng.choice(_RAWS), json.dumps(rng.choice(_VALUES))
    others = [h[k] for h, k in places]
    if how == "remove" and holder is not root:
        del holder[key]
    elif how in ("rename", "twice") and isinstance(holder, dict) and holder is not root:
        if how == "rename":
            holder[rng.choice(("", "x", key + "\0", key.upper(), "../x"))] = holder.pop(key)
        else:
            holder[_TWICE] = None
    elif how == "raw":
        holder[key] = _RAW
    elif how == "copy" and isinstance(holder, list):
        holder.insert(key, holder[key])
    elif how == "move":
        holder[key] = json.loads(json.dumps(rng.choice(others)))
    else:
        how, holder[key] = "value", rng.choice(_VALUES)
    text = json.dumps(root["root"], ensure_ascii=False, separators=(",", ":"))
    text = text.replace(json.dumps(_RAW), raw)
    text = text.replace(f"{json.dumps(_TWICE)}:null", f"{json.dumps(key)}:{twice}")
    return f"json {how} at {str(key)[:40]!r}", text.encode()


def of_json_lines(content: bytes, rng: random.Random) -> Corruption:
    """Change one place of one line of JSON lines, or the order of the lines."""
    lines = content.splitlines(keepends=True)
    line = rng.randrange(len(lines))
    if rng.random() < 0.1:
        rng.shuffle(lines)
        return "lines shuffled", b"".join(lines)
    how, changed = of_json(lines[line], rng)
    lines[line] = changed + b"\n"
    return f"line {line + 1}: {how}", b"".join(lines)


def of_header(content: bytes, rng: random.Random) -> Corruption:
    """Change one place of the JSON header of a safetensors file, and correct its length."""
    length = int.from_bytes(content[:8], "little")
    if rng.random() < 0.3:  # types and shapes are what a reader trusts most
        header = json.loads(content[8 : 8 + length])
        tensor = header[rng.choice([name for name in header if name != "__metadata__"])]
        tensor["dtype"] = rng.choice(("F4", "F8_E8M0", "I16", "U16", "BF16", "F64", "C64", "X"))
        if rng.random() < 0.3:
            tensor["shape"] = rng.choice(([], [0], [1, *tensor["shape"]], [2**32, 2**32]))
        how, changed = "json dtype", json.dumps(header).encode()
    else:
        how, changed = of_json(content[8 : 8 + length], rng)
    return f"header: {how}", len(changed).to_bytes(8, "little") + changed + content[8 + length :]


Corrupter = Callable[[bytes, random.Random], Corruption]


def corrupt(content: bytes, structured: Corrupter, seed: int) -> Corruption:
    """Change the file, in its structure or in its bytes as the seed decides."""
    rng = random.Random(seed)
    while True:
        how, changed = rng.choice((structured, of_bytes))(content, rng)
        if changed != content:
            return how, changed
