#!/usr/bin/env python3
"""The tests of the CUDA code can fail: plants one fault after the other, and expects that they find it.

    tests/cudasim/test/planted_faults.py [NAME...]     default: every fault of FAULTS

A fault is a change of one source file. That file alone is compiled anew and linked before the libraries of a build that
is there already (scripts/build makes it where it is not), so the tree stays as it is. A fault is found when the tests
that are named pass without it, fail with it, and say why. The last line is "planted faults: N found, M not".
"""

import collections
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
# The builds of tests/stage, with its options, so that they are shared.
BUILDS = {
    "cudasim": [],
    "asan": ["-DLOCKSTEP_WERROR=ON", "-DLOCKSTEP_MPI=OFF"],
    "tsan": ["-DLOCKSTEP_WERROR=ON", "-DLOCKSTEP_MPI=OFF", "-DLOCKSTEP_ONEDNN=OFF"],
}
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "ASAN_OPTIONS": "detect_leaks=0",
               "TSAN_OPTIONS": f"suppressions={ROOT}/tests/tsan_suppressions.txt halt_on_error=1"}


def program_of(fault):
    """The suites of every device are a program of their own, tests/gpu."""
    return "test_cuda" if re.match(r"cuda: |CudaStream: |a recorded step", fault.cases) else "test_cudasim"

# In `file`, `text`, which stands there once, becomes `fault`. In the build `build`, the test cases `cases` (of Catch2)
# then fail with an output that matches `says`.
Fault = collections.namedtuple("Fault", "name file text fault build cases says")
FAULTS = [
    Fault("missing barrier, by its result",
          "kernels/cuda/softmax_cross_entropy.cu", "    __syncthreads();\n", "",
          "cudasim", "cuda: cross-entropy*", r"order 2, seed"),
    Fault("missing barrier, by ThreadSanitizer",
          "kernels/cuda/softmax_cross_entropy.cu", "    __syncthreads();\n", "",
          "tsan", "cuda: cross-entropy*", r"data race(.|\n)*cross_entropy_mean_kernel"),
    Fault("barrier that some threads do not reach",
          "kernels/cuda/softmax_cross_entropy.cu", "    __syncthreads();\n    if (thread < distance) {\n",
          "    if (thread >= distance) return;\n    __syncthreads();\n    {\n",
          "cudasim", "cuda: cross-entropy*", r"some threads have left"),
    Fault("index past the end of a tensor, by the guards around it",
          "kernels/cuda/utilities.cu", "for (std::int64_t i = first; i < count; ++i) convert(to_float(x[i]), y[i]);",
          "for (std::int64_t i = first; i <= count; ++i) convert(to_float(x[i]), y[i]);",
          "cudasim", "cuda: conversions*", r"written out of bounds around a tensor"),
    Fault("index past the end of shared memory, by UndefinedBehaviorSanitizer",
          "kernels/cuda/softmax_cross_entropy.cu", "for (int distance = kThreads / 2; distance > 0; distance /= 2) {\n    __sync",
          "for (int distance = kThreads; distance > 0; distance /= 2) {\n    __sync",
          "asan", "cuda: cross-entropy*", r"index 256 out of bounds"),
    Fault("index past the end of scratch memory, by AddressSanitizer",
          "kernels/cuda/softmax_cross_entropy.cu", "row < rows; row += kThreads)", "row <= rows; row += kThreads)",
          "asan", "cuda: cross-entropy*", r"(heap-buffer-overflow|use-after-poison)(.|\n)*cross_entropy_mean_kernel"),
    Fault("memory that nobody wrote",
          "kernels/cuda/linear.cu", "if (i < count) convert(", "if (i > 0 && i < count) convert(",
          "cudasim", "cuda: linear*", r"nan"),
    Fault("missing wait between streams",
          "core/cuda_stream.cpp",
          "CUDA_CHECK(cudaStreamWaitEvent(impl_->stream, static_cast<cudaEvent_t>(event.native_handle()), 0));", ";",
          "cudasim", "CudaStream: another stream waits*", r"host\.data\[kCount - 1\] == 3"),
    Fault("wrong padding in a descriptor",
          "kernels/cuda/convolution_plans.cpp", "CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Dims{s.padding, s.padding}",
          "CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, Dims{s.padding, 0}",
          "cudasim", "cuda: convolution*", r"FAILED"),
    Fault("a recording that points to scratch memory of before",
          "apps/training/train_step.cpp", "if (recorded.generation != generation) {", "if (recorded.generation < 0) {",
          "cudasim", "a recorded step is the step*", r"SIGSEGV|FAILED"),
    Fault("an update that does not wait for its bucket",
          "apps/training/train_step.cpp", "    context_.stream.wait(reducer_.reduced(updated_buckets_));\n", "",
          "cudasim", "two ranks on two devices*", r"weights\[0\] == weights\[1\]"),
    Fault("a graph that does not join the last bucket",
          "comm/reducer.cpp", "    if (!buckets_.empty()) compute_.wait(reduced_.back());\n", "",
          "cudasim", "two ranks on two devices*", r"FAILED"),
    Fault("collectives in the order in which their buckets fill",
          "comm/reducer.cpp", "  if (options_.overlap) launch_full_buckets();",
          "  for (int b = 0; b < static_cast<int>(buckets_.size()); ++b) {\n"
          "    if (pending_[at(b)] == 0 && std::find(launch_order_.begin(), launch_order_.end(), b) == launch_order_.end()) {\n"
          "      launch(b);\n      ++next_bucket_;\n    }\n  }",
          "cudasim", "NcclCommunicator: the reducer*", r"of the ranks differs: rank 1 calls ncclAllReduce"),
    Fault("ranks whose collectives differ",
          "comm/nccl_communicator.cpp", "ncclAllReduce(data, data, static_cast<std::size_t>(count),",
          "ncclAllReduce(data, data, static_cast<std::size_t>(count - rank()),",
          "cudasim", "NcclCommunicator: the reducer*", r"of the ranks differs: rank 1 calls ncclAllReduce"),
    Fault("event that is not destroyed",
          "core/cuda_stream.cpp", "~CudaEventState() override { cudaEventDestroy(event_); }",
          "~CudaEventState() override {}",
          "cudasim", "CudaStream: an event tells*", r"[1-9]\d* events are alive"),
]


