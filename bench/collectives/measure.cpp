#include "bench/collectives/measure.h"

#include <algorithm>
#include <chrono>
#include <future>

namespace lockstep::bench {
namespace {

constexpr std::int64_t kFloat = sizeof(float);
constexpr int kRoot = 0;
// A sample is as many calls as take this long: for less the clock and the start of the first count too much.
constexpr double kSampleSeconds = 1e-4;
constexpr std::int64_t kMostCalls = 100;
constexpr double kSeconds = 2;  // for the samples of one line
constexpr std::int64_t kLeastSamples = 10;

// Whole numbers whose sum over any ranks is exact in any order.
float value_of(int rank, std::int64_t i) {
  return static_cast<float>((17 * rank + 5 * i) % 1000);
}

Range all_of(std::int64_t count) {
  return {0, count};
}

// What a rank brings, and what it must hold afterwards.
Range source_of(Operation operation, std::int64_t count, int ranks, int rank) {
  if (operation == Operation::all_gather) return chunk_of(count, ranks, rank);
  return operation == Operation::broadcast && rank != kRoot ? Range{} : all_of(count);
}

Range result_of(Operation operation, std::int64_t count, int ranks, int rank) {
  return operation == Operation::reduce_scatter ? chunk_of(count, ranks, rank) : all_of(count);
}

float expected(Operation operation, std::int64_t count, int ranks, std::int64_t i) {
  if (operation == Operation::broadcast) return value_of(kRoot, i);
  if (operation == Operation::all_gather)
    return value_of(static_cast<int>(i / chunk_of(count, ranks, 0).length), i);
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value_of(rank, i);
  return sum;
}

// The smallest value that a share of all do not exceed.
double quantile(const std::vector<double>& sorted, double share) {
  const auto place = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  return sorted[std::min(place, sorted.size() - 1)];
}

}  // namespace

const char* name_of(Operation operation) {
  constexpr const char* kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast"};
  return kNames[static_cast<std::size_t>(operation)];
}

double bus_factor(Operation operation, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (operation == Operation::broadcast) return 1;
  return operation == Operation::all_reduce ? 2 * others : others;
}

const char* bus_formula(Operation operation) {
  if (operation == Operation::broadcast) return "1";
  return operation == Operation::all_reduce ? "2(n-1)/n" : "(n-1)/n";
}

std::vector<std::int64_t> sizes_between(std::int64_t least, std::int64_t largest, std::int64_t factor) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = least; bytes <= largest; bytes *= factor) sizes.push_back(bytes);
  return sizes;
}

std::int64_t elements_of(Operation operation, std::int64_t bytes, int ranks) {
  const bool halves = operation == Operation::reduce_scatter || operation == Operation::all_gather;
  const std::int64_t unit = halves ? ranks : 1;
  return std::max<std::int64_t>(bytes / kFloat / unit, 1) * unit;
}

Measure::Measure(Communicator& communicator, Backend& backend, Allocator& memory, std::int64_t largest)
    : communicator_(communicator),
      backend_(backend),
      from_(backend.allocator(), std::max(largest, kFloat * communicator.size())),
      to_(memory, from_.bytes()),
      token_(backend.allocator(), kFloat) {
  std::vector<float> values(static_cast<std::size_t>(from_.bytes() / kFloat));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = value_of(communicator_.rank(), static_cast<std::int64_t>(i));
  backend_.copy_to_device(communicator_.stream(), from_.data(), values.data(),
                          static_cast<std::int64_t>(values.size()) * kFloat);
  communicator_.stream().synchronize();
}

void Measure::copy_source(Operation operation, std::int64_t count) {
  const Range range = source_of(operation, count, communicator_.size(), communicator_.rank());
  if (range.length == 0) return;
  backend_.copy_on_device(communicator_.stream(), static_cast<float*>(to_.data()) + range.begin,
                          static_cast<float*>(from_.data()) + range.begin, range.length * kFloat);
}

