#!/usr/bin/env python3
"""Compares the engine (parity_dump) with PyTorch on the same weights and batches; tests/parity/run starts it.

Distances are relative: the Euclidean norm of the difference over that of PyTorch's result in double precision.
Deep networks with batch norm are chaotic: where a ReLU's input is nearer to zero than rounding, two correct programs
disagree, and what follows differs a thousand times more than rounding. Hence four comparisons:

  layers   every layer alone, at the sizes of ResNet-18 and ResNet-50: within 1e-5
  frozen   networks with frozen batch norm, from residual gamma 0.1 (from 1 PyTorch's own f32 is off by 1e-4), on batches
           without ReLU inputs near zero: every gradient within 1e-5
  damped   training from residual gamma 0.1 with learning rate 1e-3: the losses of 5 steps within 1e-4 of PyTorch's;
           ResNet-18 also every gradient of the first step within 1e-4, on batches without ReLU inputs near zero
  default  training from the default initial values: the distance of every gradient and running statistic from double
           precision is at most twice the larger of those of PyTorch's two f32 layouts, nchw and channels_last
"""
import argparse
import functools
import pathlib
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

import layer_cases
import networks
from tensor_file import read_tensors, write_tensors

STEPS = 5
NETWORKS = [("resnet18", "imagenet"), ("resnet18", "cifar"), ("resnet50", "imagenet"), ("resnet50", "cifar")]


def distance(actual, expected):
    actual, expected = (torch.tensor(x, dtype=torch.float64) for x in (actual, expected))
    norm = expected.norm()
    return ((actual - expected).norm() / norm).item() if norm > 0 else float(actual.norm() > 0)


class Report:
    """Prints one line a figure and remembers whether one was over its bar."""

    def __init__(self):
        self.failed = 0

    def line(self, what, figure, bar, note=""):
        ok = figure <= bar  # a NaN is not
        self.failed += not ok
        print(f"  {'ok  ' if ok else 'FAIL'} {what:<44} {figure:9.2e}  (bar {bar:.0e}) {note}", flush=True)


class Engine:
    def __init__(self, arguments, folder):
        self.base = [arguments.dump]
        self.device = ["--device", arguments.device, "--threads", str(arguments.threads)]
        self.folder = pathlib.Path(folder)

    def layers(self, cases):
        path = self.folder / "cases.tensors"
        write_tensors(path, cases)
        out = subprocess.run([*self.base, "layers", *self.device, "--input", path], check=True, stdout=subprocess.PIPE)
        return [(case, tensor, float(error)) for case, tensor, error in map(str.split, out.stdout.decode().splitlines())]

    def network(self, model, name, stem, batches, *options):
        tensors = {f"weight/{n}": networks.to_lockstep(p) for n, p in model.named_parameters()}
        tensors |= {f"buffer/{n}": networks.to_lockstep(b) for n, b in networks.float_buffers(model)}
        for i, (images, labels) in enumerate(batches):
            tensors |= {f"images/{i}": networks.to_lockstep(images), f"labels/{i}": labels.numpy()}
        write_tensors(self.folder / "in.tensors", tensors)
        subprocess.run([*self.base, "network", *self.device, "--input", self.folder / "in.tensors", "--output",
                        self.folder / "out.tensors", "--model", name, "--stem", stem, "--steps", str(len(batches)),
                        *map(str, options)], check=True)
        return read_tensors(self.folder / "out.tensors")


def copy_of(model, dtype=torch.float32, memory_format=torch.contiguous_format):
    twin = networks.build(model.lockstep_name, model.lockstep_stem)
    twin.load_state_dict(model.state_dict())
    return twin.to(dtype=dtype, memory_format=memory_format)


@functools.cache
def initial_state(name, stem):
    model = networks.build(name, stem)
    networks.initialize(model, seed=1)
    return model.state_dict()


def new_model(name, stem, residual_gamma=1.0):
    model = networks.build(name, stem)
    model.lockstep_name, model.lockstep_stem = name, stem
    model.load_state_dict(initial_state(name, stem))
    networks.set_residual_gamma(model, residual_gamma)
    return model


def first_step(model, images, labels):
    """Gradients and buffers of one step, in Lockstep's layout and under parity_dump's names; and the loss."""
    dtype = next(model.parameters()).dtype
    model.zero_grad()
    loss = F.cross_entropy(model(images.to(dtype)), labels)
    loss.backward()
    results = {f"gradient/{n}": networks.to_lockstep(p.grad) for n, p in model.named_parameters()}
    results |= {f"buffer/{n}": networks.to_lockstep(b) for n, b in networks.float_buffers(model)}
    return results, loss.item()


def train(model, batches, lr):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    losses = []
    for images, labels in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def worst_gradient(actual, expected):
    return max((distance(actual[k], v), k.removeprefix("gradient/")) for k, v in expected.items() if k.startswith("gradient/"))


