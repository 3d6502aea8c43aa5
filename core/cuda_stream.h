// A Stream on a CUDA device. Kernels and copies are enqueued through native_handle(), a cudaStream_t; host
// tasks run in the same order through cudaLaunchHostFunc, and must not call CUDA.
#pragma once

#include <memory>

#include "core/stream.h"

namespace lockstep {

class CudaStream final : public Stream {
 public:
  enum class Priority { normal, high };  // high: its kernels go first where both could run
  explicit CudaStream(int device, Priority priority = Priority::normal);  // Error(device) where there is none
  ~CudaStream() override;  // waits for what is queued; never throws
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void submit(std::function<void()> task) override;
  Event record() override;  // a CUDA event without timing
  // An event of a CUDA stream is waited for on the device, any other by a host task in this stream: the
  // caller never blocks.
  void wait(const Event& event) override;
  void synchronize() override;
  void begin_recording() override;
  std::unique_ptr<Recording> end_recording() override;
  bool recording() const;
  void* native_handle() override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
