#!/usr/bin/env python3
"""Whole programs on the simulated GPU: `programs.py BIN_DIRECTORY` of a build that has it."""

import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "apps"))
from program import BIN, ProgramTest, epoch_lines, main, run, step_lines  # noqa: E402

# Damped, so that rounding does not grow from step to step: last gamma of each block 0.1, small learning rate.
LINE = ["--model", "resnet18", "--stem", "cifar", "--batch-size", "4", "--residual-gamma", "0.1", "--lr", "1e-3",
        "--limit-train", "16", "--limit-test", "6", "--epochs", "1", "--threads", "1"]


class Training(ProgramTest):
    def losses(self, device, simulator="", *more):
        metrics = self.path("m.jsonl")
        environment = {**os.environ, "CUDASIM": simulator}
        result = self.good(run(0, [*LINE, "--device", device, "--metrics", metrics, *more], env=environment))
        epoch = epoch_lines(metrics)[0]
        return [line["loss"] for line in step_lines(metrics)] + [epoch["test_loss"]], result

    def test_the_losses_are_those_of_the_cpu(self):
        expected, _ = self.losses("cpu")
        for simulator in ("hidden=1", "eager=1 order=random seed=5"):
            with self.subTest(simulator):
                actual, _ = self.losses("cuda", simulator)
                self.assertEqual(len(actual), len(expected))
                for ours, theirs in zip(actual, expected):
                    self.assertLess(abs(ours - theirs), 1e-4)


TOO_OLD_DRIVER = "fail=cudaGetDeviceCount:1:35"  # what CUDA also says of a driver that is missing
STUB = "fail=cudaGetDeviceCount:1:34"


def with_simulator(simulator, **variables):
    """The environment less the devices that these tests hide from the programs of the CPU."""
    environment = {**os.environ, "CUDASIM": simulator, **variables}
    if "CUDA_VISIBLE_DEVICES" not in variables:
        environment.pop("CUDA_VISIBLE_DEVICES", None)
    return environment


class Device(ProgramTest):
    """Each machine without a device that can be used: `--device cuda` says why and what to do, `auto` takes the CPU."""

    def without_a_device(self, ranks, simulator, *parts, **variables):
        environment = with_simulator(simulator, **variables)
        self.refused(run(ranks, [*LINE, "--device", "cuda"], env=environment), 6, "--device cuda: ", "--device cpu", *parts)
        line = self.device_line(ranks, environment)
        self.assertTrue(line.startswith("device: cpu (no CUDA device: "), line)
        for part in parts:
            self.assertIn(part, line)

    def device_line(self, ranks, environment):
        result = self.good(run(ranks, LINE, env=environment))
        lines = [line for line in result.err.splitlines() if line.startswith("device: ")]
        self.assertEqual(len(lines), 1, str(result))
        self.assertIn(lines[0].split(" ")[1], re.search("^device = '(.*)'$", result.out, re.M)[1])
        return lines[0]

    def test_no_driver(self):
        self.without_a_device(0, TOO_OLD_DRIVER, "there is no NVIDIA driver", "libcuda.so.1", "install one for CUDA 1")

    def test_a_driver_that_is_too_old(self):
        self.without_a_device(0, TOO_OLD_DRIVER, "driver is too old", "knows CUDA 12.4", "install a newer driver",
                              "Toolkit 12.4", LD_LIBRARY_PATH=str(BIN.parent / "old_driver"))

    def test_the_stub_of_the_toolkit(self):
        self.without_a_device(0, STUB, "stub", "LD_LIBRARY_PATH")

    def test_a_driver_and_no_device(self):
        self.without_a_device(0, "devices=0", "finds no GPU", "nvidia-smi")

    def test_hidden_devices(self):
        self.without_a_device(0, "devices=0", 'CUDA_VISIBLE_DEVICES="7"', "unset it", CUDA_VISIBLE_DEVICES="7")

    def test_a_device_older_than_the_kernels(self):
        self.without_a_device(0, "architecture=75 name=T4", "T4 has compute capability 7.5", "need 9.0",
                              "-DCMAKE_CUDA_ARCHITECTURES=75")

    def test_more_ranks_than_devices(self):
        self.without_a_device(2, "devices=1", "on rank 0: 2 ranks run on this host", "sees 1", "at most 1 on a host")

    def test_auto_takes_the_devices_that_are_there(self):
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                self.assertEqual(self.device_line(ranks, with_simulator("")), "device: cuda")

    def test_ranks_that_ask_for_different_devices(self):
        lines = [[*LINE, "--device", device] for device in ("cpu", "auto")]
        self.refused(run(2, lines, env=with_simulator("")), 5, "--device", "'cpu' on rank 0", "'auto' on rank 1")


class Errors(ProgramTest):
    def refused_with(self, simulator, code, *parts):
        self.refused(run(0, [*LINE, "--device", "cuda"], env=with_simulator(simulator)), code, *parts)

    def test_a_driver_that_fails(self):
        # Not a device that is missing: `auto` does not go on without it either.
        environment = with_simulator("fail=cudaGetDeviceCount:1:999")
        for device in ("cuda", "auto"):
            with self.subTest(device):
                self.refused(run(0, [*LINE, "--device", device], env=environment), 6, "cudaGetDeviceCount", "nvidia-smi")

    def test_kernels_of_another_architecture(self):
        self.refused_with("fail=cudaLaunchKernelEx:1:209", 6, "CMAKE_CUDA_ARCHITECTURES")

    def test_too_little_memory(self):
        self.refused_with("memory=100000000", 7, "--batch-size")

    def test_a_call_that_fails_in_the_middle(self):
        for call in ("cudaLaunchKernelEx:500:719", "cudaMemcpyAsync:20:700", "cudaStreamSynchronize:3:719"):
            with self.subTest(call):
                self.refused_with(f"fail={call}", 6, "failed")


if __name__ == "__main__":
    main()
