#!/usr/bin/env python3
"""What NVIDIA's compiler makes of each kernel: registers, spills, shared memory, occupancy.

    tests/cuda_reports/registers.py BUILD [--write]    BUILD: a build with nvcc, such as build/ci

Compiles each .cu file of BUILD for every architecture of ARCHITECTURES with the flags that BUILD has, and fails for a
warning, a spill, or a kernel that keeps variables in local memory. The table that comes of it is in
docs/results/cuda_kernels.md; it fails where that is out of date, and --write writes it. Registers depend on the
compiler: with another release than the table names, the rest is checked and the table is printed.

Threads a block are those of the kernel's launch(name, stream, grid, block, ...). __launch_bounds__ would tell the
compiler too, but it then unrolls more, and spilled or lost occupancy in several kernels (nvcc 13.0).
"""

import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import table

ROOT = pathlib.Path(__file__).resolve().parents[2]
# By CUDA C++ Programming Guide, "Compute Capabilities", table "Technical Specifications per Compute Capability": KiB of
# shared memory of a multiprocessor. What they have in common follows.
ARCHITECTURES = {80: 164, 90: 228, 100: 228}
REGISTERS, THREADS, BLOCKS, WARP = 64 * 1024, 2048, 32, 32
# By NVIDIA's occupancy calculator (in Nsight Compute): a warp's registers come in units of 256 and from one of four
# parts of the multiprocessor; shared memory in units of 128 bytes, after 1 KiB that the system takes for each block.
REGISTER_UNIT, PARTS, SHARED_UNIT, SHARED_OF_SYSTEM = 256, 4, 128, 1024

Compiled = collections.namedtuple("Compiled", "kernel arch threads registers shared")


