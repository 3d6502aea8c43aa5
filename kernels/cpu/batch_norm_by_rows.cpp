// Batch norm where the threads share the rows, as they do in the products before and after it: a thread finds
// what it wrote in its own cache. Each sums its share of the rows, the sums meet in double, then each writes
// its share.
#include "kernels/cpu/batch_norm_passes.h"

namespace lockstep::cpu::batch_norm {
namespace {

// The same ops on rows [begin, end) of it.
template <class T>
Forward<T> rows_of(Forward<T> f, Index begin, Index end) {
  f.x += begin * f.channels;
  f.y += begin * f.channels;
  if (f.residual) f.residual += begin * f.channels;
  f.rows = end - begin;
  return f;
}
template <class T>
Backward<T> rows_of(Backward<T> b, Index begin, Index end) {
  b.x += begin * b.channels;
  b.dy += begin * b.channels;
  b.dx += begin * b.channels;
  if (b.y) b.y += begin * b.channels;
  if (b.dresidual) b.dresidual += begin * b.channels;
  b.rows = end - begin;
  return b;
}

// The first row of a thread's share.
Index share_begin(Index rows, Index thread, Index threads) {
  const Index chunks = (rows + kChunk - 1) / kChunk;
  return std::min(rows, chunks * thread / threads * kChunk);
}

// Calls body(thread, its share of the rows of op).
template <class Op, class Body>
void for_shares(const Threads& threads, const Op& op, const Body& body) {
  threads.run([&](int thread, int count) {
    body(thread, rows_of(op, share_begin(op.rows, thread, count), share_begin(op.rows, thread + 1, count)));
  });
}

// Where threads that share rows meet: two sums for each thread and channel, three coefficients for each
// channel.
struct Meeting {
  Meeting(Machine& m, Index channel_count)
      : channels(channel_count),
        threads(m.threads.count()),
        sums(m.workspace.array<double>(Area::sums, 2 * threads * channels)),
        coefficients(m.workspace.array<float>(Area::coefficients, 3 * channels)) {}
  double* first(Index thread) const { return sums + 2 * thread * channels; }
  double* second(Index thread) const { return first(thread) + channels; }
  float* coefficient(Index i) const { return coefficients + i * channels; }

  Index channels, threads;
  double* sums;
  float* coefficients;
};

// The shares' means and sums of squared deviations become those of all rows, in thread 0's place.
void merge_moments(const Meeting& meeting, Index rows) {
  for (Index c = 0; c < meeting.channels; ++c) {
    double mean = 0, deviation = 0, count = 0;
    for (Index t = 0; t < meeting.threads; ++t) {
      const double more = static_cast<double>(share_begin(rows, t + 1, meeting.threads) -
                                              share_begin(rows, t, meeting.threads));
      const double delta = meeting.first(t)[c] - mean;
      deviation += meeting.second(t)[c] + delta * delta * count * more / (count + more);
      count += more;
      mean += delta * more / count;
    }
    meeting.first(0)[c] = mean;
    meeting.second(0)[c] = deviation;
  }
}

template <bool kRelu, class T>
void backward_by_rows(Machine& m, const Backward<T>& b) {
  const Meeting meeting(m, b.channels);
  float *const scale = meeting.coefficient(0), *const mean_g = meeting.coefficient(1),
               *const slope = meeting.coefficient(2);
  for_shares(m.threads, b, [&](int thread, const Backward<T>& share) {
    for_blocks(0, b.channels, [&](Index c, auto vecs, auto lanes) {
      gradient_sums<kRelu, vecs()>(share, c, lanes, meeting.first(thread) + c, meeting.second(thread) + c);
    });
  });
  for (Index t = 1; t < meeting.threads; ++t) {
    for (Index c = 0; c < 2 * b.channels; ++c) meeting.first(0)[c] += meeting.first(t)[c];
  }
  finish_gradients(b, 0, b.channels, meeting.first(0), meeting.second(0), scale, mean_g, slope);
  for_shares(m.threads, b, [&](int, const Backward<T>& share) {
    for_blocks(0, b.channels, [&](Index c, auto vecs, auto lanes) {
      input_gradient<kRelu, vecs()>(share, c, scale + c, mean_g + c, slope + c, lanes);
    });
  });
}

}  // namespace

bool shares_rows(const Threads& threads, Index rows) {
  constexpr Index kManyRows = 256;  // from which products are cut by rows too (primitives.cpp)
  return threads.count() > 1 && rows / threads.count() >= kManyRows;
}

template <class T>
void forward_by_rows(Machine& m, const Forward<T>& f) {
  const Meeting meeting(m, f.channels);
  float *const mean = meeting.coefficient(0), *const scale = meeting.coefficient(1);
  for_shares(m.threads, f, [&](int thread, const Forward<T>& share) {
    for_blocks(0, f.channels, [&](Index c, auto vecs, auto lanes) {
      moments<vecs()>(share.x + c, share.rows, f.channels, lanes, meeting.first(thread) + c,
                      meeting.second(thread) + c);
    });
  });
  merge_moments(meeting, f.rows);
  finish_statistics(f, 0, f.channels, meeting.first(0), meeting.second(0), mean, scale);
  for_shares(m.threads, f, [&](int, const Forward<T>& share) {
    for_blocks(0, f.channels, [&](Index c, auto vecs, auto lanes) {
      normalize<vecs()>(share, c, mean + c, scale + c, lanes);
    });
  });
}

template <class T>
void backward_by_rows(Machine& machine, const Backward<T>& b) {
  b.options.relu ? backward_by_rows<true>(machine, b) : backward_by_rows<false>(machine, b);
}

template void forward_by_rows(Machine&, const Forward<float>&);
template void forward_by_rows(Machine&, const Forward<bfloat16>&);
template void backward_by_rows(Machine&, const Backward<float>&);
template void backward_by_rows(Machine&, const Backward<bfloat16>&);

}  // namespace lockstep::cpu::batch_norm
