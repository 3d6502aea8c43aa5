#!/usr/bin/env python3
"""Writes the numeric fixtures that tests/layers, tests/models and tests/core compare with, from PyTorch in double precision:

    fixtures/layers.tensors    every kind of layer alone, forward and backward
    fixtures/networks.tensors  ResNet-18 and ResNet-50 with frozen batch norm: loss, logits, and of every gradient its norm
                               and 24 elements; weights come from Philox on both sides
    fixtures/philox.tensors    values of the Python twin of the random numbers
"""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import layer_cases
import networks
import philox
from tensor_file import write_tensors

FIXTURES = pathlib.Path(__file__).parent / "fixtures"
SAMPLES = 24


def frozen_network(name, stem, n, size):
    model = networks.build(name, stem)
    networks.initialize(model, seed=3, residual_gamma=0.2)
    networks.spread_buffers(model, seed=3)
    model.double().eval()
    images, labels = networks.clear_batch(model, seed=0, n=n, size=size, margin=4e-6)
    logits = model(images.double())
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    case = {"images": networks.to_lockstep(images), "labels": labels.numpy(), "logits": logits.detach().numpy(),
            "loss": loss.detach().numpy().reshape(1)}
    for parameter, p in model.named_parameters():
        g = networks.to_lockstep(p.grad).reshape(-1)
        case[f"gradient/{parameter}"] = np.concatenate([[np.linalg.norm(g)], g[:: max(1, g.size // SAMPLES)][:SAMPLES]])
    return {f"{name}.{stem}/{key}": value for key, value in case.items()}


def random_values():
    seed = 0x0123456789ABCDEF
    values = {"uniform": philox.uniform(seed, philox.AUGMENT, (1 << 40) + 5, -2.0, 3.0, 1003),
              "normal": philox.normal(seed, philox.INIT, 7, 1.0, 0.5, 1003)}
    # Counter and key of the authors' known-answer test, and blocks of a substream.
    counter = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
    known = np.array([int(word) for word in philox.philox4x32(counter, (0xA4093822, 0x299F31D0))], np.uint32)
    assert [f"{word:08x}" for word in known] == ["d16cfe09", "94fdcceb", "5001e420", "24126ea1"]
    values["words"] = philox.words(seed, philox.SYNTHETIC, 9, 400).view(np.int32)
    return values


def main():
    torch.set_num_threads(2)
    FIXTURES.mkdir(exist_ok=True)
    files = {"layers": layer_cases.small_cases(), "philox": random_values(), "networks": {}}
    for network in [("resnet18", "imagenet", 2, 32), ("resnet18", "cifar", 2, 8), ("resnet50", "imagenet", 2, 32),
                    ("resnet50", "cifar", 1, 8)]:
        files["networks"] |= frozen_network(*network)
    for name, tensors in files.items():
        path = FIXTURES / f"{name}.tensors"
        write_tensors(path, tensors)
        print(f"{path.name}: {path.stat().st_size} bytes, torch {torch.__version__}")


if __name__ == "__main__":
    main()
