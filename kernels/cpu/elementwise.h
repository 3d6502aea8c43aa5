// Loops over flat arrays, spread over the threads.
#pragma once

#include <cstring>

#include "kernels/cpu/threads.h"
#include "kernels/cpu/vec.h"

namespace lockstep::cpu {

// Calls body(first element, lanes) for each sixteen elements of [0, count).
template <class Body>
void for_each_vec(const Threads& threads, std::int64_t count, std::int64_t bytes_each, const Body& body) {
  constexpr std::int64_t kUnit = 256;  // whole cache lines and pages' worth of vectors for every thread
  threads.split(count, kUnit, count * bytes_each, [&](std::int64_t begin, std::int64_t end) {
    const Body own = body;  // a store cannot change a local copy, so what it holds stays in registers
    for_lanes(begin, end, own);
    store_fence();
  });
}

template <class From, class To>
void convert(const Threads& threads, const From* from, To* to, std::int64_t count) {
  for_each_vec(threads, count, sizeof(From) + sizeof(To),
               [=](std::int64_t i, auto lanes) { store(to + i, load(from + i, lanes), lanes); });
}

template <class T>
void add(const Threads& threads, const float* from, T* to, std::int64_t count) {
  for_each_vec(threads, count, 3 * sizeof(T), [=](std::int64_t i, auto lanes) {
    store(to + i, load(to + i, lanes) + load(from + i, lanes), lanes);
  });
}

inline void fill_zero(const Threads& threads, void* to, std::int64_t bytes) {
  threads.split(bytes, 4096, bytes, [=](std::int64_t begin, std::int64_t end) {
    std::memset(static_cast<char*>(to) + begin, 0, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace lockstep::cpu
