// Do the ranks' devices fit together? Asked before NCCL is, whose own errors name neither rank nor remedy.
#pragma once

#include <cstdint>
#include <string>

#include "comm/communicator.h"

namespace lockstep {

// Every rank of `host` calls it. AgreedError(device) on all ranks where two ranks have one device (by host
// and UUID), or devices of different types; AgreedError(peer) where a host's devices cannot reach each
// other's memory and its /dev/shm is too small for what NCCL then keeps there.
void check_devices(Communicator& host, int device);

// Why so many free bytes in /dev/shm do not do for so many ranks of a host; "" where they do.
std::string shared_memory_problem(std::int64_t free_bytes, int ranks_of_host);

}  // namespace lockstep
