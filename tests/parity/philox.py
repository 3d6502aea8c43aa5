"""The twin of core/rng.h in NumPy: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011), the same streams and values.

Uniform values are equal bit for bit. Normal values take logarithm, sine and cosine from NumPy in double precision and
differ from the C++ by rounding.
"""
import numpy as np

INIT, AUGMENT, SYNTHETIC = 1, 2, 3

_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


def philox4x32(counter, key):
    """Ten rounds. counter: four arrays (or integers) of 32-bit words; key: two words. Returns four uint64 arrays."""
    c0, c1, c2, c3 = (np.asarray(word, np.uint64) for word in counter)
    k0, k1 = key
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c0
        p1 = np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = ((p1 >> _SHIFT) ^ c1 ^ np.uint64(k0), p1 & _MASK, (p0 >> _SHIFT) ^ c3 ^ np.uint64(k1), p0 & _MASK)
        k0 = (k0 + 0x9E3779B9) & 0xFFFFFFFF
        k1 = (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


def words(seed, stream, substream, count):
    """The first `count` words of a substream, block after block."""
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    high = (stream << 24) | (substream >> 32 & 0xFFFFFF)
    counter = (blocks & _MASK, blocks >> _SHIFT, substream & 0xFFFFFFFF, high)
    result = np.stack(np.broadcast_arrays(*philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32))), axis=-1)
    return result.reshape(-1)[:count].astype(np.uint32)


def uniform(seed, stream, substream, low, high, count):
    low, high = np.float32(low), np.float32(high)
    unit = (words(seed, stream, substream, count) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    return np.minimum(low + (high - low) * unit, np.nextafter(high, low))


def normal(seed, stream, substream, mean, deviation, count):
    pairs = (words(seed, stream, substream, (count + 3) // 4 * 4) >> np.uint32(8)).astype(np.float64).reshape(-1, 2)
    radius = np.sqrt(-2 * np.log((pairs[:, 0] + 1) * 2.0**-24))
    angle = 2 * np.pi * 2.0**-24 * pairs[:, 1]
    values = mean + deviation * np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    return values.reshape(-1)[:count].astype(np.float32)


def chunked(fill, seed, parameter, count):
    """Initial values of one parameter, as models/initialize.h cuts them: fill(seed, stream, substream, count)."""
    chunk = 65536
    return np.concatenate([fill(seed, INIT, (parameter << 20) + k, min(chunk, count - k * chunk))
                           for k in range((count + chunk - 1) // chunk)])