void Measure::enqueue(Operation operation, std::int64_t count, bool in_place) {
  if (!in_place) copy_source(operation, count);
  auto* data = static_cast<float*>(to_.data());
  switch (operation) {
    case Operation::all_reduce:
      return communicator_.all_reduce(data, count, ReduceOp::sum, "all_reduce");
    case Operation::reduce_scatter:
      return communicator_.reduce_scatter(data, count, ReduceOp::sum, "reduce_scatter");
    case Operation::all_gather:
      return communicator_.all_gather(data, count, "all_gather");
    case Operation::broadcast:
      return communicator_.broadcast(data, count, kRoot, "broadcast");
  }
}

std::int64_t Measure::count_wrong(Operation operation, std::int64_t count, bool in_place) {
  Stream& stream = communicator_.stream();
  std::vector<float> values(static_cast<std::size_t>(count), -1.0f);
  backend_.copy_to_device(stream, to_.data(), values.data(), count * kFloat);
  if (in_place) copy_source(operation, count);
  enqueue(operation, count, in_place);
  backend_.copy_to_host(stream, values.data(), to_.data(), count * kFloat);
  stream.synchronize();
  double wrong = 0;
  const Range range = result_of(operation, count, communicator_.size(), communicator_.rank());
  for (std::int64_t i = range.begin; i < range.begin + range.length; ++i)
    wrong += values[static_cast<std::size_t>(i)] != expected(operation, count, communicator_.size(), i);
  communicator_.all_reduce_host(&wrong, 1, ReduceOp::sum, "check");
  return static_cast<std::int64_t>(wrong);
}

// By clocks in the stream. All is enqueued before the first call starts, so that the host takes no core away,
// and a small collective before the first clock lets all ranks start together.
double Measure::slowest_seconds(Operation operation, std::int64_t count, bool in_place, std::int64_t calls) {
  using Clock = std::chrono::steady_clock;
  Stream& stream = communicator_.stream();
  std::promise<void> enqueued;
  Clock::time_point begin, end;
  const bool waits = communicator_.size() > 1;  // one process runs each task at once
  if (waits) stream.submit([&] { enqueued.get_future().wait(); });
  communicator_.all_reduce(static_cast<float*>(token_.data()), 1, ReduceOp::sum, "start");
  stream.submit([&] { begin = Clock::now(); });
  for (std::int64_t i = 0; i < calls; ++i) enqueue(operation, count, in_place);
  stream.submit([&] { end = Clock::now(); });
  enqueued.set_value();
  stream.synchronize();
  return std::chrono::duration<double>(end - begin).count() / static_cast<double>(calls);
}

Figures Measure::run(Operation operation, std::int64_t count, bool in_place, std::int64_t warmup,
                     std::int64_t samples) {
  Figures figures;
  figures.wrong = count_wrong(operation, count, in_place);
  if (figures.wrong > 0) return figures;
  // Sums of zeros stay zeros, however often they are taken.
  backend_.fill_zero(communicator_.stream(), to_.data(), count * kFloat);
  double seconds = slowest_seconds(operation, count, in_place, std::max<std::int64_t>(warmup, 1));
  communicator_.all_reduce_host(&seconds, 1, ReduceOp::max, "warm-up");
  const auto within = [&](double all) { return static_cast<std::int64_t>(all / std::max(seconds, 1e-9)); };
  const std::int64_t calls = std::clamp<std::int64_t>(within(kSampleSeconds), 1, kMostCalls);
  samples = std::min(samples, std::max(kLeastSamples, within(kSeconds) / calls));
  std::vector<double> times;
  for (std::int64_t i = 0; i < samples; ++i)
    times.push_back(slowest_seconds(operation, count, in_place, calls) * 1e6);
  communicator_.all_reduce_host(times.data(), samples, ReduceOp::max, "timings");
  std::sort(times.begin(), times.end());
  figures.us_median = quantile(times, 0.5);
  figures.us_p99 = quantile(times, 0.99);
  return figures;
}

}  // namespace lockstep::bench
