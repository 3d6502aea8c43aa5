// Streams, events and kernel launches of the runtime's double.
#include <cstdio>
#include <utility>

#include "cudasim/state.h"

namespace cudasim {
namespace {

// Runs the first task of a stream, or what that task waits for. The stream is not empty.
void advance(Lock& lock, CUstream_st& stream) {
  if (stream.busy) {
    state().progress.wait(lock, [&] { return !stream.busy; });
    return;
  }
  const std::shared_ptr<Record> waits_for = stream.tasks.front().waits_for;
  if (waits_for && !waits_for->done) {
    // A record is older than the wait for it, so this ends.
    if (waits_for->stream->busy || !waits_for->stream->tasks.empty()) advance(lock, *waits_for->stream);
    return;
  }
  stream.busy = true;
  Task task = std::move(stream.tasks.front());
  stream.tasks.pop_front();
  if (task.run) {
    begin_work(lock);
    lock.unlock();
    task.run();
    task.run = nullptr;
    lock.lock();
    end_work(lock);
  }
  if (task.completes) {
    task.completes->done = true;
    task.completes->when = std::chrono::steady_clock::now();
  }
  stream.busy = false;
  state().progress.notify_all();
}

std::mutex& kernel_mutex() {
  static std::mutex mutex;  // the built-ins of device code are variables of the process
  return mutex;
}

bool can_launch(const cudaLaunchConfig_t& config) {
  const dim3 &grid = config.gridDim, &block = config.blockDim;
  const auto threads = std::uint64_t{block.x} * block.y * block.z;
  return threads > 0 && threads <= 1024 && block.z <= 64 && grid.x > 0 && grid.x <= 0x7fffffffu &&
         grid.y > 0 && grid.y <= 65535 && grid.z > 0 && grid.z <= 65535;
}

}  // namespace

CUstream_st& resolve(cudaStream_t stream) {
  if (stream != nullptr && stream != cudaStreamLegacy && stream != cudaStreamPerThread) return *stream;
  CUstream_st& own = state().default_streams[current_device()];
  own.device = current_device();
  return own;
}

void drain(Lock& lock, CUstream_st& stream) {
  while (stream.busy || !stream.tasks.empty()) advance(lock, stream);
}

void drain_device(Lock& lock, int device) {
  for (auto& [index, stream] : state().default_streams) {
    if (index == device) drain(lock, stream);
  }
  const std::set<CUstream_st*> streams = state().streams;
  for (CUstream_st* stream : streams) {
    if (stream->device == device) drain(lock, *stream);
  }
}

void wait_for(Lock& lock, const std::shared_ptr<Record>& record) {
  while (!record->done) advance(lock, *record->stream);
}

void push(Lock& lock, CUstream_st& stream, Task task) {
  if (stream.capture) {
    std::vector<Node>& nodes = stream.capture->nodes;
    nodes.push_back({std::move(task.run), stream.last});
    stream.last = {nodes.size() - 1};
    return;
  }
  stream.tasks.push_back(std::move(task));
  if (state().config.eager) drain(lock, stream);
}

void enqueue(cudaStream_t stream, std::function<void()> work) {
  Lock lock(state().mutex);
  push(lock, resolve(stream), {.run = std::move(work), .waits_for = nullptr, .completes = nullptr});
}

cudaError_t launch(const cudaLaunchConfig_t* config, const char* name, std::function<void()> body) {
  Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaLaunchKernelEx")) return answer(error);
  if (!can_launch(*config)) return answer(cudaErrorInvalidConfiguration);
  if (config->dynamicSmemBytes > 0) return answer(cudaErrorNotSupported);
  ++state().counts.launches;
  const std::int64_t number = state().counts.launches;
  auto run = [grid = config->gridDim, block = config->blockDim, order = state().config.order,
              seed = state().config.seed + static_cast<std::uint32_t>(number), body = std::move(body),
              kernel = std::string(name)] {
    const std::lock_guard one_kernel(kernel_mutex());
    const std::string fault = run_grid({grid, block, order, seed}, body);
    if (fault.empty()) return;
    const Lock locked(state().mutex);
    state().fault = fault + " in " + kernel;
    state().sticky = cudaErrorLaunchFailure;
    std::fprintf(stderr, "cudasim: %s\n", state().fault.c_str());
  };
  push(lock, resolve(config->stream), {.run = std::move(run), .waits_for = nullptr, .completes = nullptr});
  return cudaSuccess;
}

}  // namespace cudasim

