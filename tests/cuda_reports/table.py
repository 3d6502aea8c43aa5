"""Tables that are made by a report and committed in a document, each between two marks."""

import pathlib
import re

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "results" / "cuda_kernels.md"


def markdown(titles, rows):
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def _marked(name):
    return re.compile(rf"(<!-- made by the report: {name} -->\n\n)(.*?)(\n\n<!-- end -->)", re.DOTALL)


def committed(name):
    return _marked(name).search(DOCUMENT.read_text()).group(2)


def check(name, text, write, command):
    """Problems, at most one: the committed table is another one. Writes it instead where that is asked for."""
    if write:
        DOCUMENT.write_text(_marked(name).sub(lambda match: match.group(1) + text + match.group(3), DOCUMENT.read_text()))
    elif committed(name) != text:
        old, new = committed(name).splitlines(), text.splitlines()
        lines = [f"  - {line}" for line in old if line not in new] + [f"  + {line}" for line in new if line not in old]
        return ["\n".join([f"{DOCUMENT.name} is out of date; `{command}` writes it:", *lines])]
    return []
