// The library's own MPI_Allreduce, one call for the whole buffer, as a peer of allreduce_bench:
//   scripts/mpi -np 2 build/release/bin/mpi_all_reduce 4096 16777216
// Prints a JSON list of bytes and the median time of a call on the slowest rank. Samples are taken as
// allreduce_bench takes them.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

double slowest_seconds(float* data, int count, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < calls; ++i)
    MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  double seconds = (MPI_Wtime() - begin) / calls;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 1; i < argc; ++i) {
    const long bytes = std::atol(argv[i]);
    const int count = static_cast<int>(bytes / 4);
    std::vector<float> data(static_cast<std::size_t>(count));
    const double first = slowest_seconds(data.data(), count, 5);
    const int calls = std::clamp(static_cast<int>(1e-4 / first), 1, 100);
    const int samples = std::clamp(static_cast<int>(2 / (first * calls)), 10, 100);
    std::vector<double> times;
    for (int sample = 0; sample < samples; ++sample)
      times.push_back(slowest_seconds(data.data(), count, calls));
    std::sort(times.begin(), times.end());
    if (rank == 0)
      std::printf("%s{\"bytes\": %ld, \"us_median\": %.3f}%s\n", i == 1 ? "[" : " ", bytes,
                  times[times.size() / 2] * 1e6, i + 1 == argc ? "]" : ",");
  }
  MPI_Finalize();
}
