// MPI's own collectives (--allreduce mpi). Called on one thread.
#pragma once

#include <mpi.h>

#include <memory>

#include "comm/collectives.h"

namespace lockstep {

// comm is borrowed; its errors are returned.
std::unique_ptr<Collectives> make_mpi_collectives(MPI_Comm comm);

}  // namespace lockstep
