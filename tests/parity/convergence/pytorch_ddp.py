#!/usr/bin/env python3
"""PyTorch's side of the training comparison: a torchvision ResNet on CIFAR-10 with DistributedDataParallel over gloo.

    scripts/torch_tuned tests/parity/convergence/pytorch_ddp.py --data DIR --metrics FILE --epochs 2

The recipe is resnet_train's: DistributedSampler's shards (the last partial batch kept), crop and flip, SGD, the
learning rate a function of the global step, rank 0's batch norm statistics in evaluation, every test sample once.
--metrics gets one JSON line an epoch, with resnet_train's keys. One process a rank, one thread each.
"""

import argparse
import datetime
import json
import math
import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
import torchvision
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

import cifar10

EVALUATION_BATCH = 250


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with CIFAR-10's binary version")
    parser.add_argument("--metrics", required=True, help="JSON lines, one an epoch; overwritten")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32, help="a rank")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--schedule", choices=["constant", "cosine"], default="constant")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layout", choices=["nchw", "channels_last"], default="nchw",
                        help="nchw is the faster one here")
    parser.add_argument("--limit-train", type=int, help="the first N training samples")
    parser.add_argument("--limit-test", type=int, help="the first N test samples")
    return parser.parse_args()


def learning_rate(options, step, total_steps):
    if options.schedule == "constant":
        return options.lr
    return options.lr * 0.5 * (1 + math.cos(math.pi * step / total_steps))


class Trainer:
    def __init__(self, options, rank):
        self.options, self.rank = options, rank
        (images, labels), (test_images, test_labels) = cifar10.load(options.data)
        self.images, self.labels = images[: options.limit_train], labels[: options.limit_train]
        self.test_images = test_images[: options.limit_test]
        self.test_labels = test_labels[: options.limit_test]
        self.sampler = DistributedSampler(self.labels, num_replicas=options.ranks, rank=rank, seed=options.seed)
        self.steps_an_epoch = math.ceil(len(self.sampler) / options.batch_size)
        self.step = 0

        torch.manual_seed(options.seed)
        network = torchvision.models.get_model(options.model, num_classes=10)
        if options.layout == "channels_last":
            network = network.to(memory_format=torch.channels_last)
        # Running statistics play no part in training, so rank 0's need not travel before every forward, as they
        # would by default: broadcast_buffers() sends them before an evaluation, which gives the same figures sooner.
        self.model = DistributedDataParallel(
            network, forward_sync_buffers=False, gradient_as_bucket_view=True, static_graph=True)
        self.optimizer = torch.optim.SGD(
            network.parameters(), lr=options.lr, momentum=options.momentum, weight_decay=options.weight_decay,
            fused=True)

    def batch(self, images):
        pixels = cifar10.normalise(images)
        return pixels if self.options.layout == "channels_last" else pixels.contiguous()

    def train_epoch(self, epoch):
        """The mean loss over all ranks' samples."""
        options = self.options
        self.model.train()
        self.sampler.set_epoch(epoch)
        order = torch.tensor(list(self.sampler))
        generator = torch.Generator().manual_seed((options.seed * 1000 + epoch) * 1000 + self.rank)
        sums = torch.zeros(2, dtype=torch.float64)  # loss * samples, samples
        for samples in order.split(options.batch_size):
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate(options, self.step, self.steps_an_epoch * options.epochs)
            logits = self.model(self.batch(cifar10.crop_and_flip(self.images[samples], generator)))
            loss = torch.nn.functional.cross_entropy(logits, self.labels[samples])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.step += 1
            sums += torch.tensor([loss.item() * len(samples), len(samples)], dtype=torch.float64)
        dist.all_reduce(sums)
        return (sums[0] / sums[1]).item()

    def broadcast_buffers(self):
        for buffer in self.model.module.buffers():
            dist.broadcast(buffer, src=0)

    @torch.no_grad()
    def evaluate(self):
        """(mean loss, correct, total) over the test set; each rank takes a contiguous share, none twice."""
        self.broadcast_buffers()
        self.model.eval()
        total = len(self.test_labels)
        share = range(total * self.rank // self.options.ranks, total * (self.rank + 1) // self.options.ranks)
        sums = torch.zeros(3, dtype=torch.float64)
        for first in range(share.start, share.stop, EVALUATION_BATCH):
            last = min(first + EVALUATION_BATCH, share.stop)
            logits = self.model.module(self.batch(self.test_images[first:last]))
            labels = self.test_labels[first:last]
            loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
            sums += torch.tensor([loss.item(), (logits.argmax(1) == labels).sum().item(), last - first],
                                 dtype=torch.float64)
        dist.all_reduce(sums)
        return (sums[0] / sums[2]).item(), int(sums[1]), int(sums[2])


def run_rank(rank, options, rendezvous):
    torch.set_num_threads(1)
    # A run that shares its machine may be stopped for a long while: no time-out that a pause could reach.
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=options.ranks,
                            timeout=datetime.timedelta(hours=6))
    trainer = Trainer(options, rank)
    metrics = open(options.metrics, "w", buffering=1, encoding="utf-8") if rank == 0 else None
    for epoch in range(options.epochs):
        start = time.monotonic()
        train_loss = trainer.train_epoch(epoch)
        test_loss, correct, total = trainer.evaluate()
        if rank == 0:
            line = json.dumps({
                "epoch": epoch, "train_loss": train_loss, "test_loss": test_loss, "test_accuracy": correct / total,
                "test_correct": correct, "test_total": total, "seconds": time.monotonic() - start})
            print(line, file=metrics)
            print(line, flush=True)
    dist.destroy_process_group()


def main():
    options = parse_options()
    # gloo looks the host's name up to find an address, which fails where the name has none; the ranks share a host.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.start_processes(
            run_rank, (options, os.path.join(folder, "rendezvous")), nprocs=options.ranks, start_method="fork")


if __name__ == "__main__":
    main()
