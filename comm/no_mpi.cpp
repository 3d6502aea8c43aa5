// The build without MPI: one process works, more than one is refused.
#include <cstdio>
#include <cstdlib>

#include "comm/cuda_communicator.h"
#include "comm/process.h"
#include "comm/single_communicator.h"

namespace lockstep {

class Process::Impl {
 public:
  std::chrono::seconds timeout;
  std::unique_ptr<Communicator> communicator =
      make_single_communicator(std::make_unique<InlineStream>(), std::make_unique<HostAllocator>());
  std::unique_ptr<Communicator> on_device;  // behind the one that it uses; null: not asked for
};

Process::Process(std::chrono::seconds timeout) : impl_(std::make_unique<Impl>()) {
  impl_->timeout = timeout;
  const LaunchInfo launch = launch_info();
  if (launch.size > 1) {
    throw AgreedError(
        ExitCode::usage,
        fmt::format("{} started {} processes, but this program was built without MPI and can only run alone. "
                    "Install an MPI library (README.md names the package) and build again, or start one "
                    "process without a launcher.",
                    launch.launcher, launch.size));
  }
}

Process::~Process() = default;

int Process::rank() const {
  return 0;
}
int Process::size() const {
  return 1;
}
int Process::local_rank() const {
  return 0;
}
int Process::local_size() const {
  return 1;
}

Communicator& Process::communicator() {
  return impl_->on_device ? *impl_->on_device : *impl_->communicator;
}

void Process::use_cuda(int device) {
  impl_->on_device = make_cuda_communicator(*impl_->communicator, device, impl_->timeout);
}

void Process::use_all_reduce(const std::string&) {}

void Process::abort(ExitCode code) {
  std::fflush(stdout);
  std::_Exit(static_cast<int>(code));
}

std::string mpi_library() {
  return "not built in";
}

}  // namespace lockstep
