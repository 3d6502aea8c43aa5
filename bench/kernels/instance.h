// A call with memory and data, on one backend.
#pragma once

#include <vector>

#include "bench/kernels/call.h"

namespace lockstep::bench {

using Values = std::vector<double>;

class Instance {
 public:
  // Inputs are random numbers that depend on the call alone; results hold NaN (0xFF bytes). `samples` is a
  // multiple of `period`: the samples repeat after that many, so that one period tells all results.
  Instance(Backend& backend, Stream& stream, const Call& call, std::int64_t samples, std::int64_t period);

  const Call& call() const { return call_; }
  std::int64_t period() const { return period_; }
  std::int64_t periods() const { return samples_ / period_; }
  Stream& stream() const { return stream_; }

  void prepare() const;  // waits
  void run() const { call_.run(backend_, stream_, tensors_); }
  // An operand's elements, one period of them where it has samples. Waits.
  Values read(std::size_t operand, std::int64_t at_period) const;

 private:
  void fill(std::size_t operand);
  std::int64_t period_bytes(std::size_t operand) const;
  void put(std::size_t operand, std::int64_t offset, const std::vector<char>& bytes) const;

  Backend& backend_;
  Stream& stream_;
  Call call_;
  std::int64_t samples_, period_;
  std::vector<Buffer> buffers_;
  Tensors tensors_;
};

}  // namespace lockstep::bench
