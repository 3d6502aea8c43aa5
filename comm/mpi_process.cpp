#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "comm/cuda_communicator.h"
#include "comm/mpi_check.h"
#include "comm/mpi_communicator.h"
#include "comm/process.h"
#include "comm/single_communicator.h"
#include "comm/watchdog.h"
#include "core/host.h"

namespace lockstep {
namespace {

// What a rank tells the others about itself right after MPI_Init.
struct Identity {
  std::array<char, 64> build{};  // fixed sizes: one all-gather before anything else is known to be equal
  std::array<char, 64> host{};
};

Identity identity() {
  Identity mine;
  build_id().copy(mine.build.data(), mine.build.size() - 1);
  gethostname(mine.host.data(), mine.host.size() - 1);
  return mine;
}

void check_same_build(MPI_Comm comm, int size) {
  const Identity mine = identity();
  std::vector<Identity> all(static_cast<std::size_t>(size));
  MPI_CHECK(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, comm));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].build == all[0].build) continue;
    throw AgreedError(
        ExitCode::peer,
        fmt::format("rank {} on host {} runs another binary (build {:.12}) than rank 0 on host {} (build "
                    "{:.12}). Copy the same program to every host.",
                    rank, all[rank].host.data(), all[rank].build.data(), all[0].host.data(),
                    all[0].build.data()));
  }
}

}  // namespace

class Process::Impl {
 public:
  explicit Impl(std::chrono::seconds timeout_of_collectives);
  ~Impl();

  std::chrono::seconds timeout;
  std::unique_ptr<Watchdog> watchdog;  // null: one process, MPI is not initialised
  std::unique_ptr<Communicator> communicator;
  MpiCommunicator* mpi = nullptr;           // the communicator, where it is MPI's
  std::unique_ptr<Communicator> on_device;  // behind the one that it uses; null: not asked for
  int rank = 0, size = 1, local_rank = 0, local_size = 1;

 private:
  void init_mpi(const LaunchInfo& launch);
  int exceptions_ = std::uncaught_exceptions();
};

// MPI start-up costs a quarter of a second and its library's threads: one process goes without.
Process::Impl::Impl(std::chrono::seconds timeout_of_collectives) : timeout(timeout_of_collectives) {
  const LaunchInfo launch = launch_info();
  if (launch.size <= 1) {
    communicator =
        make_single_communicator(std::make_unique<InlineStream>(), std::make_unique<HostAllocator>());
    return;
  }
  watchdog = std::make_unique<Watchdog>(launch.rank, timeout, end_process_on_timeout);
  init_mpi(launch);
}

void Process::Impl::init_mpi(const LaunchInfo& launch) {
  const std::string operation = "MPI start-up";
  const Watchdog::Guard guard(*watchdog, operation);
  // Open MPI waits by spinning, unless told to yield. There are as many compute threads as cores, so a worker
  // that spins stops one of them: without this a step beside a collective takes three times as long. A user's
  // setting stands.
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  int provided = MPI_THREAD_SINGLE;
  MPI_CHECK(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided));
  MPI_CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  MPI_CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  MPI_CHECK(MPI_Comm_size(MPI_COMM_WORLD, &size));
  if (provided < MPI_THREAD_SERIALIZED) {
    throw AgreedError(
        ExitCode::usage,
        fmt::format("{} offers no thread support (MPI_THREAD_SERIALIZED). Use a build of it that does.",
                    mpi_library()));
  }
  if (size == 1) {
    throw AgreedError(
        ExitCode::peer,
        fmt::format("{} started {} processes, but {}, which this program was built with, sees one: the "
                    "launcher belongs to another MPI. Use that library's own mpirun: mpirun -np {} PROGRAM "
                    "... (under Slurm: srun --mpi=pmix).",
                    launch.launcher, launch.size, mpi_library(), launch.size));
  }
  check_same_build(MPI_COMM_WORLD, size);

  auto over_mpi = std::make_unique<MpiCommunicator>(MPI_COMM_WORLD, *watchdog);
  local_rank = over_mpi->local_rank();
  local_size = over_mpi->local_size();
  mpi = over_mpi.get();
  communicator = std::move(over_mpi);
}

Process::Impl::~Impl() {
  if (mpi == nullptr) return;
  if (std::uncaught_exceptions() > exceptions_) {
    // This rank failed and the others do not know: the worker may wait for them for ever, and so would
    // MPI_Finalize. Both are left as they are; main() ends the process.
    on_device.reset();  // aborts what is under way there
    static_cast<void>(communicator.release());
    static_cast<void>(watchdog.release());
    return;
  }
  on_device.reset();
  communicator.reset();  // runs what is queued; from here on this thread may call MPI
  const std::string operation = "MPI_Finalize";
  const Watchdog::Guard guard(*watchdog, operation);
  MPI_Finalize();
}

Process::Process(std::chrono::seconds timeout) : impl_(std::make_unique<Impl>(timeout)) {}
Process::~Process() = default;

int Process::rank() const {
  return impl_->rank;
}
int Process::size() const {
  return impl_->size;
}
int Process::local_rank() const {
  return impl_->local_rank;
}
int Process::local_size() const {
  return impl_->local_size;
}
Communicator& Process::communicator() {
  return impl_->on_device ? *impl_->on_device : *impl_->communicator;
}

void Process::use_cuda(int device) {
  impl_->on_device = make_cuda_communicator(*impl_->communicator, device, impl_->timeout);
}

void Process::use_all_reduce(const std::string& name) {
  if (impl_->mpi != nullptr) impl_->mpi->use_all_reduce(name);
}

void Process::abort(ExitCode code) {
  std::fflush(stdout);
  // MPI allows one call at a time. Where the worker is inside one it may never come back; a process that ends
  // without MPI_Finalize makes the launcher end the others too.
  if (impl_->mpi != nullptr && impl_->mpi->mpi_mutex().try_lock()) {
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
  }
  std::_Exit(static_cast<int>(code));
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  // "Open MPI v4.1.4, package: ..." and "MPICH Version:\t4.0.2\n...": the first part is enough.
  const std::string whole = text.data();
  return whole.substr(0, whole.find_first_of(",\n"));
}

}  // namespace lockstep
