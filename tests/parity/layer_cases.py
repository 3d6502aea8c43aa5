"""Cases of single layers with PyTorch's results in double precision, as tests/support/layer_cases.h reads them.

Inputs are rounded to f32 first, so that both sides start from the same numbers. Layouts are Lockstep's: activations
NHWC, convolution weights [Cout][kh][kw][Cin].
"""
import torch
import torch.nn.functional as F


def _randn(generator, *shape, scale=1.0):
    return (torch.randn(*shape, generator=generator) * scale).double()


def _last(t):
    """NCHW -> NHWC, and OIHW -> OHWI."""
    return t.detach().permute(0, 2, 3, 1).contiguous().numpy()


def conv2d(seed, n, size, c_in, c_out, kernel, stride, padding):
    g = torch.Generator().manual_seed(seed)
    x = _randn(g, n, c_in, size, size).requires_grad_()
    w = _randn(g, c_out, c_in, kernel, kernel, scale=(2.0 / (c_out * kernel * kernel)) ** 0.5)
    w = w.float().double().requires_grad_()
    y = F.conv2d(x, w, stride=stride, padding=padding)
    dy = _randn(g, *y.shape)
    y.backward(dy)
    return {"options": [kernel, stride, padding], "x": _last(x), "w": _last(w), "dy": _last(dy), "y": _last(y),
            "dx": _last(x.grad), "dw": _last(w.grad)}


def _away_from_zero(x, gamma, beta, residual, frozen, mean, var):
    """Whether no ReLU input is so near to zero that rounding could move it to the other side."""
    y = F.batch_norm(x, mean.clone(), var.clone(), gamma, beta, not frozen, 0.1, 1e-5) + residual
    return y.abs().min() > 4e-6


def batch_norm(seed, n, size, c, relu, with_residual, frozen, mean_offset=0.0):
    while True:
        g = torch.Generator().manual_seed(seed)
        x = (_randn(g, n, c, size, size) * 1.5 + mean_offset).float().double().requires_grad_()
        gamma = (1 + _randn(g, c, scale=0.2)).float().double().requires_grad_()
        beta = _randn(g, c, scale=0.3).float().double().requires_grad_()
        mean = _randn(g, c, scale=0.3).float().double()
        var = (0.5 + torch.rand(c, generator=g)).double()
        residual = _randn(g, n, c, size, size).requires_grad_()
        dy = _randn(g, n, c, size, size)
        if not relu or _away_from_zero(x, gamma, beta, residual if with_residual else 0, frozen, mean, var):
            break
        seed += 1000
    case = {"options": [int(relu), int(frozen)], "x": _last(x), "gamma": gamma.detach().numpy(),
            "beta": beta.detach().numpy(), "running_mean": mean.numpy().copy(), "running_var": var.numpy().copy(),
            "dy": _last(dy)}
    y = F.batch_norm(x, mean, var, gamma, beta, not frozen, 0.1, 1e-5)
    if with_residual:
        y = y + residual
    if relu:
        y = F.relu(y)
    y.backward(dy)
    case |= {"y": _last(y), "dx": _last(x.grad), "dgamma": gamma.grad.numpy(), "dbeta": beta.grad.numpy(),
             "new_running_mean": mean.numpy(), "new_running_var": var.numpy()}
    if with_residual:
        case |= {"residual": _last(residual), "dresidual": _last(residual.grad)}
    return case


def max_pool(seed, n, size, c):
    g = torch.Generator().manual_seed(seed)
    # After a ReLU, as in the stem: many windows hold nothing but equal zeros.
    x = F.relu(_randn(g, n, c, size, size)).requires_grad_()
    y = F.max_pool2d(x, 3, 2, 1)
    dy = _randn(g, *y.shape)
    y.backward(dy)
    return {"options": [3, 2, 1], "x": _last(x), "dy": _last(dy), "y": _last(y), "dx": _last(x.grad)}


def average_pool(seed, n, size, c):
    g = torch.Generator().manual_seed(seed)
    x = _randn(g, n, c, size, size).requires_grad_()
    y = F.adaptive_avg_pool2d(x, 1).flatten(1)
    dy = _randn(g, n, c)
    y.backward(dy)
    return {"options": [0], "x": _last(x), "dy": dy.numpy(), "y": y.detach().numpy(), "dx": _last(x.grad)}


def linear(seed, n, c_in, c_out):
    g = torch.Generator().manual_seed(seed)
    x = _randn(g, n, c_in).requires_grad_()
    w = _randn(g, c_out, c_in, scale=0.1).float().double().requires_grad_()
    bias = _randn(g, c_out).requires_grad_()
    dy = _randn(g, n, c_out)
    y = F.linear(x, w, bias)
    y.backward(dy)
    values = {"x": x, "w": w, "bias": bias, "dy": dy, "y": y, "dx": x.grad, "dw": w.grad, "dbias": bias.grad}
    return {"options": [0]} | {name: t.detach().numpy() for name, t in values.items()}


