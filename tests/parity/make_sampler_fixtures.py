#!/usr/bin/env python3
"""Writes fixtures/sampler.txt: what torch.utils.data.DistributedSampler and torch.randperm give.

usage: make_sampler_fixtures.py [OUTPUT]

A line of the file is one of
  sampler SIZE WORLD SHUFFLE DROP_LAST SEED EPOCH PER_RANK HASH
  randperm SIZE SEED HASH
HASH is over the indices of all ranks, rank 0 first: h = (h xor index) * 0x100000001b3 mod 2^64 from
0xcbf29ce484222325 (FNV-1a over whole indices). Needs torch.
"""
import pathlib
import sys

import torch
from torch.utils.data import DistributedSampler

SIZES = [1, 2, 3, 5, 8, 9, 10, 17, 100, 1000, 4097, 50000]
WORLDS = range(1, 10)
SEEDS_AND_EPOCHS = [(0, 0), (0, 1), (42, 7), (2**32 - 1, 1), (2**32 + 5, 3), (2**63, 1), (2**64 - 2, 1)]


def hash_of(indices, h=0xCBF29CE484222325):
    for index in indices:
        h = ((h ^ index) * 0x100000001B3) & (2**64 - 1)
    return h


def sampler_line(size, world, shuffle, drop_last, seed, epoch):
    h = hash_of([])
    for rank in range(world):
        sampler = DistributedSampler(range(size), world, rank, shuffle=shuffle, seed=seed, drop_last=drop_last)
        sampler.set_epoch(epoch)
        indices = list(sampler)
        h = hash_of(indices, h)
    return f"sampler {size} {world} {int(shuffle)} {int(drop_last)} {seed} {epoch} {len(indices)} {h:016x}"


def randperm_line(size, seed):
    order = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    return f"randperm {size} {seed} {hash_of(order.tolist()):016x}"


def lines():
    yield f"# torch {torch.__version__}, make_sampler_fixtures.py"
    turn = 0
    for size in SIZES:
        for world in WORLDS:
            for drop_last in (False, True):
                yield sampler_line(size, world, False, drop_last, 0, 0)
                for _ in range(2):  # each size and world meets other seeds
                    yield sampler_line(size, world, True, drop_last, *SEEDS_AND_EPOCHS[turn % len(SEEDS_AND_EPOCHS)])
                    turn += 1
    for size in (0, 1, 2, 3, 7, 624, 625, 60000):
        for seed in (0, 1, 2**32, 2**40 + 123, 2**64 - 1):
            yield randperm_line(size, seed)


def main():
    output = pathlib.Path(__file__).parent / "fixtures" / "sampler.txt"
    if len(sys.argv) > 1:
        output = pathlib.Path(sys.argv[1])
    output.write_text("".join(line + "\n" for line in lines()))


if __name__ == "__main__":
    main()
