// The binomial tree: rank r's parent is r without its lowest set bit. Sums go up to rank 0, piece by piece,
// and come down the same way.
//
//        0
//      / | \        n = 8: rank 0 adds 1, then 2 (which has added 3), then 4 (which has added 5 and 6 with 7)
//     1  2  4
//        |  | \     .
//        3  5  6
//              |
//              7
#include <algorithm>
#include <utility>
#include <vector>

#include "comm/algorithms.h"

namespace lockstep {
namespace {

constexpr std::int64_t kPieceBytes = 256 << 10;

// Places in the tree, 0 is the root.
struct Family {
  int parent = -1;
  std::vector<int> children;  // in the order in which they are added
};

Family family_of(int place, int size) {
  Family family;
  for (int bit = 1; bit < size; bit *= 2) {
    if ((place & bit) != 0) {
      family.parent = place - bit;
      break;
    }
    if (place + bit < size) family.children.push_back(place + bit);
  }
  return family;
}

// Pieces come down from the root. `before` is called before a piece is overwritten.
template <class Before>
void descend(Transport& transport, char* data, std::int64_t bytes, int root, const Before& before) {
  const int size = transport.size();
  const Family family = family_of((transport.rank() - root + size) % size, size);
  const auto rank_of = [&](int place) { return (place + root) % size; };
  const std::int64_t pieces = (bytes + kPieceBytes - 1) / kPieceBytes;
  const auto length = [&](std::int64_t piece) { return std::min(kPieceBytes, bytes - piece * kPieceBytes); };
  const auto receive = [&](std::int64_t piece) {
    if (family.parent < 0 || piece >= pieces) return -1;
    before(piece);
    return transport.receive(rank_of(family.parent), data + piece * kPieceBytes, length(piece));
  };
  std::vector<int> sends;
  int next = receive(0);
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const int arriving = std::exchange(next, receive(piece + 1));
    if (arriving >= 0) transport.wait(arriving);
    // The child with the most below it first.
    for (auto child = family.children.rbegin(); child != family.children.rend(); ++child)
      sends.push_back(transport.send(rank_of(*child), data + piece * kPieceBytes, length(piece)));
  }
  for (const int request : sends) transport.wait(request);
}

}  // namespace

template <class T>
void tree_all_reduce(Transport& transport, T* data, std::int64_t count, ReduceOp op) {
  const Family family = family_of(transport.rank(), transport.size());
  constexpr std::int64_t kPiece = kPieceBytes / static_cast<std::int64_t>(sizeof(T));
  const std::size_t children = family.children.size();
  std::vector<std::vector<T>> arrived(children, std::vector<T>(static_cast<std::size_t>(kPiece)));
  std::vector<int> receives(children), sent_up;
  const auto receive = [&](std::size_t child, std::int64_t begin) {
    if (begin >= count) return;
    receives[child] =
        transport.receive(family.children[child], arrived[child].data(),
                          std::min(kPiece, count - begin) * static_cast<std::int64_t>(sizeof(T)));
  };
  for (std::size_t child = 0; child < children; ++child) receive(child, 0);
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const std::int64_t length = std::min(kPiece, count - begin);
    for (std::size_t child = 0; child < children; ++child) {
      transport.wait(receives[child]);
      accumulate(op, data + begin, arrived[child].data(), length);
      receive(child, begin + kPiece);
    }
    if (family.parent >= 0) {
      sent_up.push_back(
          transport.send(family.parent, data + begin, length * static_cast<std::int64_t>(sizeof(T))));
    } else {
      finish_reduction(op, data + begin, length, transport.size());
    }
  }
  descend(transport, reinterpret_cast<char*>(data), count * static_cast<std::int64_t>(sizeof(T)), 0,
          [&](std::int64_t piece) { transport.wait(sent_up[static_cast<std::size_t>(piece)]); });
}

void tree_broadcast(Transport& transport, void* data, std::int64_t bytes, int root) {
  descend(transport, static_cast<char*>(data), bytes, root, [](std::int64_t) {});
}

template void tree_all_reduce(Transport&, float*, std::int64_t, ReduceOp);
template void tree_all_reduce(Transport&, double*, std::int64_t, ReduceOp);

}  // namespace lockstep
