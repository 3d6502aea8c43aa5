// Errors of MPI.
#pragma once

namespace lockstep::detail {

void check_mpi(int result, const char* call);

}  // namespace lockstep::detail

// Throws Error(peer) with MPI's own text unless the call returns MPI_SUCCESS.
#define MPI_CHECK(call) ::lockstep::detail::check_mpi((call), #call)
