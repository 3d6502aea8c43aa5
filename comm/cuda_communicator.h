// The communicator of tensors on a CUDA device.
#pragma once

#include <chrono>
#include <memory>

#include "comm/communicator.h"

namespace lockstep {

// Stream collectives run on the device, by NCCL where there is more than one rank. Host collectives are those
// of `host`, which outlives it. All ranks of `host` call it together; timeout is that of a collective.
// AgreedError on all ranks where the devices do not fit together; Error of this rank alone where NCCL fails.
std::unique_ptr<Communicator> make_cuda_communicator(Communicator& host, int device,
                                                     std::chrono::seconds timeout);

// For --version: "NCCL 2.28.9", "not built in".
std::string nccl_library();

}  // namespace lockstep
