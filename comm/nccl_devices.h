// Do the ranks' devices fit together? Asked before NCCL is, whose own errors name neither rank nor remedy.
#pragma once

#include "comm/communicator.h"

namespace lockstep {

// Every rank of `host` calls it. AgreedError(device) on all ranks where two ranks have one device (by host
// and UUID), or devices of different types; AgreedError(peer) where a host's /dev/shm is too small for what
// NCCL keeps there.
void check_devices(Communicator& host, int device);

}  // namespace lockstep
