// How an op is spread over cores.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <thread>

namespace lockstep::cpu {

// One team of OpenMP threads, of the size the backend was made with. The split is static, so a result depends
// on the number of threads but never on their timing. On any other thread than the one that made the backend
// (the comm worker, which runs the optimiser) ops run alone: a second OpenMP pool on the same cores would
// slow both.
class Threads {
 public:
  explicit Threads(int count) : count_(count), owner_(std::this_thread::get_id()) {}

  int count() const { return std::this_thread::get_id() == owner_ ? count_ : 1; }

  // Calls body(thread, threads) on every thread of the team.
  template <class Body>
  void run(const Body& body) const {
    const int threads = count();
    if (threads == 1) {
      body(0, 1);
      return;
    }
#pragma omp parallel num_threads(threads)
    body(omp_get_thread_num(), omp_get_num_threads());
  }

  // Calls body(begin, end) for equal parts of [0, size), each a multiple of `unit` (but the last). `work` is
  // roughly the number of bytes touched: little work is not worth waking the team.
  template <class Body>
  void split(std::int64_t size, std::int64_t unit, std::int64_t work, const Body& body) const {
    constexpr std::int64_t kWorthATeam = 16 << 10;
    if (work < kWorthATeam || count() == 1) {
      if (size > 0) body(std::int64_t{0}, size);
      return;
    }
    run([&](int thread, int threads) {
      const std::int64_t units = (size + unit - 1) / unit;
      const std::int64_t begin = std::min(size, units * thread / threads * unit);
      const std::int64_t end = std::min(size, units * (thread + 1) / threads * unit);
      if (begin < end) body(begin, end);
    });
  }

 private:
  int count_;
  std::thread::id owner_;
};

}  // namespace lockstep::cpu
