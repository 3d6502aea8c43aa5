"""Named tensors in a file, exchanged with tests/support/tensor_file.h (which describes the format)."""
import numpy as np

_TYPES = {"f32": np.dtype("<f4"), "i32": np.dtype("<i4")}


def write_tensors(path, tensors):
    """tensors: name -> array; integers are stored as i32, everything else as f32."""
    with open(path, "wb") as file:
        for name, value in tensors.items():
            array = np.asarray(value)
            kind = "i32" if np.issubdtype(array.dtype, np.integer) else "f32"
            header = " ".join([name, kind, *map(str, array.shape)])
            file.write(header.encode() + b"\n")
            file.write(np.ascontiguousarray(array, _TYPES[kind]).tobytes())


def read_tensors(path):
    tensors = {}
    with open(path, "rb") as file:
        while line := file.readline():
            name, kind, *dims = line.decode().split()
            shape = tuple(map(int, dims))
            data = file.read(4 * int(np.prod(shape, dtype=np.int64)))
            tensors[name] = np.frombuffer(data, _TYPES[kind]).reshape(shape)
    return tensors
