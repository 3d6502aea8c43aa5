#include "comm/nccl_communicator.h"

#include <cstdlib>
#include <exception>
#include <thread>
#include <utility>

#include "comm/cuda_communicator.h"
#include "comm/nccl_check.h"
#include "comm/nccl_devices.h"
#include "comm/single_communicator.h"
#include "comm/verify.h"

namespace lockstep {

namespace detail {

std::string nccl_error_text(ncclResult_t result, const std::string& what, ncclComm_t comm) {
  const std::string last = ncclGetLastError(comm);
  return fmt::format(
      "NCCL failed in {}: {}{}. Look for the first error of another rank; NCCL_DEBUG=INFO shows what NCCL "
      "does, "
      "NCCL_SOCKET_IFNAME chooses the network, --device cpu runs without it.",
      what, ncclGetErrorString(result), last.empty() ? "" : " (" + last + ")");
}

void nccl_failed(ncclResult_t result, const std::string& what, ncclComm_t comm) {
  throw Error(ExitCode::peer, nccl_error_text(result, what, comm));
}

}  // namespace detail

namespace {

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::mean:
      return ncclAvg;
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::max:
      return ncclMax;
  }
  return ncclSum;
}

std::string version_text(int version) {
  return fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string setting(const char* what, const char* variable) {
  const char* value = std::getenv(variable);
  return value ? fmt::format("{} {} ({})", what, value, variable)
               : fmt::format("{} chosen by NCCL ({})", what, variable);
}

// All ranks learn rank 0's. Where that one fails, all do.
ncclUniqueId common_id(Communicator& host) {
  ncclUniqueId id = {};
  ExitCode code = ExitCode::ok;
  std::string message;
  if (host.rank() == 0) {
    try {
      NCCL_CHECK(ncclGetUniqueId(&id), "start-up", nullptr);
    } catch (const Error& error) {
      code = error.code();
      message = error.what();
    }
  }
  agree_on_error(host, code, message);
  host.broadcast_host(&id, sizeof id, 0, "NCCL's unique id");
  return id;
}

}  // namespace

NcclCommunicator::NcclCommunicator(Communicator& host, int device, std::chrono::seconds timeout,
                                   std::function<void(const std::string&)> on_failure)
    : host_(host),
      allocator_(device),
      stream_(device, CudaStream::Priority::high),
      watchdog_(host.rank(), timeout, on_failure),
      on_failure_(std::move(on_failure)),
      exceptions_(std::uncaught_exceptions()),
      follower_("ls-nccl") {
  check_devices(host, device);
  ncclUniqueId id = common_id(host);
  const std::string operation = "NCCL start-up";
  const Watchdog::Guard guard(watchdog_, operation);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  NCCL_CHECK(ncclCommInitRankConfig(&comm_, size(), id, rank(), &config), operation, nullptr);
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_ == nullptr) return;
  if (std::uncaught_exceptions() > exceptions_) {
    abort();  // the others do not know: a collective of ours may wait for ever
    return;
  }
  try {
    stream_.synchronize();
    follower_.synchronize();
  } catch (const std::exception&) {
    abort();  // the device is lost; whoever waited for it has got the error
    return;
  }
  ncclCommDestroy(comm_);
}

std::string NcclCommunicator::description() const {
  int version = 0;
  NCCL_CHECK(ncclGetVersion(&version), "ncclGetVersion", comm_);
  return fmt::format("{}, {}, {}", version_text(version), setting("algorithm", "NCCL_ALGO"),
                     setting("protocol", "NCCL_PROTO"));
}

void NcclCommunicator::enqueued(ncclResult_t result, const std::string& what) {
  NCCL_CHECK(result, fmt::format("{} on rank {}", what, rank()), comm_);
  if (!stream_.recording()) watch(what, stream_.record());
}

std::int64_t NcclCommunicator::chunk(std::int64_t count, const std::string& what) const {
  LOCKSTEP_CHECK(count % size() == 0, "{}: {} elements are no multiple of {} ranks", what, count, size());
  return count / size();
}

void NcclCommunicator::all_reduce(float* data, std::int64_t count, ReduceOp op, const std::string& what) {
  enqueued(ncclAllReduce(data, data, static_cast<std::size_t>(count), ncclFloat, nccl_op(op), comm_,
                         static_cast<cudaStream_t>(stream_.native_handle())),
           what);
}

void NcclCommunicator::reduce_scatter(float* data, std::int64_t count, ReduceOp op, const std::string& what) {
  const std::int64_t part = chunk(count, what);
  enqueued(ncclReduceScatter(data, data + part * rank(), static_cast<std::size_t>(part), ncclFloat,
                             nccl_op(op), comm_, static_cast<cudaStream_t>(stream_.native_handle())),
           what);
}

void NcclCommunicator::all_gather(float* data, std::int64_t count, const std::string& what) {
  const std::int64_t part = chunk(count, what);
  enqueued(ncclAllGather(data + part * rank(), data, static_cast<std::size_t>(part), ncclFloat, comm_,
                         static_cast<cudaStream_t>(stream_.native_handle())),
           what);
}

void NcclCommunicator::broadcast(float* data, std::int64_t count, int root, const std::string& what) {
  enqueued(ncclBroadcast(data, data, static_cast<std::size_t>(count), ncclFloat, root, comm_,
                         static_cast<cudaStream_t>(stream_.native_handle())),
           what);
}

void NcclCommunicator::watch(const std::string& what, const Event& done) {
  follower_.submit([=, this] { follow(what, done); });
}

void NcclCommunicator::abort() {
  const std::lock_guard lock(comm_mutex_);
  ncclCommAbort(comm_);
  comm_ = nullptr;
}

// Asleep between two looks: a look costs a call of the driver.
void NcclCommunicator::follow(const std::string& what, const Event& done) {
  using namespace std::chrono_literals;
  const Watchdog::Guard guard(watchdog_, what);
  try {
    while (!done.query()) {
      if (const std::string error = asynchronous_error(what); !error.empty()) return on_failure_(error);
      std::this_thread::sleep_for(10ms);
    }
  } catch (const Error&) {  // the device's: whoever waits for it is told
  }
}

// "" where there is none, or where the communicator was aborted.
std::string NcclCommunicator::asynchronous_error(const std::string& what) {
  const std::lock_guard lock(comm_mutex_);
  if (comm_ == nullptr) return "";
  ncclResult_t error = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &error);
  const ncclResult_t result = asked != ncclSuccess ? asked : error;
  if (result == ncclSuccess || result == ncclInProgress) return "";
  return detail::nccl_error_text(result, fmt::format("{} on rank {}", what, rank()), comm_);
}

std::unique_ptr<Communicator> make_cuda_communicator(Communicator& host, int device,
                                                     std::chrono::seconds timeout) {
  if (host.size() > 1)
    return std::make_unique<NcclCommunicator>(host, device, timeout, end_process_on_timeout);
  return make_single_communicator(std::make_unique<CudaStream>(device),
                                  std::make_unique<CudaAllocator>(device));
}

std::string nccl_library() {
  return version_text(NCCL_VERSION_CODE);
}

}  // namespace lockstep
