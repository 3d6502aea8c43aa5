// Recursive doubling: in step k, ranks whose numbers differ in bit k exchange all that they have and add it.
// After log2(n) steps everybody has the whole sum. Where n is no power of two, the ranks beyond the largest
// one below hand their data to a partner first and get the result from it.
#include <algorithm>
#include <vector>

#include "comm/algorithms.h"

namespace lockstep {
namespace {

constexpr std::int64_t kPieceBytes = 1 << 20;

template <class T>
void reduce_piece(Transport& transport, T* data, std::int64_t count, ReduceOp op, std::vector<T>& arrived) {
  const int rank = transport.rank(), size = transport.size();
  const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
  int ranks = 1;
  while (2 * ranks <= size) ranks *= 2;
  if (rank >= ranks) {
    transport.wait(transport.send(rank - ranks, data, bytes));
    transport.wait(transport.receive(rank - ranks, data, bytes));
    return;
  }
  const int extra = rank + ranks < size ? rank + ranks : -1;
  if (extra >= 0) {
    transport.wait(transport.receive(extra, arrived.data(), bytes));
    accumulate(op, data, arrived.data(), count);
  }
  for (int bit = 1; bit < ranks; bit *= 2) {
    const int partner = rank ^ bit;
    const int receive = transport.receive(partner, arrived.data(), bytes);
    transport.wait(transport.send(partner, data, bytes));
    transport.wait(receive);
    accumulate(op, data, arrived.data(), count);
  }
  finish_reduction(op, data, count, size);
  if (extra >= 0) transport.wait(transport.send(extra, data, bytes));
}

}  // namespace

template <class T>
void doubling_all_reduce(Transport& transport, T* data, std::int64_t count, ReduceOp op) {
  constexpr std::int64_t kPiece = kPieceBytes / static_cast<std::int64_t>(sizeof(T));
  std::vector<T> arrived(static_cast<std::size_t>(std::min(kPiece, count)));
  for (std::int64_t begin = 0; begin < count; begin += kPiece)
    reduce_piece(transport, data + begin, std::min(kPiece, count - begin), op, arrived);
}

template void doubling_all_reduce(Transport&, float*, std::int64_t, ReduceOp);
template void doubling_all_reduce(Transport&, double*, std::int64_t, ReduceOp);

}  // namespace lockstep
