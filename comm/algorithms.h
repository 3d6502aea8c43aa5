// Collectives made of messages between two ranks, on any transport. Each comes in pieces, so that one piece
// travels while another is added, and gives the same bits on every rank: an element is summed on one rank and
// copied to the others, or (doubling) summed everywhere as the same tree of commutative sums.
//
// n ranks, a message costs a + bytes * b; S bytes of data:
//   ring       2(n-1) a + 2 (n-1)/n S b   each rank sends and receives at the same time: the fastest for long
//                                         data, and no rank has more to do than another
//   tree       2 log2(n) a + 2 S b        for pieces that follow each other; the root has two children's load
//   doubling   log2(n) (a + S b)          the fewest messages one after the other: for short data
#pragma once

#include <cstdint>

#include "comm/reduction.h"
#include "comm/transport.h"

namespace lockstep {

// data[0..count) in place. Implemented for float and double.
template <class T>
void ring_all_reduce(Transport& transport, T* data, std::int64_t count, ReduceOp op);
template <class T>
void tree_all_reduce(Transport& transport, T* data, std::int64_t count, ReduceOp op);
template <class T>
void doubling_all_reduce(Transport& transport, T* data, std::int64_t count, ReduceOp op);

// The two halves of the ring's all-reduce. reduce_scatter leaves chunk_of(count, size, rank) reduced on each
// rank and the rest of data undefined; all_gather spreads these chunks.
template <class T>
void ring_reduce_scatter(Transport& transport, T* data, std::int64_t count, ReduceOp op);
template <class T>
void ring_all_gather(Transport& transport, T* data, std::int64_t count);

// Down the ring, and down the tree, from the root.
void ring_broadcast(Transport& transport, void* data, std::int64_t bytes, int root);
void tree_broadcast(Transport& transport, void* data, std::int64_t bytes, int root);

}  // namespace lockstep