def compare_layers(engine, report):
    errors = engine.layers(layer_cases.resnet_cases(8))
    for kind in sorted({case.split(".")[0] for case, _, _ in errors}):
        of_kind = [(error, case, tensor) for case, tensor, error in errors if case.split(".")[0] == kind]
        error, case, tensor = max(of_kind)
        report.line(f"{kind} ({len(of_kind)} results)", error, 1e-5, f"worst: {case} {tensor}")


def compare_frozen(engine, report):
    for name, stem in NETWORKS:
        n, size = (2, 32) if stem == "imagenet" else (2, 8)  # small, so that a batch without such inputs is soon found
        model = new_model(name, stem, residual_gamma=0.1)
        with torch.no_grad():  # running statistics as training would leave them
            for m in model.modules():
                if isinstance(m, torch.nn.BatchNorm2d):
                    m.momentum = 1.0
            model(networks.batch(99, 64, size)[0])
        model.eval()
        double = copy_of(model, torch.float64).eval()
        images, labels = networks.clear_batch(double, 0, n, size, 4e-6)
        expected, loss = first_step(double, images, labels)
        actual = engine.network(model, name, stem, [(images, labels)], "--mode", "frozen")
        error, worst = worst_gradient(actual, expected)
        peer, _ = first_step(copy_of(model).eval(), images, labels)
        report.line(f"{name}, {stem} stem: loss", abs(actual["loss"][0] - loss) / loss, 1e-5)
        report.line(f"{name}, {stem} stem: every gradient", error, 1e-5,
                    f"worst: {worst}; PyTorch's f32: {worst_gradient(peer, expected)[0]:.1e}")


def compare_damped(engine, report):
    for name, stem in NETWORKS:
        model = new_model(name, stem, residual_gamma=0.1)
        n = 32 if stem == "imagenet" else 8
        batches = [networks.batch(10 + i, n, 32) for i in range(STEPS)]
        expected = train(copy_of(model), batches, lr=1e-3)
        actual = engine.network(model, name, stem, batches, "--lr", 1e-3, "--momentum", 0.9)["loss"]
        error = max(abs(a - e) for a, e in zip(actual, expected))
        report.line(f"{name}, {stem} stem: losses of {STEPS} steps", error, 1e-4, f"last: {actual[-1]:.6f}, PyTorch {expected[-1]:.6f}")
        if name != "resnet18":
            continue
        double = copy_of(model, torch.float64)
        images, labels = networks.clear_batch(double, 0, 8 if stem == "imagenet" else 4, 32 if stem == "imagenet" else 16, 3e-6)
        expected, _ = first_step(copy_of(model), images, labels)
        actual = engine.network(model, name, stem, [(images, labels)])
        error, worst = worst_gradient(actual, expected)
        report.line(f"{name}, {stem} stem: every gradient", error, 1e-4, f"worst: {worst}")


def compare_default(engine, report):
    for name, stem in NETWORKS:
        model = new_model(name, stem)
        images, labels = networks.batch(5, 32 if stem == "imagenet" else 8, 32)
        exact, loss = first_step(copy_of(model, torch.float64), images, labels)
        nchw, _ = first_step(copy_of(model), images, labels)
        last = copy_of(model, memory_format=torch.channels_last)
        channels_last, _ = first_step(last, images.to(memory_format=torch.channels_last), labels)
        actual = engine.network(model, name, stem, [(images, labels)])
        for kind in ("gradient", "buffer"):
            rows = []
            for key in (k for k in exact if k.startswith(kind + "/")):
                ours, theirs = distance(actual[key], exact[key]), [distance(r[key], exact[key]) for r in (nchw, channels_last)]
                rows.append((ours / max(theirs), key.split("/")[1], ours, *theirs))
            ratio, key, ours, *theirs = max(rows)
            median = sorted(row[0] for row in rows)[len(rows) // 2]
            report.line(f"{name}, {stem} stem: {kind}s, ratio", ratio, 2.0,
                        f"median {median:.2f}; worst: {key}: {ours:.1e}, PyTorch {theirs[0]:.1e} {theirs[1]:.1e}")
        print(f"       loss {actual['loss'][0]:.6f}, double precision {loss:.6f}")


COMPARISONS = {"layers": compare_layers, "frozen": compare_frozen, "damped": compare_damped, "default": compare_default}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dump", required=True, help="the program parity_dump")
    parser.add_argument("--device", default="cpu", choices=["cpu", "reference"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=COMPARISONS, default=list(COMPARISONS))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(arguments, folder)
        for name in arguments.only:
            print(f"{name} (device {arguments.device}, PyTorch {torch.__version__})", flush=True)
            started = time.monotonic()
            COMPARISONS[name](engine, report)
            print(f"  {time.monotonic() - started:.0f} s", flush=True)
    print(f"{report.failed} figures over their bar")
    sys.exit(report.failed > 0)


if __name__ == "__main__":
    main()
