// The ring. Rank r sends to r + 1 and receives from r - 1, all at the same time. Data is cut into n chunks;
// in each of n - 1 steps a rank adds the chunk that arrives to its own and passes the sum on, after which
// rank r holds the whole sum of chunk r; in n - 1 more steps the sums go round.
//
//   n = 3, step 0      step 1        step 2            step 3
//   rank 0  c2 ->1     c1 ->1        c0 (whole) ->1    c2 ->1
//   rank 1  c0 ->2     c2 ->2        c1 (whole) ->2    c0 ->2
//   rank 2  c1 ->0     c0 ->0        c2 (whole) ->0    c1 ->0
#include <algorithm>
#include <array>
#include <vector>

#include "comm/algorithms.h"

namespace lockstep {
namespace {

// Long enough that a message's start costs little beside it, short enough to stay in the cache between its
// arrival, the sum and the next send.
constexpr std::int64_t kPieceBytes = 256 << 10;
constexpr int kAhead = 2;  // receives that are posted before they are needed

int wrapped(int rank, int size) {
  return (rank % size + size) % size;
}

// Steps [first, end) of the ring: 0 .. n-2 add, n-1 .. 2n-3 copy. A step's chunk comes in pieces, and a piece
// is passed on as soon as it is done: nobody waits for the end of a step.
template <class T>
class Ring {
 public:
  Ring(Transport& transport, T* data, std::int64_t count, ReduceOp op, int first, int end)
      : transport_(transport),
        data_(data),
        count_(count),
        op_(op),
        size_(transport.size()),
        first_(first),
        steps_(end - first),
        piece_(std::max<std::int64_t>(1, kPieceBytes / static_cast<std::int64_t>(sizeof(T)))),
        pieces_((chunk_of(count, size_, 0).length + piece_ - 1) / piece_),
        receives_(static_cast<std::size_t>(total()), -1),
        sends_(static_cast<std::size_t>(total()), -1) {
    if (first < size_ - 1) {
      for (std::vector<T>& memory : arrived_) memory.resize(static_cast<std::size_t>(piece_));
    }
  }

  void run() {
    for (std::int64_t i = 0; i < std::min(pieces_, total()); ++i) send(i);
    for (std::int64_t i = 0; i < std::min<std::int64_t>(kAhead, total()); ++i) post_receive(i);
    for (std::int64_t i = 0; i < total(); ++i) {
      take(i);
      if (i + kAhead < total()) post_receive(i + kAhead);
      if (i + pieces_ < total()) send(i + pieces_);  // what has just arrived, one step on
    }
    for (std::int64_t i = 0; i < total(); ++i) finish_send(i);
  }

 private:
  std::int64_t total() const { return steps_ * pieces_; }
  int step_of(std::int64_t i) const { return first_ + static_cast<int>(i / pieces_); }
  bool adds(std::int64_t i) const { return step_of(i) < size_ - 1; }

  // Piece i of those that arrive; it goes out again as number i + pieces_.
  Range incoming(std::int64_t i) const { return piece_of(wrapped(transport_.rank() - step_of(i) - 2), i); }
  Range outgoing(std::int64_t i) const { return piece_of(wrapped(transport_.rank() - step_of(i) - 1), i); }
  int wrapped(int rank) const { return lockstep::wrapped(rank, size_); }
  Range piece_of(int chunk, std::int64_t i) const {
    const Range whole = chunk_of(count_, size_, chunk);
    const std::int64_t begin = std::min(i % pieces_ * piece_, whole.length);
    return {whole.begin + begin, std::min(piece_, whole.length - begin)};
  }
  static std::int64_t bytes(const Range& range) {
    return range.length * static_cast<std::int64_t>(sizeof(T));
  }
  T* landing(std::int64_t i) { return arrived_[static_cast<std::size_t>(i % kAhead)].data(); }

  void send(std::int64_t i) {
    const Range range = outgoing(i);
    if (range.length == 0) return;
    sends_[static_cast<std::size_t>(i)] =
        transport_.send(wrapped(transport_.rank() + 1), data_ + range.begin, bytes(range));
  }
  void finish_send(std::int64_t i) {
    int& request = sends_[static_cast<std::size_t>(i)];
    if (request >= 0) transport_.wait(request);
    request = -1;
  }

  void post_receive(std::int64_t i) {
    const Range range = incoming(i);
    if (range.length == 0) return;
    // A whole sum lands where the part of it lay that was sent n - 1 steps before.
    if (!adds(i) && step_of(i) + 1 - size_ >= first_) finish_send(i - (size_ - 1) * pieces_);
    T* to = adds(i) ? landing(i) : data_ + range.begin;
    receives_[static_cast<std::size_t>(i)] =
        transport_.receive(wrapped(transport_.rank() - 1), to, bytes(range));
  }
  void take(std::int64_t i) {
    const Range range = incoming(i);
    if (range.length == 0) return;
    transport_.wait(receives_[static_cast<std::size_t>(i)]);
    if (!adds(i)) return;
    accumulate(op_, data_ + range.begin, landing(i), range.length);
    if (step_of(i) == size_ - 2) finish_reduction(op_, data_ + range.begin, range.length, size_);
  }

  Transport& transport_;
  T* data_;
  std::int64_t count_;
  ReduceOp op_;
  int size_, first_;
  std::int64_t steps_, piece_, pieces_;
  std::vector<int> receives_, sends_;  // requests, -1: none
  std::array<std::vector<T>, kAhead> arrived_;
};

}  // namespace

template <class T>
void ring_all_reduce(Transport& transport, T* data, std::int64_t count, ReduceOp op) {
  Ring<T>(transport, data, count, op, 0, 2 * transport.size() - 2).run();
}

template <class T>
void ring_reduce_scatter(Transport& transport, T* data, std::int64_t count, ReduceOp op) {
  Ring<T>(transport, data, count, op, 0, transport.size() - 1).run();
}

template <class T>
void ring_all_gather(Transport& transport, T* data, std::int64_t count) {
  Ring<T>(transport, data, count, ReduceOp::sum, transport.size() - 1, 2 * transport.size() - 2).run();
}

// From rank to rank: a piece is passed on while the next one arrives.
void ring_broadcast(Transport& transport, void* data, std::int64_t bytes, int root) {
  const int size = transport.size(), rank = transport.rank();
  const int place = wrapped(rank - root, size);
  std::vector<int> receives, sends;
  const auto each_piece = [&](auto&& visit) {
    for (std::int64_t begin = 0; begin < bytes; begin += kPieceBytes)
      visit(static_cast<char*>(data) + begin, std::min(kPieceBytes, bytes - begin));
  };
  if (place > 0) {
    each_piece([&](char* piece, std::int64_t length) {
      receives.push_back(transport.receive(wrapped(rank - 1, size), piece, length));
    });
  }
  std::size_t next = 0;
  each_piece([&](char* piece, std::int64_t length) {
    if (place > 0) transport.wait(receives[next++]);
    if (place < size - 1) sends.push_back(transport.send(wrapped(rank + 1, size), piece, length));
  });
  for (const int request : sends) transport.wait(request);
}

template void ring_all_reduce(Transport&, float*, std::int64_t, ReduceOp);
template void ring_all_reduce(Transport&, double*, std::int64_t, ReduceOp);
template void ring_reduce_scatter(Transport&, float*, std::int64_t, ReduceOp);
template void ring_reduce_scatter(Transport&, double*, std::int64_t, ReduceOp);
template void ring_all_gather(Transport&, float*, std::int64_t);
template void ring_all_gather(Transport&, double*, std::int64_t);

}  // namespace lockstep
