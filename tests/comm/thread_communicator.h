// Ranks as threads of one process: a communicator for tests. Every rank has a comm stream of its own; a
// collective runs when all ranks are in it, and checks that all of them issued the same one. Sums are in rank
// order.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "core/error.h"

namespace lockstep::test {

// Where the ranks of one job meet.
class Meeting {
 public:
  explicit Meeting(int ranks) : pointers_(static_cast<std::size_t>(ranks)) {}
  int ranks() const { return static_cast<int>(pointers_.size()); }

  // Returns when every rank has called it with the same what; the last one to come runs combine on all
  // pointers.
  void meet(int rank, void* data, const std::string& what,
            const std::function<void(const std::vector<void*>&)>& combine) {
    std::unique_lock lock(mutex_);
    if (arrived_ == 0) what_ = what;
    if (what != what_) mismatch_ = "'" + what + "' met '" + what_ + "'";
    pointers_[static_cast<std::size_t>(rank)] = data;
    const int round = round_;
    if (++arrived_ == ranks()) {
      if (mismatch_.empty()) combine(pointers_);
      arrived_ = 0;
      ++round_;
      all_here_.notify_all();
    } else {
      all_here_.wait(lock, [&] { return round_ != round; });
    }
    if (!mismatch_.empty()) fail(ExitCode::peer, "{}", mismatch_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<void*> pointers_;
  std::string what_, mismatch_;
  int arrived_ = 0, round_ = 0;
};

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank), stream_("comm") {}

  const char* name() const override { return "threads"; }
  int rank() const override { return rank_; }
  int size() const override { return meeting_.ranks(); }
  Stream& stream() override { return stream_; }
  Allocator& allocator() override { return allocator_; }

  void all_reduce(float* data, std::int64_t count, ReduceOp op, const std::string& what) override {
    stream_.submit([=, this] { reduce(data, count, op, what); });
  }
  void reduce_scatter(float* data, std::int64_t count, ReduceOp op, const std::string& what) override {
    all_reduce(data, count, op, what);
  }
  void all_gather(float* data, std::int64_t count, const std::string& what) override {
    stream_.submit([=, this] {
      meeting_.meet(rank_, data, what, [=](const std::vector<void*>& all) {
        const auto ranks = static_cast<int>(all.size());
        for (int rank = 0; rank < ranks; ++rank) {
          const Range chunk = chunk_of(count, ranks, rank);
          const float* from = static_cast<float*>(all[static_cast<std::size_t>(rank)]) + chunk.begin;
          for (void* to : all)
            std::memmove(static_cast<float*>(to) + chunk.begin, from,
                         static_cast<std::size_t>(chunk.length) * sizeof(float));
        }
      });
    });
  }
  void broadcast(float* data, std::int64_t count, int root, const std::string& what) override {
    stream_.submit([=, this] {
      meeting_.meet(rank_, data, what, [=](const std::vector<void*>& all) {
        for (void* to : all)
          std::memmove(to, all[static_cast<std::size_t>(root)],
                       static_cast<std::size_t>(count) * sizeof(float));
      });
    });
  }
  void all_reduce_host(double* data, std::int64_t count, ReduceOp op, const std::string& what) override {
    stream_.submit([=, this] { reduce(data, count, op, what); });
    stream_.synchronize();
  }
  void broadcast_host(void* data, std::int64_t bytes, int root, const std::string& what) override {
    run(data, what, [=](const std::vector<void*>& all) {
      for (void* to : all)
        std::memmove(to, all[static_cast<std::size_t>(root)], static_cast<std::size_t>(bytes));
    });
  }
  void all_gather_host(const void* in, std::int64_t bytes, void* out, const std::string& what) override {
    const auto part = static_cast<std::size_t>(bytes);
    std::memcpy(static_cast<char*>(out) + static_cast<std::size_t>(rank_) * part, in, part);
    run(out, what, [=](const std::vector<void*>& all) {
      for (std::size_t from = 0; from < all.size(); ++from) {
        for (void* to : all) {
          std::memmove(static_cast<char*>(to) + from * part, static_cast<char*>(all[from]) + from * part,
                       part);
        }
      }
    });
  }
  void barrier(const std::string& what) override {
    run(nullptr, what, [](const std::vector<void*>&) {});
  }

 private:
  void run(void* data, const std::string& what,
           const std::function<void(const std::vector<void*>&)>& combine) {
    stream_.submit([=, this] { meeting_.meet(rank_, data, what, combine); });
    stream_.synchronize();
  }

  template <class T>
  void reduce(T* data, std::int64_t count, ReduceOp op, const std::string& what) {
    meeting_.meet(rank_, data, fmt::format("{} of {}", what, count), [=](const std::vector<void*>& all) {
      for (std::int64_t i = 0; i < count; ++i) {
        T result = static_cast<T*>(all[0])[i];
        for (std::size_t r = 1; r < all.size(); ++r) {
          const T other = static_cast<T*>(all[r])[i];
          result = op == ReduceOp::max ? std::max(result, other) : result + other;
        }
        if (op == ReduceOp::mean) result *= T(1) / static_cast<T>(all.size());
        for (void* to : all) static_cast<T*>(to)[i] = result;
      }
    });
  }

  Meeting& meeting_;
  int rank_;
  HostAllocator allocator_;
  WorkerStream stream_;
};

// Runs body(communicator) on each rank. Returns what each rank threw, as text; empty where it threw nothing.
inline std::vector<std::string> run_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  Meeting meeting(ranks);
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadCommunicator communicator(meeting, rank);
      try {
        body(communicator);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace lockstep::test