def run(arguments, where=ROOT):
    done = subprocess.run(list(map(str, arguments)), cwd=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=900, env={**os.environ, **ENVIRONMENT})
    return done.returncode, done.stdout


def must(arguments, where=ROOT):
    code, output = run(arguments, where)
    if code != 0:
        sys.exit(f"{shlex.join(map(str, arguments))} ended with exit code {code}:\n{output[-3000:]}")
    return output


def build_with(fault):
    """The test program, with the fault: its path."""
    build = ROOT / "build" / fault.build
    planted = build / "planted" / fault.file
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text((ROOT / fault.file).read_text().replace(fault.text, fault.fault))
    compiles = [entry for entry in json.loads((build / "compile_commands.json").read_text())
                if pathlib.Path(entry["file"]) == ROOT / fault.file and f"/lockstep_{fault.file.split('/')[0]}.dir/" in entry["command"]]
    if len(compiles) != 1:
        sys.exit(f"{fault.file} is compiled {len(compiles)} times into its folder's library in build/{fault.build}")
    compile_line = shlex.split(compiles[0]["command"])
    object_file = planted.with_name(planted.name + ".o")
    compile_line[compile_line.index("-o") + 1] = object_file
    compile_line[compile_line.index(compiles[0]["file"])] = planted
    must([*compile_line, "-Wno-error"], build)

    # CMake writes ": && c++ ... -o bin/PROGRAM ... && :". An object that stands first is taken instead of the
    # library's member that defines the same.
    link = shlex.split(must(["ninja", "-t", "commands", program_of(fault)], build).splitlines()[-1])
    link = [word for word in link if word not in (":", "&&")]
    program = build / "planted" / program_of(fault)
    at = link.index("-o")
    link[at:at + 2] = ["-o", program, object_file]
    must(link, build)
    return program


def run_cases(program, fault):
    # ThreadSanitizer cannot place its shadow where the kernel randomises addresses widely.
    launcher = ["setarch", "-R"] if fault.build == "tsan" and run(["setarch", "-R", "true"])[0] == 0 else []
    return run([*launcher, program, fault.cases])


def problem_with(fault):
    """An empty text if the fault is found, else what is wrong."""
    count = (ROOT / fault.file).read_text().count(fault.text)
    if count != 1:
        return f"{fault.file} holds {count} times {fault.text.strip()!r}"
    code, output = run_cases(ROOT / "build" / fault.build / "bin" / program_of(fault), fault)
    if code != 0 or "No test" in output:
        return f"the tests do not pass without it:\n{output[-2000:]}"
    code, output = run_cases(build_with(fault), fault)
    if code == 0:
        return f"the tests of {fault.cases!r} pass with it"
    return "" if re.search(fault.says, output) else f"exit code {code}, but the output says nothing of {fault.says!r}:\n{output[-2000:]}"


def main():
    names = sys.argv[1:] or [fault.name for fault in FAULTS]
    chosen = [fault for fault in FAULTS if fault.name in names]
    if len(chosen) != len(names):
        sys.exit("the faults are: " + ", ".join(fault.name for fault in FAULTS))
    for build in sorted({fault.build for fault in chosen}):
        must(["scripts/build", build, *BUILDS[build], "--", "test_cudasim", "test_cuda"])
    problems = 0
    for fault in chosen:
        problem = problem_with(fault)
        print(f"{'NOT FOUND' if problem else 'found    '}  {fault.name}{': ' + problem if problem else ''}", flush=True)
        problems += bool(problem)
    print(f"planted faults: {len(chosen) - problems} found, {problems} not")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
