#!/usr/bin/env python3
"""Some ops in PyTorch, for a look beside kernel_bench: one thread, channels_last, batch 32, fp32, medians of ten.

    scripts/torch_tuned bench/compare_pytorch/ops.py
"""

import statistics
import time

import torch

CONVOLUTIONS = [  # height, c_in, c_out, kernel, stride
    (32, 3, 64, 7, 2), (8, 64, 64, 3, 1), (8, 64, 256, 1, 1), (4, 128, 128, 3, 1), (2, 256, 1024, 1, 1),
]
BATCH = 32


def milliseconds(call):
    """Of one call: the median of ten measurements of at least ten milliseconds."""
    def measure(calls):
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - begin

    measure(1)
    calls = 1
    while measure(calls) < 0.01:
        calls *= 2
    return 1000 * statistics.median(measure(calls) for _ in range(10)) / calls


def image(height, channels):
    return torch.rand(BATCH, channels, height, height).to(memory_format=torch.channels_last)


def convolution(height, c_in, c_out, kernel, stride):
    x = image(height, c_in)
    w = torch.rand(c_out, c_in, kernel, kernel).to(memory_format=torch.channels_last)
    padding = kernel // 2
    dy = torch.rand_like(torch.conv2d(x, w, stride=stride, padding=padding))

    def backward(data, weight):
        torch.ops.aten.convolution_backward(dy, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1,
                                            [data, weight, False])

    name = f"{BATCH}x{height}x{height}x{c_in} -> {c_out} {kernel}x{kernel} stride {stride}"
    yield f"conv2d_forward {name}", milliseconds(lambda: torch.conv2d(x, w, stride=stride, padding=padding))
    if c_in != 3:
        yield f"conv2d_backward_data {name}", milliseconds(lambda: backward(True, False))
    yield f"conv2d_backward_weight {name}", milliseconds(lambda: backward(False, True))


def batch_norm(height, channels):
    x, gamma, beta = image(height, channels), torch.rand(channels), torch.rand(channels)
    mean, variance = torch.zeros(channels), torch.ones(channels)

    def forward():
        torch.relu_(torch.nn.functional.batch_norm(x, mean, variance, gamma, beta, True, 0.1, 1e-5))

    yield f"batch_norm_forward_training {BATCH}x{height}x{height}x{channels} relu", milliseconds(forward)


def main():
    torch.set_num_threads(1)
    with torch.no_grad():
        for case in CONVOLUTIONS:
            for name, ms in convolution(*case):
                print(f"{ms:10.4f} ms  {name}", flush=True)
        for name, ms in batch_norm(8, 64):
            print(f"{ms:10.4f} ms  {name}")


if __name__ == "__main__":
    main()
