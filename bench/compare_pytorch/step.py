#!/usr/bin/env python3
"""PyTorch's training step, timed: a torchvision ResNet, one process, on pictures of 32x32.

    OMP_PROC_BIND=true scripts/torch_tuned bench/compare_pytorch/step.py --batch-size 32 --dtype fp32 --threads 2

With --device cuda it needs no tuning from outside: any Python that has a PyTorch with CUDA.

A step is forward, cross-entropy, backward and SGD with momentum and weight decay on a batch that lies in memory,
already normalised: reading and augmenting, which step_bench includes, cost PyTorch nothing here. The pictures are
random; no time depends on their values. --json - writes the JSON object to stdout.
"""

import argparse
import json
import statistics
import sys
import time

import torch
import torchvision

WARM_UP_STEPS = 4  # oneDNN makes its primitives in the first, glibc's heap stops growing by the third


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32", help="bf16: autocast, fp32 weights")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--layout", choices=["nchw", "channels_last", "best"], default="best",
                        help="best: both are timed, the faster one is reported")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", help="write the result there too; - is stdout")
    return parser.parse_args()


def time_steps(options, layout):
    torch.manual_seed(0)
    memory_format = torch.channels_last if layout == "channels_last" else torch.contiguous_format
    model = torchvision.models.get_model(options.model, num_classes=10)
    model = model.to(options.device, memory_format=memory_format).train()
    images = torch.randn(options.batch_size, 3, 32, 32).to(options.device, memory_format=memory_format)
    labels = torch.randint(0, 10, (options.batch_size,)).to(options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=True)
    milliseconds = []
    late = options.device != "cpu"  # a device's loss is read while the next step runs, as in step_bench
    previous = None
    for _ in range(WARM_UP_STEPS + options.steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(options.device, torch.bfloat16, enabled=options.dtype == "bf16"):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        if not late or previous is not None:
            last_loss = (previous if late else loss).item()
        previous = loss.detach()
        milliseconds.append(1e3 * (time.perf_counter() - start))
    ms_step = statistics.median(milliseconds[WARM_UP_STEPS:])
    return {"model": options.model, "stem": "imagenet", "batch_size": options.batch_size, "dtype": options.dtype,
            "threads": options.threads, "device": options.device, "layout": layout, "ms_step": ms_step,
            "images_per_second": 1e3 * options.batch_size / ms_step, "last_loss": last_loss,
            "torch": torch.__version__}


def main():
    options = parse_options()
    torch.set_num_threads(options.threads)
    if options.device == "cuda":
        torch.backends.cudnn.benchmark = True  # cuDNN's fastest engine, found by trying in the first step
        torch.backends.cudnn.allow_tf32 = False  # fp32 is fp32 on both sides
    layouts = ["nchw", "channels_last"] if options.layout == "best" else [options.layout]
    results = [time_steps(options, layout) for layout in layouts]
    for result in results:
        print(f"PyTorch {result['torch']} {result['model']} batch {result['batch_size']} {result['dtype']} "
              f"{result['layout']}: {result['ms_step']:.1f} ms a step, "
              f"{result['images_per_second']:.0f} images/s", file=sys.stderr)
    best = min(results, key=lambda result: result["ms_step"])
    if options.json == "-":
        print(json.dumps(best))
    elif options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(best, file)


if __name__ == "__main__":
    main()
