#!/usr/bin/env python3
"""scripts/gpu_check: `gpu_check.py BUILD_DIRECTORY CLASS`, Simulated for a build with the simulated GPU, Here for one
with CUDA's own libraries, on a machine with or without a GPU."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
SANITIZER_STEPS = 16  # eight tests, two tools


def run(command, **variables):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=1200,
                          stdin=subprocess.DEVNULL, env={**os.environ, **variables})


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.report = self.folder / "new" / "report.md"

    def program(self, name, text):
        path = self.folder / "path" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)

    def check(self, directory=BUILD, **variables):
        variables.setdefault("PATH", f"{self.folder / 'path'}:{os.environ['PATH']}")
        done = run([ROOT / "scripts/gpu_check", "--report", self.report, "--build-directory", directory], **variables)
        return done.returncode, done.stdout + done.stderr

    def steps(self):
        """Name to (result, why), from the report's first JSON block, which agrees with the table above it."""
        text = self.report.read_text()
        blocks = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```$", text, re.M | re.S)]
        summary = blocks[0]
        for step in summary["steps"]:
            self.assertIn(f"| {step['step']} | {step['result']} | {step['seconds']} |", text)
        self.assertTrue(text.startswith(f"# GPU check: {summary['result']}\n"))
        return {step["step"]: (step["result"], step["why"]) for step in summary["steps"]}, blocks[1:]


class Simulated(GpuCheckTest):
    def test_all_steps_pass(self):
        self.program("compute-sanitizer", 'echo "tool $2"; shift 4; exec "$@"')
        code, output = self.check(CUDASIM="devices=2")
        self.assertEqual(code, 0, output)
        steps, blocks = self.steps()
        passed = {name for name, (result, _) in steps.items() if result == "passed"}
        self.assertLessEqual({"device", "tests", "step_fp32", "step_bf16", "step_bf16_graph", "two_ranks"}, passed)
        self.assertEqual(len([name for name in passed if re.match("memcheck_|racecheck_", name)]), SANITIZER_STEPS)
        for name, (result, why) in steps.items():
            self.assertEqual(result == "not run", why != "", name)
        device = blocks[0]
        self.assertEqual(device["device_count"], 2)
        self.assertEqual(device["devices"][0]["compute_capability"], "9.0")
        self.assertEqual(device["cudnn"]["device_properties"]["deviceName"], "NVIDIA H200")
        self.assertEqual(device["cudnn"]["differences"], {})
        self.assertEqual(device["cudnn"]["engines"]["planned_otherwise"], {})
        self.assertGreater(device["cudnn"]["engines"]["compared"], 300)
        self.assertEqual([block["dtype"] for block in blocks[1:4]], ["fp32", "bf16", "bf16"])

    def test_a_step_that_fails_does_not_end_the_others(self):
        self.program("compute-sanitizer", "exit 3")
        code, output = self.check(CUDASIM="devices=1 fail=cudaGraphInstantiate:1:1")
        self.assertEqual(code, 1, output)
        steps, _ = self.steps()
        self.assertEqual(steps["step_bf16"], ("passed", ""))
        self.assertEqual(steps["step_bf16_graph"][0], "failed")
        self.assertIn("exit code 6: ", steps["step_bf16_graph"][1])
        self.assertEqual(steps["two_ranks"], ("not run", "the report names 1 device"))
        self.assertEqual(steps["racecheck_batch_norm"], ("failed", "exit code 3: "))

    def test_a_step_that_does_not_end_is_stopped(self):
        self.program("timeout", "exit 124")  # what it says when it has stopped a command
        code, output = self.check(CUDASIM="devices=2")
        self.assertEqual(code, 1, output)
        steps, _ = self.steps()
        self.assertEqual(steps["tests"], ("failed", "stopped: not done after 1200 s"))

    def test_no_device(self):
        for simulator, why in (("devices=0", "finds no GPU"), ("devices=0 fail=cudaGetDeviceCount:1:34", "stub stands in"),
                               ("devices=0 fail=cudaGetDeviceCount:1:35", "there is no NVIDIA driver")):
            with self.subTest(simulator):
                code, output = self.check(CUDASIM=simulator)
                self.assertEqual(code, 6, output)
                self.assertIn(why, output)
                self.assertFalse(self.report.exists())
                tests = run([BUILD / "bin/test_cuda"], CUDASIM=simulator)
                self.assertEqual(tests.returncode, 6)
                self.assertIn(why, tests.stderr)

    def test_nothing_is_built(self):
        code, output = self.check(self.folder)
        self.assertEqual(code, 1, output)
        self.assertEqual(self.steps()[0]["tests"][0], "not run")

    def test_usage(self):
        for arguments in (["--report"], ["--no-such-option", "1"]):
            done = run([ROOT / "scripts/gpu_check", *arguments])
            self.assertEqual(done.returncode, 2)
            self.assertIn("--bundle FILE", done.stderr)


class Here(GpuCheckTest):
    """On whatever machine this is: the device's own tests pass, or every program says why there is no device."""

    def test_with_or_without_a_device(self):
        found = run([BUILD / "bin/gpu_report"])
        code, output = self.check()
        if found.returncode == 0:
            self.assertEqual(code, 0, output)
            self.assertEqual(self.steps()[0]["tests"], ("passed", ""))
            return
        self.assertEqual(code, 6, output)
        why = r"no NVIDIA driver|driver is too old|stub stands in|finds no GPU|leaves no device visible"
        self.assertRegex(output, f"there is no GPU to check: .*({why})")
        for program in ("gpu_report", "test_cuda"):
            done = run([BUILD / "bin" / program])
            self.assertEqual(done.returncode, 6, program)
            self.assertRegex(done.stderr, why)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
