// The reducer over MPI: each rank in a ready order of its own, exact means, overlap on and off.
#include <numeric>

#include "../../catch.h"
#include "../reducer_step.h"
#include "job.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("means are exact and launches in index order, whatever the ready order of each rank") {
  Communicator& communicator = job().communicator();
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    const Network network = random_network(seed);
    const bool overlap = seed % 4 != 0;
    std::vector<float> gradients(static_cast<std::size_t>(network.length()));
    InlineStream compute;
    Reducer reducer(communicator, compute, network.buckets, network.names, gradients.data(),
                    {.overlap = overlap});
    for (int step = 0; step < 5; ++step) {
      const unsigned order =
          seed + 31 * static_cast<unsigned>(communicator.rank()) + 7 * static_cast<unsigned>(step);
      shuffled_step(reducer, network, communicator.rank(), step, order, gradients.data());
      CHECK(wrong_elements(network, communicator.size(), step, gradients.data()) == 0);
      std::vector<int> expected(network.buckets.size());
      std::iota(expected.begin(), expected.end(), 0);
      CHECK(reducer.launch_order() == expected);
    }
  }
}

TEST_CASE("accumulated micro-batches travel once, in the last one") {
  Communicator& communicator = job().communicator();
  const Network network = random_network(3);
  std::vector<float> gradients(static_cast<std::size_t>(network.length()));
  InlineStream compute;
  Reducer reducer(communicator, compute, network.buckets, network.names, gradients.data(), {});
  for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
    reducer.begin(micro_batch == 2);
    for (int p = 0; p < network.parameters(); ++p) {
      const auto begin = network.offsets[static_cast<std::size_t>(p)];
      for (std::int64_t i = 0; i < network.numels[static_cast<std::size_t>(p)]; ++i) {
        gradients[static_cast<std::size_t>(begin + i)] += gradient_of(communicator.rank(), micro_batch, p, i);
      }
      reducer.on_gradients_ready(p, p);
    }
    reducer.finish();
  }
  int wrong = 0;
  const float scale = 1.0f / static_cast<float>(communicator.size());
  for (int p = 0; p < network.parameters(); ++p) {
    for (std::int64_t i = 0; i < network.numels[static_cast<std::size_t>(p)]; ++i) {
      float sum = 0;
      for (int rank = 0; rank < communicator.size(); ++rank) {
        for (int micro_batch = 0; micro_batch < 3; ++micro_batch) sum += gradient_of(rank, micro_batch, p, i);
      }
      wrong += gradients[static_cast<std::size_t>(network.offsets[static_cast<std::size_t>(p)] + i)] !=
               sum * scale;
    }
  }
  CHECK(wrong == 0);
}