def loss(seed, n, classes, smoothing):
    g = torch.Generator().manual_seed(seed)
    logits = _randn(g, n, classes, scale=2.0).float().double().requires_grad_()
    labels = torch.randint(classes, (n,), generator=g)
    value = F.cross_entropy(logits, labels, label_smoothing=smoothing)
    value.backward()
    return {"options": [round(100 * smoothing)], "logits": logits.detach().numpy(), "labels": labels.numpy(),
            "loss": value.detach().numpy().reshape(1), "dlogits": logits.grad.numpy()}


def flatten(cases):
    """{case: {tensor: array}} -> {"case/tensor": array}."""
    return {f"{case}/{name}": value for case, tensors in cases.items() for name, value in tensors.items()}


def small_cases():
    """For the committed fixtures: every kind, odd sizes, a few kilobytes each."""
    cases = {}
    for i, (n, size, c_in, c_out, k, s, p) in enumerate([
            (3, 7, 3, 16, 7, 2, 3), (2, 6, 3, 16, 3, 1, 1), (3, 5, 16, 24, 1, 1, 0), (2, 7, 16, 32, 1, 2, 0),
            (3, 6, 16, 16, 3, 1, 1), (2, 7, 16, 24, 3, 2, 1), (5, 1, 32, 32, 3, 1, 1), (3, 2, 32, 16, 3, 2, 1),
            (1, 4, 5, 7, 3, 1, 1)]):
        cases[f"conv2d.{k}x{k}_stride{s}_{size}x{size}_{c_in}_{c_out}"] = conv2d(i, n, size, c_in, c_out, k, s, p)
    for relu in (False, True):
        for residual in (False, True):
            for frozen in (False, True):
                label = "_".join(["relu"] * relu + ["residual"] * residual + ["frozen"] * frozen) or "plain"
                cases[f"batch_norm.{label}"] = batch_norm(7, 3, 5, 19, relu, residual, frozen)
    cases["batch_norm.one_row_an_image"] = batch_norm(8, 4, 1, 64, True, True, False)
    cases["batch_norm.large_mean"] = batch_norm(9, 4, 4, 16, False, False, False, mean_offset=30.0)
    cases["max_pool.even"] = max_pool(1, 2, 8, 16)
    cases["max_pool.odd"] = max_pool(2, 3, 7, 5)
    cases["average_pool.4x4"] = average_pool(1, 3, 4, 33)
    cases["linear.small"] = linear(1, 5, 33, 10)
    cases["loss.plain"] = loss(1, 7, 10, 0.0)
    cases["loss.smoothed"] = loss(2, 7, 10, 0.1)
    return flatten(cases)


def resnet_cases(n):
    """The layers of ResNet-18 and ResNet-50 at their real sizes for 32x32 pictures, ImageNet stem."""
    cases = {"conv2d.stem_imagenet": conv2d(1, n, 32, 3, 64, 7, 2, 3), "conv2d.stem_cifar": conv2d(2, n, 32, 3, 64, 3, 1, 1)}
    for stage, size in enumerate([8, 4, 2, 1]):
        width = 64 << stage
        before = 64 if stage == 0 else 2 * width
        stride, size_in = (1, size) if stage == 0 else (2, 2 * size)
        shapes = [(size_in, before, width, 1, 1, 0), (size_in, width, width, 3, stride, 1), (size, width, width, 3, 1, 1),
                  (size, width, 4 * width, 1, 1, 0), (size, 4 * width, width, 1, 1, 0),
                  (size_in, before, 4 * width, 1, stride, 0)]
        for i, (s, c_in, c_out, k, t, p) in enumerate(dict.fromkeys(shapes)):
            name = f"conv2d.layer{stage + 1}_{k}x{k}_stride{t}_{s}x{s}_{c_in}_{c_out}"
            cases[name] = conv2d(10 * stage + i, n, s, c_in, c_out, k, t, p)
        cases[f"batch_norm.layer{stage + 1}_{size}x{size}_{width}_relu"] = batch_norm(stage, n, size, width, True, False, False)
        cases[f"batch_norm.layer{stage + 1}_{size}x{size}_{4 * width}_relu_residual"] = batch_norm(
            stage + 40, n, size, 4 * width, True, True, False)
    cases["batch_norm.stem_16x16_64"] = batch_norm(50, n, 16, 64, False, False, False)
    cases["max_pool.stem"] = max_pool(1, n, 16, 64)
    cases["average_pool.2048"] = average_pool(1, n, 1, 2048)
    cases["linear.2048"] = linear(1, n, 2048, 10)
    cases["loss.10"] = loss(1, n, 10, 0.1)
    return flatten(cases)
