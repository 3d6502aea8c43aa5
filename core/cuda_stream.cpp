#include "core/cuda_stream.h"

#include <exception>
#include <mutex>
#include <utility>

#include "core/cuda_check.h"
#include "core/error.h"

namespace lockstep {
namespace {

// The first exception of a stream's host tasks. Shared with events and queued tasks, which may outlive the
// stream.
class Failure {
 public:
  bool failed() {
    const std::lock_guard lock(mutex_);
    return exception_ != nullptr;
  }
  void keep(std::exception_ptr exception) {
    const std::lock_guard lock(mutex_);
    if (!exception_) exception_ = std::move(exception);
  }
  void rethrow() {
    const std::lock_guard lock(mutex_);
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr exception_;
};

struct HostTask {
  std::function<void()> run;
  std::shared_ptr<Failure> failure;
};

// Runs on a thread of the driver; nothing may be thrown through it.
void CUDART_CB run_host_task(void* data) {
  const std::unique_ptr<HostTask> task(static_cast<HostTask*>(data));
  if (task->failure->failed()) return;
  try {
    task->run();
  } catch (...) {
    task->failure->keep(std::current_exception());
  }
}

class CudaEventState final : public Event::State {
 public:
  CudaEventState(cudaStream_t stream, std::shared_ptr<Failure> failure) : failure_(std::move(failure)) {
    CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming | cudaEventBlockingSync));
    const cudaError_t status = cudaEventRecord(event_, stream);
    if (status != cudaSuccess) cudaEventDestroy(event_);
    CUDA_CHECK(status);
  }
  ~CudaEventState() override { cudaEventDestroy(event_); }
  CudaEventState(const CudaEventState&) = delete;
  CudaEventState& operator=(const CudaEventState&) = delete;

  bool query() override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) return false;
    CUDA_CHECK(status);
    return true;
  }
  void synchronize() override {
    CUDA_CHECK(cudaEventSynchronize(event_));
    failure_->rethrow();
  }
  void* native_handle() override { return event_; }

 private:
  std::shared_ptr<Failure> failure_;
  cudaEvent_t event_ = nullptr;
};

class CudaRecording final : public Recording {
 public:
  explicit CudaRecording(cudaGraph_t graph) {
    const cudaError_t status = cudaGraphInstantiate(&graph_, graph, 0);
    cudaGraphDestroy(graph);
    CUDA_CHECK(status);
  }
  ~CudaRecording() override { cudaGraphExecDestroy(graph_); }
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;

  void replay(Stream& stream) override {
    CUDA_CHECK(cudaGraphLaunch(graph_, static_cast<cudaStream_t>(stream.native_handle())));
  }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

class CudaStream::Impl {
 public:
  Impl(int device_index, Priority priority) : device(device_index) {
    CUDA_CHECK(cudaSetDevice(device));
    int least = 0, greatest = 0;
    CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                            priority == Priority::high ? greatest : least));
  }
  ~Impl() {
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  int device;
  cudaStream_t stream = nullptr;
  std::shared_ptr<Failure> failure = std::make_shared<Failure>();
};

CudaStream::CudaStream(int device, Priority priority) : impl_(std::make_unique<Impl>(device, priority)) {}
CudaStream::~CudaStream() = default;

void CudaStream::submit(std::function<void()> task) {
  LOCKSTEP_CHECK(!recording(), "a host task runs once, and cannot be recorded");
  auto queued = std::make_unique<HostTask>(HostTask{std::move(task), impl_->failure});
  CUDA_CHECK(cudaLaunchHostFunc(impl_->stream, run_host_task, queued.get()));
  static_cast<void>(queued.release());  // run_host_task owns it now
}

Event CudaStream::record() {
  CUDA_CHECK(cudaSetDevice(impl_->device));  // an event belongs to the device that is current when it is made
  return Event(std::make_shared<CudaEventState>(impl_->stream, impl_->failure));
}

void CudaStream::wait(const Event& event) {
  if (event.native_handle() != nullptr) {
    CUDA_CHECK(cudaStreamWaitEvent(impl_->stream, static_cast<cudaEvent_t>(event.native_handle()), 0));
  } else if (!event.query()) {
    submit([event] { event.synchronize(); });
  }
}

void CudaStream::synchronize() {
  CUDA_CHECK(cudaStreamSynchronize(impl_->stream));
  impl_->failure->rethrow();
}

bool CudaStream::recording() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CUDA_CHECK(cudaStreamIsCapturing(impl_->stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

// The mode of this thread only: another one may still ask for events (NcclCommunicator's does).
void CudaStream::begin_recording() {
  CUDA_CHECK(cudaStreamBeginCapture(impl_->stream, cudaStreamCaptureModeThreadLocal));
}

std::unique_ptr<Recording> CudaStream::end_recording() {
  cudaGraph_t graph = nullptr;
  CUDA_CHECK(cudaStreamEndCapture(impl_->stream, &graph));
  return std::make_unique<CudaRecording>(graph);
}

void* CudaStream::native_handle() {
  return impl_->stream;
}

}  // namespace lockstep
