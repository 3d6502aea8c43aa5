#!/usr/bin/env python3
"""PyTorch's all_reduce over gloo, as a peer of allreduce_bench; one of these a rank, under mpirun:

    scripts/mpi -np 2 scripts/torch_tuned bench/compare_allreduce/gloo.py /tmp/meeting 4096 16777216

The first argument is a file that does not exist yet, where the ranks meet. Prints a JSON list of bytes and the median
time of a call on the slowest rank. Samples are taken as allreduce_bench takes them.
"""

import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist


def slowest_seconds(data, calls):
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(data)
    seconds = torch.tensor((time.perf_counter() - begin) / calls, dtype=torch.float64)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    return seconds.item()


def median_us(size):
    data = torch.zeros(size // 4)
    first = slowest_seconds(data, 5)
    calls = min(max(int(1e-4 / first), 1), 100)
    samples = min(max(int(2 / (first * calls)), 10), 100)
    return 1e6 * statistics.median(slowest_seconds(data, calls) for _ in range(samples))


def main():
    rank, ranks = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=ranks)
    rows = [{"bytes": size, "us_median": median_us(size)} for size in map(int, sys.argv[2:])]
    if rank == 0:
        print(json.dumps(rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
