#!/usr/bin/env python3
"""Writes fixtures/models.txt: what torchvision's ResNets consist of, for tests/models.

One section a model, with 1000 classes and the ImageNet stem:
    model NAME
    parameter NAME DIMS...     in registration order
    buffer NAME DIMS...        in registration order, without num_batches_tracked
    ready INDEX...             registration indices in the order in which autograd makes gradients ready
The CIFAR stem differs in conv1.weight only: that is checked here.
"""
import pathlib

import torch
import torchvision

MODELS = ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152"]


def build(name, stem):
    model = getattr(torchvision.models, name)(num_classes=1000)
    if stem == "cifar":
        model.conv1 = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        model.maxpool = torch.nn.Identity()
    return model


def describe(name, stem):
    model = build(name, stem)
    parameters = [(n, tuple(p.shape)) for n, p in model.named_parameters()]
    buffers = [(n, tuple(b.shape)) for n, b in model.named_buffers() if not n.endswith("num_batches_tracked")]
    index = {n: i for i, (n, _) in enumerate(parameters)}
    ready = []
    for n, p in model.named_parameters():
        p.register_post_accumulate_grad_hook(lambda _, n=n: ready.append(index[n]))
    model(torch.randn(2, 3, 32, 32)).sum().backward()
    return parameters, buffers, ready


def main():
    lines = []
    for name in MODELS:
        parameters, buffers, ready = describe(name, "imagenet")
        cifar = describe(name, "cifar")
        assert cifar[0] == [("conv1.weight", (64, 3, 3, 3))] + parameters[1:]
        assert cifar[1:] == (buffers, ready)
        lines.append(f"model {name}")
        lines += [" ".join(["parameter", n, *map(str, shape)]) for n, shape in parameters]
        lines += [" ".join(["buffer", n, *map(str, shape)]) for n, shape in buffers]
        lines.append(" ".join(["ready", *map(str, ready)]))
    path = pathlib.Path(__file__).parent / "fixtures" / "models.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    print(f"{path}: torch {torch.__version__}, torchvision {torchvision.__version__}")


if __name__ == "__main__":
    main()
