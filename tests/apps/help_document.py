#!/usr/bin/env python3
"""The tables of options in docs/interfaces.md and --help say the same, line by line."""

import re

from program import ProgramTest, ROOT, main, run


def options_of(help_text):
    """[(option with its type, text, default)]"""
    options = []
    for line in help_text.splitlines():
        match = re.match(r"  (--\S.*?)  +(\S.*?)(?: \[([^\]]+)\])?$", line)
        if match:
            options.append((match[1], match[2], match[3] or "off"))
    return options


def table(help_text):
    rows = []
    for option, text, default in options_of(help_text):
        default = "" if option in ("--help", "--version") else default
        rows.append(f"| `{option}` | {text} | {default} |")
    return rows


class Help(ProgramTest):
    def test_document_and_help_agree(self):
        document = (ROOT / "docs" / "interfaces.md").read_text()
        for program in ("resnet_train", "step_bench", "allreduce_bench"):
            section = document[document.index(f"## Options of {program}"):]
            section = section[:section.index("\n## ")]
            documented = [line for line in section.splitlines() if line.startswith("| `--")]
            self.assertEqual(documented, table(self.good(run(0, ["--help"], program)).out))
            self.assertGreater(len(documented), 12)

    def test_one_rank_prints(self):
        self.assertEqual(self.good(run(2, ["--help"])).out.count("usage: resnet_train"), 1)
        result = self.good(run(2, ["--version"]))
        self.assertEqual(len(re.findall(r"^build +[0-9a-f]{40}$", result.out, re.M)), 1)


if __name__ == "__main__":
    main()