def rounded_up(value, unit):
    return -(-value // unit) * unit


def occupancy(arch, threads, registers, shared):
    """Threads that run at a time on a multiprocessor, of those that it has room for; in percent."""
    warps = rounded_up(threads, WARP) // WARP
    warps_of_part = REGISTERS // PARTS // rounded_up(registers * WARP, REGISTER_UNIT)
    blocks = min(BLOCKS, THREADS // (warps * WARP), warps_of_part * PARTS // warps,
                 ARCHITECTURES[arch] * 1024 // rounded_up(shared + SHARED_OF_SYSTEM, SHARED_UNIT))
    return 100 * blocks * warps * WARP // THREADS


def self_test():
    """Against numbers of NVIDIA's calculator."""
    for arguments, expected in [((80, 256, 32, 0), 100), ((80, 256, 33, 0), 75), ((80, 256, 64, 0), 50),
                                ((90, 256, 65, 0), 37), ((80, 256, 32, 32 * 1024), 50), ((90, 256, 32, 32 * 1024), 75),
                                ((90, 32, 16, 0), 50), ((100, 1024, 40, 0), 50)]:
        if occupancy(*arguments) != expected:
            sys.exit(f"occupancy{arguments} is {occupancy(*arguments)}, expected {expected}")


def compile_file(entry):
    """What nvcc and ptxas say."""
    words = shlex.split(entry["command"])
    words = words[next(i for i, word in enumerate(words) if word.endswith("nvcc")):]  # without ccache
    flags = [word for word in words[:words.index("-c")] if not word.startswith("--generate-code")]
    targets = [f"--generate-code=arch=compute_{arch},code=sm_{arch}" for arch in ARCHITECTURES]
    done = subprocess.run([*flags, *targets, "-fatbin", entry["file"], "-o", os.devnull], cwd=entry["directory"],
                          capture_output=True, text=True)
    return entry["file"], done.returncode, done.stdout + done.stderr


def threads_of(source):
    """Kernels of a source text, and the threads in a block of each: the fourth argument of its launch."""
    values = {"kThreads": int(re.search(r"constexpr int kThreads = (\d+);", (ROOT / "kernels/cuda/launch.cuh").read_text()).group(1))}
    for name, rest in re.findall(r'\blaunch\("(\w+)", \w+,(.*?);', source, re.DOTALL):
        flat = rest
        while "(" in flat:  # commas inside of parentheses part no arguments
            flat = re.sub(r"\([^()]*\)", "", flat)
        block = flat.split(",")[1].strip()
        yield name, values[block] if block in values else int(block)


def readable(mangled):
    """cast_kernel<float, bf16>, from names with the namespace, the file's hash and the parameters."""
    text = subprocess.run(["c++filt", *mangled], capture_output=True, text=True, check=True).stdout
    return [re.search(r"(\w+_kernel)(<.*?>)?\(", line).group(1) for line in text.splitlines()]


def parse(file, code, output, problems):
    """The kernels of one file."""
    name = os.path.basename(file)
    threads = dict(threads_of(pathlib.Path(file).read_text()))
    if code != 0 or re.search(r"\bwarning\b", output, re.IGNORECASE):
        problems.append(f"{name}: exit code {code}\n{output if code else ''}" + "\n".join(re.findall(r".*\bwarning\b.*", output, re.IGNORECASE)))
    parts = re.findall(r"Compiling entry function '(\w+)' for 'sm_(\d+)'\n.*\n\s*(\d+) bytes stack frame, (\d+) bytes spill stores, "
                       r"(\d+) bytes spill loads\n.*Used (\d+) registers(?:.*?(\d+) bytes smem)?", output)
    for (_, arch, stack, stores, loads, registers, shared), kernel in zip(parts, readable([part[0] for part in parts]) if parts else []):
        if (stack, stores, loads) != ("0", "0", "0"):
            problems.append(f"{name}: {kernel} on sm_{arch}: {stack} bytes of local memory, {stores} of spill stores, {loads} of spill loads")
        if kernel not in threads:
            problems.append(f"{name}: no launch(\"{kernel}\", ...) tells how many threads a block has")
            continue
        yield Compiled(kernel, int(arch), threads[kernel], int(registers), int(shared or 0))


def rows(compiled):
    """A line for each kernel, of the instance that needs most."""
    for kernel in sorted({one.kernel for one in compiled}):
        own = [one for one in compiled if one.kernel == kernel]
        by_arch = {arch: [one for one in own if one.arch == arch] for arch in ARCHITECTURES}
        yield [f"`{kernel}`", len(by_arch[80]), own[0].threads,
               *(max(one.registers for one in by_arch[arch]) for arch in ARCHITECTURES), max(one.shared for one in own),
               *(f"{min(occupancy(arch, one.threads, one.registers, one.shared) for one in by_arch[arch])}%" for arch in ARCHITECTURES)]


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        sys.exit(__doc__)
    self_test()
    entries = [entry for entry in json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
               if entry["file"].endswith(".cu") and "nvcc" in entry["command"]]
    if not entries:
        sys.exit(f"no file of {sys.argv[1]} is compiled by nvcc")
    problems, compiled = [], []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(compile_file, entries):
            compiled += parse(*result, problems)
    nvcc = next(word for word in shlex.split(entries[0]["command"]) if word.endswith("nvcc"))
    release = re.search(r"release ([\d.]+)", subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout).group(1)
    names = [f"sm_{arch}" for arch in ARCHITECTURES]
    text = f"By nvcc {release}, kernels with their instances:\n\n" + table.markdown(
        ["kernel", "instances", "threads a block", *(f"registers {name}" for name in names), "shared bytes",
         *(f"occupancy {name}" for name in names)], rows(compiled))
    print(text)
    known = table.committed("registers")
    if sys.argv[2:] or known.splitlines()[0].startswith(f"By nvcc {release},"):
        problems += table.check("registers", text, bool(sys.argv[2:]), f"{sys.argv[0]} {sys.argv[1]} --write")
    else:
        print("the table in the document is of another nvcc: not compared")
    print("\n".join(problems))
    print(f"{len(entries)} files, {len(compiled)} kernels of {len(ARCHITECTURES)} architectures, {len(problems)} problems")
    return 1 if problems or not compiled else 0


if __name__ == "__main__":
    sys.exit(main())
