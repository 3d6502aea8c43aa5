#include <array>
#include <cstdlib>

#include "comm/process.h"

namespace lockstep {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
};

// Open MPI first: under Slurm its mpirun sets its own variables beside Slurm's, and its own are the right
// ones. Slurm's are those that srun sets for a job step: a batch script sees SLURM_NTASKS too, but was not
// launched.
constexpr std::array<Launcher, 3> kLaunchers{{
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
}};

}  // namespace

LaunchInfo launch_info() {
  for (const Launcher& launcher : kLaunchers) {
    const char* rank = std::getenv(launcher.rank);
    const char* size = std::getenv(launcher.size);
    if (rank != nullptr && size != nullptr) return {std::atoi(rank), std::atoi(size), launcher.name};
  }
  return {};
}

}  // namespace lockstep
