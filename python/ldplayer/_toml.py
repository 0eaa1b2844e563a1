"""Dictionaries as TOML, as far as specifications of ldplayer have need of it."""

import json
import os
from typing import Any, List, Mapping, Sequence


def document(table: Mapping[str, Any]) -> str:
    """A dictionary whose values are numbers, texts, paths, truths, lists and dictionaries; None is left out."""
    return "\n".join(lines(table, "")) + "\n"


def lines(table: Mapping[str, Any], prefix: str) -> List[str]:
    given = {key: value for key, value in table.items() if value is not None}
    found = [f"{quoted(key)} = {value_of(value)}" for key, value in given.items() if not is_table(value) and not is_array(value)]
    for key, value in given.items():
        name = prefix + quoted(key)
        if is_table(value):
            found += ["", f"[{name}]", *lines(value, name + ".")]
        elif is_array(value):
            for one in value:
                found += ["", f"[[{name}]]", *lines(one, name + ".")]
    return found


def is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def is_array(value: Any) -> bool:
    """Of tables."""
    return isinstance(value, (list, tuple)) and bool(value) and all(map(is_table, value))


def quoted(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else text(key)


def text(value: str) -> str:
    """A text of JSON is one of TOML, but for DEL, and for pairs of escapes where JSON has one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def value_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (str, os.PathLike)):
        return text(os.fspath(value))
    if is_table(value):
        return "{ " + ", ".join(f"{quoted(key)} = {value_of(one)}" for key, one in value.items()) + " }"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(value_of, value)) + "]"
    raise TypeError(f"{value!r} cannot be in a specification")
