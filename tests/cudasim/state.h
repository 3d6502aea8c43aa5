// What the parts of the runtime's double share. Internal to tests/cudasim.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "cudasim/cudasim.h"

// The handles that NVIDIA's headers declare. A record is one cudaEventRecord: waits hold on to it, so an
// event may be recorded again or destroyed while others still wait for its earlier record.
namespace cudasim {
struct Record;
struct Task {
  std::function<void()> run;          // nothing: a wait
  std::shared_ptr<Record> waits_for;  // of another stream
  std::shared_ptr<Record> completes;
};

// Work that was captured. Nodes are in the order of their capture, so a node comes after the nodes in
// `after`.
struct Node {
  std::function<void()> run;
  std::vector<std::size_t> after;
};
struct Capture {
  CUstream_st* origin = nullptr;
  std::set<CUstream_st*> streams;  // the origin, and those that wait for an event of it
  std::vector<Node> nodes;
  bool broken = false;  // by a call that cannot be captured
};
}  // namespace cudasim

struct CUstream_st {
  int device = 0;
  std::deque<cudasim::Task> tasks;
  bool busy = false;                          // a host thread runs a task of it
  std::shared_ptr<cudasim::Capture> capture;  // null: none
  std::vector<std::size_t> last;              // of capture: what the next node comes after
};

struct CUevent_st {
  std::shared_ptr<cudasim::Record> record;
  std::shared_ptr<cudasim::Capture> capture;  // it was recorded in one, behind these nodes
  std::vector<std::size_t> nodes;
};

struct CUgraph_st {
  std::vector<cudasim::Node> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<cudasim::Node>> nodes;
};

namespace cudasim {

struct Record {
  CUstream_st* stream = nullptr;
  bool done = false;
  std::chrono::steady_clock::time_point when;  // done
};

struct Allocation {
  std::int64_t bytes = 0;   // as asked for
  std::int64_t mapped = 0;  // whole pages
  int device = -1;          // -1: pinned host memory
};

// One a process, behind one mutex. Tasks run outside of it.
struct State {
  std::mutex mutex;
  std::condition_variable progress;
  Config config;
  std::map<std::string, std::int64_t> calls;
  std::map<const char*, Allocation> allocations;
  std::map<int, std::int64_t> used;
  std::map<int, CUstream_st> default_streams;
  std::set<CUstream_st*> streams;
  std::int64_t events = 0, graphs = 0;
  int working = 0;  // tasks that run now
  Counts counts;
  std::string fault;
  cudaError_t sticky = cudaSuccess;  // what every call answers after a fault
};
State& state();

using Lock = std::unique_lock<std::mutex>;

// The device and the last error belong to the host thread.
int& current_device();
cudaError_t& last_error();
// Remembers and returns the error.
cudaError_t answer(cudaError_t error);
// What the configuration or an earlier fault wants this call to answer; cudaSuccess: go on.
cudaError_t entry(const Lock& lock, const char* call);

CUstream_st& resolve(cudaStream_t stream);
// Runs it where the configuration is eager; where the stream is captured, adds it there.
void push(Lock& lock, CUstream_st& stream, Task task);
// What a call that cannot be captured answers: an error where this thread, or this stream, is in a capture,
// which is then broken; else cudaSuccess.
cudaError_t refuse_in_capture(const Lock& lock);
cudaError_t refuse_in_capture(const Lock& lock, CUstream_st& stream);
void wait_for(Lock& lock, const std::shared_ptr<Record>& record);
void drain(Lock& lock, CUstream_st& stream);
void drain_device(Lock& lock, int device);

// Around a task: device memory is there meanwhile, where the configuration hides it from the host.
void hide_device_memory(const Lock& lock, bool hidden);
void begin_work(const Lock& lock);
void end_work(const Lock& lock);

const Allocation* find_allocation(const void* data, std::int64_t bytes);

}  // namespace cudasim
