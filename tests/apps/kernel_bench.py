#!/usr/bin/env python3
"""kernel_bench as a program: every op is there and was checked, its files can be read, bad input is refused."""

import csv
import json
import re

from program import ProgramTest, ROOT, main, run

# The smallest run that has every op.
LINE = ["--model", "resnet18", "--channels", "16", "--batch-size", "2", "--threads", "1", "--repetitions", "1"]


def ops_of_the_catalogue():
    """The names of the ops in kernels/backend.h: its virtual functions that take a stream."""
    text = (ROOT / "kernels" / "backend.h").read_text()
    return set(re.findall(r"virtual void (\w+)\(Stream&", text))


def check_run(test, device, *more):
    """A whole run on the device: table, JSON and CSV say the same, and hold every op."""
    files = {name: test.path(f"{device}.{name}") for name in ("json", "csv")}
    line = [*LINE, "--device", device, *more, "--json", files["json"], "--csv", files["csv"]]
    out = test.good(run(0, line, "kernel_bench")).out
    result = json.loads(files["json"].read_text())
    test.assertEqual((result["device"], result["model"], result["batch_size"]), (device, "resnet18", 2))
    test.assertGreater(result["copy_peak_gb_per_s"], 0)
    test.assertGreater(result["fma_peak_gflop_per_s"], 0)
    ops = ops_of_the_catalogue()
    test.assertGreater(len(ops), 25)
    test.assertEqual({row["op"] for row in result["rows"]}, ops)
    with files["csv"].open(newline="") as stream:
        table = list(csv.DictReader(stream))
    test.assertEqual(len(table), len(result["rows"]))
    for row, cells in zip(result["rows"], table):
        test.assertEqual(list(row), list(cells))
        for key, value in row.items():
            test.assertEqual(type(value)(cells[key]), value, (row["op"], key))
        test.assertGreater(row["ms"], 0)
        test.assertGreater(row["bytes"], 0)
        test.assertTrue(0 < row["checked_samples"] <= row["samples"], row)
        test.assertIn(row["bound"], ("copy", "fma"))
        test.assertRegex(out, rf"(?m)^{row['op']} +{re.escape(row['shape'])} ")
    return result


class KernelBench(ProgramTest):
    def test_the_cpu(self):
        result = check_run(self, "cpu", "--dtype", "bf16")
        self.assertEqual(result["dtype"], "bf16")

    def test_the_reference_loops(self):
        check_run(self, "reference", "--stem", "cifar")

    def test_the_default_device_and_a_filter(self):
        path = self.path("relu.json")
        self.good(run(0, [*LINE, "--op", "relu_", "--json", path], "kernel_bench"))
        result = json.loads(path.read_text())
        self.assertEqual(result["device"], "cpu")
        self.assertEqual([row["op"] for row in result["rows"]], ["relu_forward", "relu_backward"])

    def test_what_is_refused(self):
        for arguments, code, parts in [
            (["--bogus"], 2, ["--bogus", "--help"]),
            (["--device", "tpu"], 2, ["--device", "tpu", "reference"]),
            (["--dtype", "fp99"], 2, ["--dtype", "fp99", "bf16"]),
            (["--model", "resnet19"], 2, ["--model", "resnet19"]),
            (["--input", "64"], 2, ["--input", "64"]),
            (["--batch-size", "0"], 2, ["--batch-size"]),
            (["--batch-size", "1"], 2, ["--batch-size 1", "batch norm"]),
            (["--repetitions", "0"], 2, ["--repetitions"]),
            (["--op", ""], 2, ["--op", "empty"]),
            (["--json", ""], 2, ["--json", "empty"]),
            (["--op", "matmul"], 2, ["--op matmul", "conv2d_forward"]),
            (["--csv", "same", "--json", "same"], 2, ["--csv and --json", "same"]),
            (["--json", "/nowhere/a.json"], 3, ["--json /nowhere/a.json", "No such file"]),
            (["--csv", str(self.scratch)], 3, ["--csv", "directory"]),
        ]:
            with self.subTest(arguments):
                self.refused(run(0, arguments, "kernel_bench"), code, *parts)

    def test_help_and_document_have_the_same_options(self):
        text = self.good(run(0, ["--help"], "kernel_bench")).out
        document = (ROOT / "docs" / "interfaces.md").read_text()
        section = document[document.index("## Options of kernel_bench"):]
        section = section[:section.index("\n## ")]
        documented = re.findall(r"^\| `(--[\w-]+)", section, re.M)
        self.assertGreater(len(documented), 10)
        self.assertEqual(documented, re.findall(r"^ +(--[\w-]+)", text, re.M))


if __name__ == "__main__":
    main()
