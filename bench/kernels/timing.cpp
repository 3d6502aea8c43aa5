#include "bench/kernels/timing.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace lockstep::bench {
namespace {

constexpr double kLeastSeconds = 0.01;
constexpr int kLeastTries = 3;
constexpr double kPeakSeconds = 0.3;

double seconds_of(Stream& stream, const std::function<void()>& enqueue, std::int64_t calls) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < calls; ++i) enqueue();
  stream.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Of as many calls as fill a while: a neighbour on the core disturbs some of them, seldom all.
double least_seconds(Stream& stream, const std::function<void()>& enqueue) {
  double least = seconds_of(stream, enqueue, 1), all = least;
  for (int tries = 1; tries < kLeastTries || all < kPeakSeconds; ++tries) {
    const double seconds = seconds_of(stream, enqueue, 1);
    least = std::min(least, seconds);
    all += seconds;
  }
  return least;
}

// Not zeros, on which a processor may save power: any other byte is as good.
Buffer filled(Backend& backend, Stream& stream, std::int64_t bytes) {
  Buffer buffer(backend.allocator(), bytes);
  const std::vector<char> piece(std::size_t{1} << 20, 0x3F);
  for (std::int64_t at = 0; at < bytes; at += static_cast<std::int64_t>(piece.size())) {
    const std::int64_t count = std::min(bytes - at, static_cast<std::int64_t>(piece.size()));
    backend.copy_to_device(stream, static_cast<char*>(buffer.data()) + at, piece.data(), count);
  }
  stream.synchronize();
  return buffer;
}

double copy_peak(Backend& backend, Stream& stream) {
  constexpr std::int64_t kBytes = std::int64_t{256} << 20;
  const Buffer from = filled(backend, stream, kBytes), to = filled(backend, stream, kBytes);
  const auto copy = [&] { backend.copy_on_device(stream, to.data(), from.data(), kBytes); };
  return 2.0 * static_cast<double>(kBytes) / least_seconds(stream, copy);
}

// Larger and larger, until a product takes long enough that nothing else counts, or the size is one at which
// every machine does its best.
double product_peak(Backend& backend, Stream& stream, DType compute) {
  constexpr std::int64_t kSmallest = 512, kLargest = 8192;
  double best = 0;
  for (std::int64_t n = kSmallest; n <= kLargest; n *= 2) {
    const std::int64_t bytes = n * n * size_of(compute);
    const Buffer a = filled(backend, stream, bytes), b = filled(backend, stream, bytes),
                 c = filled(backend, stream, bytes);
    const auto matrix = [&](const Buffer& buffer) {
      return TensorView{buffer.data(), compute, Layout::flat, Shape{n, n}};
    };
    const auto product = [&] { backend.linear_backward_data(stream, matrix(a), matrix(b), matrix(c)); };
    const double seconds = least_seconds(stream, product);
    const double size = static_cast<double>(n);
    best = std::max(best, 2 * size * size * size / seconds);
    if (seconds > 2 * kLeastSeconds) break;
  }
  return best;
}

}  // namespace

double median_seconds(Stream& stream, const std::function<void()>& enqueue, int repetitions) {
  std::int64_t calls = 1;
  for (double seconds = seconds_of(stream, enqueue, calls); seconds < kLeastSeconds;
       seconds = seconds_of(stream, enqueue, calls)) {
    const double missing = kLeastSeconds / std::max(seconds, 1e-6);
    calls =
        std::max(2 * calls, static_cast<std::int64_t>(static_cast<double>(calls) * std::min(missing, 100.0)));
  }
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i)
    times.push_back(seconds_of(stream, enqueue, calls) / static_cast<double>(calls));
  std::sort(times.begin(), times.end());
  const std::size_t middle = times.size() / 2;
  return times.size() % 2 == 1 ? times[middle] : 0.5 * (times[middle - 1] + times[middle]);
}

Peaks measure_peaks(Backend& backend, Stream& stream, DType compute) {
  return {copy_peak(backend, stream), product_peak(backend, stream, compute)};
}

}  // namespace lockstep::bench
