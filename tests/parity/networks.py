"""torchvision's ResNets as the comparisons use them, with values from Philox, and their tensors in Lockstep's layout."""
import math

import numpy as np
import torch
import torchvision

import philox

BUFFERS = 1 << 40  # substreams of the buffers, and of images and labels: far from those of the parameters
IMAGES = 1 << 41


def build(name, stem, classes=10):
    model = getattr(torchvision.models, name)(num_classes=classes)
    if stem == "cifar":
        model.conv1 = torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        model.maxpool = torch.nn.Identity()
    return model


def to_lockstep(t):
    """A tensor as Lockstep stores it: OIHW -> OHWI, NCHW -> NHWC; vectors and matrices as they are."""
    t = t.detach().double()
    return (t.permute(0, 2, 3, 1) if t.dim() == 4 else t).contiguous().numpy()


def from_lockstep(array):
    t = torch.from_numpy(np.array(array))
    return t.permute(0, 3, 1, 2).contiguous() if t.dim() == 4 else t


def float_buffers(model):
    return [(n, b) for n, b in model.named_buffers() if not n.endswith("num_batches_tracked")]


@torch.no_grad()
def set_residual_gamma(model, gamma):
    """The weight of each block's last batch norm."""
    for m in model.modules():
        if isinstance(m, torchvision.models.resnet.Bottleneck):
            m.bn3.weight.fill_(gamma)
        elif isinstance(m, torchvision.models.resnet.BasicBlock):
            m.bn2.weight.fill_(gamma)


@torch.no_grad()
def initialize(model, seed, residual_gamma=1.0):
    """The twin of ResNet::initialize."""
    for index, (name, p) in enumerate(model.named_parameters()):
        if p.dim() == 4:
            shape = (p.shape[0], p.shape[2], p.shape[3], p.shape[1])
            deviation = np.float32(math.sqrt(2.0 / (p.shape[0] * p.shape[2] * p.shape[3])))
            values = philox.chunked(lambda s, t, sub, n: philox.normal(s, t, sub, 0.0, deviation, n), seed, index, p.numel())
            p.copy_(from_lockstep(values.reshape(shape)))
        elif name.startswith("fc."):
            bound = np.float32(1.0 / math.sqrt(model.fc.in_features))
            values = philox.chunked(lambda s, t, sub, n: philox.uniform(s, t, sub, -bound, bound, n), seed, index, p.numel())
            p.copy_(from_lockstep(values.reshape(tuple(p.shape))))
        else:
            p.fill_(float(name.endswith("weight")))
    set_residual_gamma(model, residual_gamma)


@torch.no_grad()
def spread_buffers(model, seed):
    """Running statistics that are not 0 and 1: means in [-0.2, 0.2), variances in [0.5, 1.5)."""
    for i, (name, b) in enumerate(float_buffers(model)):
        low, high = (-0.2, 0.2) if name.endswith("mean") else (0.5, 1.5)
        b.copy_(torch.from_numpy(philox.uniform(seed, philox.INIT, BUFFERS + i, low, high, b.numel())))


def batch(seed, n, size, classes=10):
    """Normal pictures [n,3,size,size] and labels."""
    values = philox.normal(seed, philox.INIT, IMAGES, 0.0, 1.0, n * size * size * 3)
    labels = philox.words(seed, philox.INIT, IMAGES + 1, n) % np.uint32(classes)
    return from_lockstep(values.reshape(n, size, size, 3)), torch.from_numpy(labels.astype(np.int64))


def relu_margin(model, images):
    """The smallest distance of a ReLU's input to zero, in deviations of that input; or of a pooling window's two largest.

    Where it is far above rounding, no two correct implementations can disagree on which side an element is.
    """
    margin = [math.inf]

    def relu(_, inputs):
        x = inputs[0]
        margin[0] = min(margin[0], (x.abs().min() / x.std()).item())

    def pool(_, inputs):
        x = torch.nn.functional.pad(inputs[0], (1, 1, 1, 1), value=-1.0)
        two = x.unfold(2, 3, 2).unfold(3, 3, 2).flatten(4).topk(2).values
        gaps = (two[..., 0] - two[..., 1])[two[..., 0] > 0]  # equal zeros carry no gradient
        margin[0] = min(margin[0], (gaps.min() / inputs[0].std()).item())

    handles = [m.register_forward_pre_hook(relu) for m in model.modules() if isinstance(m, torch.nn.ReLU)]
    handles += [m.register_forward_pre_hook(pool) for m in model.modules() if isinstance(m, torch.nn.MaxPool2d)]
    saved = {n: b.clone() for n, b in model.named_buffers()}
    with torch.no_grad():
        model(images)
        for n, b in model.named_buffers():
            b.copy_(saved[n])
    for handle in handles:
        handle.remove()
    return margin[0]


def clear_batch(model64, seed, n, size, margin):
    """The first batch from `seed` on whose ReLUs are all at least `margin` away from zero."""
    while True:
        images, labels = batch(seed, n, size)
        if relu_margin(model64, images.double()) >= margin:
            return images, labels
        seed += 1
