#!/usr/bin/env python3
"""scripts/cuda_toolkit, with small wheels of the same names in place of PyPI's."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import zipfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "cuda_toolkit"
# Where the parts of the toolkit lie that CMake and the programs look for. Three of the packages, since pip takes a second
# for each.
FILES = {
    "nvidia-cuda-nvcc": ["cu13/bin/nvcc", "cu13/include/cuda_runtime.h", "cu13/lib/libcudart.so.13"],
    "nvidia-cudnn-cu13": ["cudnn/include/cudnn_graph.h", "cudnn/lib/libcudnn.so.9", "cudnn/lib/libcudnn_graph.so.9"],
    "nvidia-nccl-cu13": ["nccl/include/nccl.h", "nccl/lib/libnccl.so.2"],
}
PACKAGES = [(name, version) for name, version in re.findall(r"(nvidia-[\w-]+)==([\d.]+)", SCRIPT.read_text()) if name in FILES]


class CudaToolkit(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="lockstep-")
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.root, self.index = self.scratch / "root", self.scratch / "index"
        self.index.mkdir()
        (self.root / "scripts").mkdir(parents=True)
        script = self.root / "scripts/cuda_toolkit"
        shutil.copy(SCRIPT, script)
        few = " ".join(f"{name}=={version}" for name, version in PACKAGES)
        script.write_text(re.sub(r"^packages=\(.*?\)$", f"packages=({few})", SCRIPT.read_text(), count=1, flags=re.M | re.S))
        self.private = self.root / ".cuda"
        self.toolkit = self.private / "toolkit"

    def publish(self, names):
        for name, version in PACKAGES:
            if name not in names:
                continue
            stem = f"{name.replace('-', '_')}-{version}"
            with zipfile.ZipFile(self.index / f"{stem}-py3-none-any.whl", "w") as wheel:
                for file in FILES[name]:
                    entry = zipfile.ZipInfo(f"nvidia/{file}")
                    entry.external_attr = 0o100755 << 16
                    wheel.writestr(entry, file)
                wheel.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
                wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
                wheel.writestr(f"{stem}.dist-info/RECORD", "")

    def run_script(self, *arguments):
        environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.index), "PIP_CONFIG_FILE": os.devnull}
        return subprocess.run([self.root / "scripts/cuda_toolkit", *arguments], env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)

    def project(self, cmake):
        (self.root / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.22)\nproject(x NONE)\n{cmake}\n")
        (self.root / "CMakePresets.json").write_text(
            '{"version": 3, "configurePresets": [{"name": "ci", "generator": "Ninja", "binaryDir": "${sourceDir}/build/ci"}]}')

    def test_fetches_what_is_missing(self):
        """One story, since each fetch takes seconds: CMake finds none, the network ends too early, then it is back."""
        self.project('message(STATUS "lockstep: CUDA Toolkit with all: FALSE")')
        old = self.root / "build/other"
        old.mkdir(parents=True)
        for name in ("CMakeCache.txt", "program"):
            (old / name).touch()
        (self.toolkit / "lib").mkdir(parents=True)
        (self.toolkit / "lib/libold.so").touch()
        (self.toolkit / "packages.txt").write_text("nvidia-cuda-nvcc==12.0\n")

        names = [name for name, _ in PACKAGES]
        self.publish(names[:-1])
        result = self.run_script()
        self.assertEqual(result.returncode, 1, result.stdout)
        lines = result.stdout.splitlines()
        self.assertIn("MiB to download", lines[1])  # before the first package
        self.assertIn(f"cannot fetch {names[-1]}==", lines[-2])
        self.assertIn("--cpu-only", lines[-1])
        self.assertFalse((self.toolkit / "bin").exists())

        FILES["nvidia-cuda-nvcc"].append("cu13/bin/fetched_twice")
        self.publish([names[0], names[-1]])
        (self.private / "new/nvidia").mkdir(parents=True)  # of an unpacking that was killed
        result = self.run_script()
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertTrue(os.access(self.toolkit / "bin/nvcc", os.X_OK))
        self.assertFalse((self.toolkit / "bin/fetched_twice").exists())
        self.assertFalse((self.toolkit / "lib/libold.so").exists())
        for header in ("cuda_runtime.h", "cudnn_graph.h", "nccl.h"):
            self.assertTrue((self.toolkit / "include" / header).is_file(), header)
        for library, version in (("cudart", "13"), ("cudnn", "9"), ("cudnn_graph", "9"), ("nccl", "2")):
            self.assertTrue((self.toolkit / f"lib64/lib{library}.so").read_text().endswith(f".so.{version}"))
        self.assertEqual({path.name for path in self.private.iterdir()}, {"toolkit", "lock"})
        self.assertEqual([path.name for path in old.iterdir()], ["program"])

        shutil.rmtree(self.index)
        before = self.toolkit.stat()
        for arguments in ((), ("--fetch",)):
            result = self.run_script(*arguments)
            self.assertEqual((result.returncode, result.stdout), (0, ""))
        self.assertEqual(self.toolkit.stat(), before)

    def test_fetches_nothing_where_cmake_finds_all(self):
        self.project('message(STATUS "lockstep: CUDA Toolkit with all: TRUE")')
        result = self.run_script()
        self.assertEqual((result.returncode, result.stdout), (0, ""))
        self.assertFalse(self.private.exists())

    def test_fetches_nothing_where_cmake_fails(self):
        self.project('message(FATAL_ERROR "no compiler")')
        result = self.run_script()
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("no compiler", result.stdout)
        self.assertFalse(self.private.exists())

    def test_usage(self):
        self.assertEqual(self.run_script("--cpu-only").returncode, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
