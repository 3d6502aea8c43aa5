#include "comm/node_collectives.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/algorithms.h"
#include "core/error.h"

namespace lockstep {
namespace {

constexpr std::int64_t kFront = 4096;          // of a stage: the barrier
constexpr std::int64_t kStageBytes = 1 << 19;  // stays in a core's cache between copy, sum and copy
constexpr std::int64_t kAlignment = 256;
// Below, messages between nodes are short: few of them one after the other are faster than the ring.
constexpr std::int64_t kShortBytes = 64 << 10;

// Of memory that is taken, nothing too.
std::int64_t whole(std::int64_t bytes) {
  return (std::max<std::int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t bytes_of(std::int64_t count, std::size_t size) {
  return static_cast<std::size_t>(count) * size;
}

// The commonest case in one pass: two ranks, each sum written to both.
template <class T>
void sum_of_two(T* a, T* b, T scale, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const T sum = (a[i] + b[i]) * scale;
    a[i] = sum;
    b[i] = sum;
  }
}

// The ranks' sum (or maximum) of a range, in rank order, to each of `to`. ranks: what a mean is divided by.
template <class T>
void reduce_range(const std::vector<T*>& from, const std::vector<T*>& to, Range range, ReduceOp op,
                  int ranks) {
  if (from.size() == 2 && to.size() == 2 && op != ReduceOp::max) {
    const T scale = op == ReduceOp::mean ? T(1) / static_cast<T>(ranks) : T(1);
    return sum_of_two(from[0] + range.begin, from[1] + range.begin, scale, range.length);
  }
  std::array<T, 2048> sums;
  constexpr auto kBlock = static_cast<std::int64_t>(sums.size());
  for (std::int64_t done = 0; done < range.length; done += kBlock) {
    const std::int64_t begin = range.begin + done, count = std::min(kBlock, range.length - done);
    std::copy_n(from[0] + begin, count, sums.data());
    for (std::size_t rank = 1; rank < from.size(); ++rank)
      accumulate(op, sums.data(), from[rank] + begin, count);
    finish_reduction(op, sums.data(), count, ranks);
    for (T* destination : to) std::copy_n(sums.data(), count, destination + begin);
  }
}

}  // namespace

std::unique_ptr<NodeCollectives> NodeCollectives::make(Communicator& job, Place place, std::string& why) {
  auto stage = NodeMemory::make(job, place.node_ranks, kFront + kStageBytes, why);
  if (!stage) return nullptr;
  return std::unique_ptr<NodeCollectives>(
      new NodeCollectives(std::move(place), job.rank(), std::move(stage)));
}

NodeCollectives::NodeCollectives(Place place, int rank, std::unique_ptr<NodeMemory> stage)
    : place_(std::move(place)),
      own_(static_cast<int>(std::find(place_.node_ranks.begin(), place_.node_ranks.end(), rank) -
                            place_.node_ranks.begin())),
      ranks_(place_.all->size()),
      stage_(std::move(stage)),
      barrier_(reinterpret_cast<NodeBarrier::Shared*>(stage_->parts()[0]),
               static_cast<int>(place_.node_ranks.size())) {
  static_assert(sizeof(NodeBarrier::Shared) <= kFront);
}

bool NodeCollectives::reserve(Communicator& job, std::int64_t bytes, std::string& why) {
  auto memory = NodeMemory::make(job, place_.node_ranks, whole(bytes), why);
  if (!memory) return false;
  windows_.push_back({std::move(memory), 0});
  return true;
}

void* NodeCollectives::take(std::int64_t bytes) {
  for (Window& window : windows_) {
    if (window.taken + whole(bytes) > window.memory->bytes()) continue;
    void* data = window.memory->own() + window.taken;
    window.taken += whole(bytes);
    return data;
  }
  return nullptr;
}

const NodeCollectives::Window* NodeCollectives::window_of(const void* data) const {
  const auto* address = static_cast<const std::byte*>(data);
  for (const Window& window : windows_) {
    const std::byte* begin = window.memory->own();
    if (begin <= address && address < begin + window.memory->bytes()) return &window;
  }
  return nullptr;
}

template <class T>
std::vector<T*> NodeCollectives::peers(const T* data) const {
  const NodeMemory& memory = *window_of(data)->memory;
  const std::ptrdiff_t offset = reinterpret_cast<const std::byte*>(data) - memory.own();
  std::vector<T*> all;
  for (std::byte* part : memory.parts()) all.push_back(reinterpret_cast<T*>(part + offset));
  return all;
}

template <class T>
std::vector<T*> NodeCollectives::stages() const {
  std::vector<T*> all;
  for (std::byte* part : stage_->parts()) all.push_back(reinterpret_cast<T*>(part + kFront));
  return all;
}

template <class T>
void NodeCollectives::reduce(T* data, std::int64_t count, ReduceOp op) {
  if (place_.nodes == ranks_) return reduce_between_nodes(data, count, op);
  if (holds(data)) return reduce_shared(peers(data), count, op);
  const std::vector<T*> all = stages<T>();
  T* stage = all[static_cast<std::size_t>(own_)];
  constexpr std::int64_t kPiece = kStageBytes / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const std::int64_t length = std::min(kPiece, count - begin);
    std::memcpy(stage, data + begin, bytes_of(length, sizeof(T)));
    reduce_shared(all, length, op);
    std::memcpy(data + begin, stage, bytes_of(length, sizeof(T)));
  }
}

template <class T>
void NodeCollectives::reduce_shared(const std::vector<T*>& of_rank, std::int64_t count, ReduceOp op) {
  const Range mine = chunk_of(count, static_cast<int>(of_rank.size()), own_);
  barrier_.wait();
  if (place_.nodes == 1) {
    reduce_range(of_rank, of_rank, mine, op, ranks_);
  } else {
    reduce_range(of_rank, {of_rank[0]}, mine, op == ReduceOp::max ? op : ReduceOp::sum, ranks_);
    barrier_.wait();
    if (own_ == 0) reduce_between_nodes(of_rank[0], count, op == ReduceOp::max ? op : ReduceOp::sum);
    barrier_.wait();
    reduce_range({of_rank[0]}, of_rank, mine, op, ranks_);
  }
  barrier_.wait();
}

template <class T>
void NodeCollectives::reduce_between_nodes(T* data, std::int64_t count, ReduceOp op) {
  const bool is_short = count * static_cast<std::int64_t>(sizeof(T)) <= kShortBytes;
  (is_short ? doubling_all_reduce<T> : ring_all_reduce<T>)(*place_.leaders, data, count, op);
}

void NodeCollectives::reduce_scatter(float* data, std::int64_t count, ReduceOp op) {
  if (place_.nodes > 1) return ring_reduce_scatter(*place_.all, data, count, op);
  const auto reduce_chunks = [&](const std::vector<float*>& of_rank, std::int64_t all) {
    barrier_.wait();
    reduce_range(of_rank, {of_rank[static_cast<std::size_t>(own_)]}, chunk_of(all, ranks_, own_), op, ranks_);
    barrier_.wait();
  };
  if (holds(data)) return reduce_chunks(peers(data), count);
  // A piece of every rank's chunk at a time.
  const std::vector<float*> all = stages<float>();
  float* stage = all[static_cast<std::size_t>(own_)];
  const std::int64_t piece = kStageBytes / static_cast<std::int64_t>(sizeof(float)) / ranks_;
  for (std::int64_t begin = 0; begin < chunk_of(count, ranks_, 0).length; begin += piece) {
    for (int rank = 0; rank < ranks_; ++rank) {
      const Range chunk = chunk_of(count, ranks_, rank);
      const std::int64_t length = std::clamp<std::int64_t>(chunk.length - begin, 0, piece);
      std::memcpy(stage + rank * piece, data + chunk.begin + begin, bytes_of(length, sizeof(float)));
    }
    reduce_chunks(all, ranks_ * piece);
    const Range mine = chunk_of(count, ranks_, own_);
    const std::int64_t length = std::clamp<std::int64_t>(mine.length - begin, 0, piece);
    std::memcpy(data + mine.begin + begin, stage + own_ * piece, bytes_of(length, sizeof(float)));
  }
}

void NodeCollectives::all_gather(float* data, std::int64_t count) {
  if (place_.nodes > 1) return ring_all_gather(*place_.all, data, count);
  const Range mine = chunk_of(count, ranks_, own_);
  if (holds(data)) {
    const std::vector<float*> all = peers(data);
    barrier_.wait();
    for (int rank = 0; rank < ranks_; ++rank) {
      const Range chunk = chunk_of(count, ranks_, rank);
      if (rank == own_) continue;
      std::memcpy(data + chunk.begin, all[static_cast<std::size_t>(rank)] + chunk.begin,
                  bytes_of(chunk.length, sizeof(float)));
    }
    return barrier_.wait();
  }
  const std::vector<float*> all = stages<float>();
  constexpr std::int64_t kPiece = kStageBytes / static_cast<std::int64_t>(sizeof(float));
  for (std::int64_t begin = 0; begin < chunk_of(count, ranks_, 0).length; begin += kPiece) {
    const auto part_of = [&](const Range& chunk) {
      return std::clamp<std::int64_t>(chunk.length - begin, 0, kPiece);
    };
    std::memcpy(all[static_cast<std::size_t>(own_)], data + mine.begin + begin,
                bytes_of(part_of(mine), sizeof(float)));
    barrier_.wait();
    for (int rank = 0; rank < ranks_; ++rank) {
      const Range chunk = chunk_of(count, ranks_, rank);
      if (rank == own_) continue;
      std::memcpy(data + chunk.begin + begin, all[static_cast<std::size_t>(rank)],
                  bytes_of(part_of(chunk), sizeof(float)));
    }
    barrier_.wait();
  }
}

void NodeCollectives::broadcast(void* data, std::int64_t bytes, int root) {
  if (place_.nodes > 1) return tree_broadcast(*place_.all, data, bytes, root);
  char* target = static_cast<char*>(data);
  const auto from = static_cast<std::size_t>(root);
  if (holds(data)) {
    const std::vector<char*> all = peers(target);
    barrier_.wait();
    if (own_ != root) std::memcpy(target, all[from], static_cast<std::size_t>(bytes));
    return barrier_.wait();
  }
  char* stage = stages<char>()[from];
  for (std::int64_t begin = 0; begin < bytes; begin += kStageBytes) {
    const auto length = static_cast<std::size_t>(std::min(kStageBytes, bytes - begin));
    if (own_ == root) std::memcpy(stage, target + begin, length);
    barrier_.wait();
    if (own_ != root) std::memcpy(target + begin, stage, length);
    barrier_.wait();
  }
}

}  // namespace lockstep