using namespace cudasim;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

// A stream that waits for the default stream is not modelled.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int /*priority*/) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaStreamCreateWithFlags")) return answer(error);
  if (flags != cudaStreamNonBlocking) return answer(cudaErrorNotSupported);
  *stream = new CUstream_st;
  (*stream)->device = current_device();
  state().streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

// The real one returns at once and lets the work finish; here it finishes first.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Lock lock(state().mutex);
  if (state().streams.count(stream) == 0) return answer(cudaErrorInvalidResourceHandle);
  if (const cudaError_t error = refuse_in_capture(lock, *stream)) return answer(error);
  drain(lock, *stream);
  state().streams.erase(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaStreamSynchronize")) return answer(error);
  if (const cudaError_t error = refuse_in_capture(lock, resolve(stream))) return answer(error);
  ++state().counts.host_waits;
  drain(lock, resolve(stream));
  return answer(state().sticky);
}

cudaError_t cudaDeviceSynchronize() {
  Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaDeviceSynchronize")) return answer(error);
  if (const cudaError_t error = refuse_in_capture(lock)) return answer(error);
  ++state().counts.host_waits;
  drain_device(lock, current_device());
  return answer(state().sticky);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaStreamWaitEvent")) return answer(error);
  CUstream_st& waiting = resolve(stream);
  if (event->capture) {
    if (!waiting.capture) {
      waiting.capture = event->capture;
      waiting.capture->streams.insert(&waiting);
    }
    if (waiting.capture != event->capture) return answer(cudaErrorStreamCaptureMerge);
    waiting.last.insert(waiting.last.end(), event->nodes.begin(), event->nodes.end());
    return cudaSuccess;
  }
  if (!event->record) return cudaSuccess;
  if (waiting.capture) {
    waiting.capture->broken = true;
    return answer(cudaErrorStreamCaptureIsolation);
  }
  push(lock, waiting, {.run = nullptr, .waits_for = event->record, .completes = nullptr});
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaLaunchHostFunc")) return answer(error);
  push(lock, resolve(stream), {.run = [=] { function(data); }, .waits_for = nullptr, .completes = nullptr});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaEventCreateWithFlags")) return answer(error);
  *event = new CUevent_st;
  ++state().events;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Lock lock(state().mutex);
  delete event;
  --state().events;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaEventRecord")) return answer(error);
  CUstream_st& on = resolve(stream);
  event->capture = on.capture;
  event->nodes = on.last;
  event->record = nullptr;
  if (on.capture) return cudaSuccess;
  event->record = std::make_shared<Record>(Record{.stream = &on, .done = false, .when = {}});
  push(lock, on, {.run = nullptr, .waits_for = nullptr, .completes = event->record});
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const Lock lock(state().mutex);
  if (!begin->record || !end->record) return answer(cudaErrorInvalidResourceHandle);
  if (!begin->record->done || !end->record->done) return answer(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(end->record->when - begin->record->when).count();
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaEventQuery")) return answer(error);
  if (event->capture) return answer(cudaErrorCapturedEvent);
  return !event->record || event->record->done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaEventSynchronize")) return answer(error);
  if (event->capture) return answer(cudaErrorCapturedEvent);
  if (const std::shared_ptr<Record> record = event->record; record && !record->done) {
    ++state().counts.host_waits;
    wait_for(lock, record);
  }
  return answer(state().sticky);
}

}  // extern "C"
