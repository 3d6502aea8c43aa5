"""CIFAR-10's binary files as tensors, and the training augmentation on whole batches."""

import pathlib

import numpy
import torch

MEAN = torch.tensor([0.4914, 0.4822, 0.4465])
DEVIATION = torch.tensor([0.2470, 0.2435, 0.2616])
PADDING = 4
RECORD_BYTES = 1 + 3 * 32 * 32


def load(directory):
    """((train images, train labels), (test images, test labels)); images uint8 [N,32,32,3]."""
    folder = pathlib.Path(directory)
    if (folder / "cifar-10-batches-bin").is_dir():
        folder = folder / "cifar-10-batches-bin"
    train = [_read(folder / f"data_batch_{i}.bin") for i in range(1, 6)]
    images = torch.cat([images for images, _ in train])
    labels = torch.cat([labels for _, labels in train])
    return (images, labels), _read(folder / "test_batch.bin")


def _read(path):
    if not path.is_file():
        raise SystemExit(f"{path} is missing: --data must name the folder with CIFAR-10's binary version")
    blob = numpy.fromfile(path, numpy.uint8)
    if blob.size == 0 or blob.size % RECORD_BYTES:
        raise SystemExit(f"{path}: {blob.size} bytes are not a whole number of {RECORD_BYTES}-byte records")
    records = torch.from_numpy(blob).view(-1, RECORD_BYTES)
    images = records[:, 1:].reshape(-1, 3, 32, 32).permute(0, 2, 3, 1).contiguous()
    return images, records[:, 0].long()


def normalise(images):
    """uint8 [n,32,32,3] to float [n,3,32,32] whose memory is NHWC (channels_last)."""
    return images.float().div_(255).sub_(MEAN).div_(DEVIATION).permute(0, 3, 1, 2)


def crop_and_flip(images, generator):
    """A 32x32 window of each picture padded by 4 black pixels, mirrored with probability 1/2: RandomCrop and
    RandomHorizontalFlip of torchvision.transforms, drawn for a whole batch at once."""
    n = images.shape[0]
    padded = torch.nn.functional.pad(images, (0, 0, PADDING, PADDING, PADDING, PADDING))
    offsets = torch.randint(0, 2 * PADDING + 1, (2, n, 1), generator=generator)
    mirrored = torch.randint(0, 2, (n, 1), generator=generator).bool()
    span = torch.arange(32)
    rows = offsets[0] + span
    columns = offsets[1] + torch.where(mirrored, span.flip(0), span)
    return padded[torch.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
