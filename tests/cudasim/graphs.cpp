// Stream capture and graphs of the runtime's double.
//
// A captured graph knows only what the streams and events of its capture say about order. It is replayed as
// one task, in an order of its nodes that this allows: the order of the capture, or, where the
// configuration's order is not `forward`, one by seed. Work whose order was left open runs in any.
#include <algorithm>
#include <random>
#include <utility>

#include "cudasim/state.h"

namespace cudasim {
namespace {

// The capture that this host thread has begun.
std::shared_ptr<Capture>& own_capture() {
  thread_local std::shared_ptr<Capture> capture;
  return capture;
}

// Whether all nodes lie before the ones in `ends`.
bool all_before(const std::vector<Node>& nodes, const std::vector<std::size_t>& ends) {
  std::vector<char> seen(nodes.size(), 0);
  std::vector<std::size_t> open = ends;
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    if (std::exchange(seen[at], 1)) continue;
    open.insert(open.end(), nodes[at].after.begin(), nodes[at].after.end());
  }
  return std::all_of(seen.begin(), seen.end(), [](char s) { return s != 0; });
}

std::vector<std::size_t> order_of(const std::vector<Node>& nodes, const Config& config) {
  std::mt19937 random(config.seed);
  std::vector<std::size_t> order;
  std::vector<char> done(nodes.size(), 0);
  while (order.size() < nodes.size()) {
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (done[i]) continue;
      const auto& after = nodes[i].after;
      if (std::all_of(after.begin(), after.end(), [&](std::size_t a) { return done[a] != 0; }))
        ready.push_back(i);
      if (config.order == Order::forward && !ready.empty()) break;
    }
    const std::size_t next = ready[config.order == Order::forward ? 0 : random() % ready.size()];
    done[next] = 1;
    order.push_back(next);
  }
  return order;
}

}  // namespace

cudaError_t refuse_in_capture(const Lock& /*lock*/) {
  if (!own_capture()) return cudaSuccess;
  own_capture()->broken = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t refuse_in_capture(const Lock& /*lock*/, CUstream_st& stream) {
  if (!stream.capture) return cudaSuccess;
  stream.capture->broken = true;
  return cudaErrorStreamCaptureUnsupported;
}

}  // namespace cudasim

using namespace cudasim;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaStreamBeginCapture")) return answer(error);
  if (mode != cudaStreamCaptureModeThreadLocal) return answer(cudaErrorNotSupported);
  if (state().streams.count(stream) == 0) return answer(cudaErrorStreamCaptureUnsupported);
  if (stream->capture || own_capture()) return answer(cudaErrorIllegalState);
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->capture->streams = {stream};
  stream->last.clear();
  own_capture() = stream->capture;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const Lock lock(state().mutex);
  const std::shared_ptr<Capture>& capture = resolve(stream).capture;
  *status = !capture          ? cudaStreamCaptureStatusNone
            : capture->broken ? cudaStreamCaptureStatusInvalidated
                              : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaStreamEndCapture")) return answer(error);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture || capture->origin != stream) return answer(cudaErrorStreamCaptureUnmatched);
  const std::vector<std::size_t> ends = stream->last;
  for (CUstream_st* captured : capture->streams) {
    captured->capture = nullptr;
    captured->last.clear();
  }
  own_capture() = nullptr;
  if (capture->broken) return answer(cudaErrorStreamCaptureInvalidated);
  if (!all_before(capture->nodes, ends)) return answer(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{std::move(capture->nodes)};
  ++state().graphs;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long /*flags*/) {
  const Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaGraphInstantiate")) return answer(error);
  *exec = new CUgraphExec_st{std::make_shared<const std::vector<Node>>(graph->nodes)};
  ++state().graphs;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  Lock lock(state().mutex);
  if (const cudaError_t error = entry(lock, "cudaGraphLaunch")) return answer(error);
  ++state().counts.launches;
  Config config = state().config;
  config.seed += static_cast<std::uint32_t>(state().counts.launches);
  const auto run = [nodes = exec->nodes, config] {
    for (const std::size_t i : order_of(*nodes, config)) {
      if ((*nodes)[i].run) (*nodes)[i].run();
    }
  };
  push(lock, resolve(stream), {.run = run, .waits_for = nullptr, .completes = nullptr});
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Lock lock(state().mutex);
  delete graph;
  --state().graphs;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  const Lock lock(state().mutex);
  delete exec;
  --state().graphs;
  return cudaSuccess;
}

}  // extern "C"
