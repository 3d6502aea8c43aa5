// The communicator of one process, without MPI: nothing travels.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace lockstep {

// Host collectives wait for what is on `stream`, as in a job of many ranks.
std::unique_ptr<Communicator> make_single_communicator(std::unique_ptr<Stream> stream,
                                                       std::unique_ptr<Allocator> allocator);

}  // namespace lockstep
