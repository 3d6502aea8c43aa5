// What allreduce_bench is made of: sizes, the bus bandwidth of nccl-tests, and the check that stands before a
// time.
#include "bench/collectives/report.h"
#include "catch.h"
#include "comm/thread_communicator.h"

namespace lockstep::bench {
namespace {

CollectiveRow row_of(Operation operation, int ranks, std::int64_t bytes, double us) {
  return {operation, "ring", ranks, bytes, true, "heap", {0, us, 2 * us}};
}

// Leaves one element of one rank as it should not be.
class Forgetful final : public test::ThreadCommunicator {
 public:
  Forgetful(test::Meeting& meeting, int rank, std::int64_t forgotten)
      : ThreadCommunicator(meeting, rank), forgotten_(forgotten) {}
  void all_reduce(float* data, std::int64_t count, ReduceOp op, const std::string& what) override {
    ThreadCommunicator::all_reduce(data, count, op, what);
    if (rank() == 1 && count > forgotten_) stream().submit([=, this] { data[forgotten_] += 1; });
  }

 private:
  std::int64_t forgotten_;
};

}  // namespace

TEST_CASE("bus bandwidth is that of nccl-tests, and one rank has none") {
  for (const int ranks : {2, 3, 8}) {
    const double n = ranks;
    CHECK(bus_factor(Operation::all_reduce, ranks) == Approx(2 * (n - 1) / n));
    CHECK(bus_factor(Operation::reduce_scatter, ranks) == Approx((n - 1) / n));
    CHECK(bus_factor(Operation::all_gather, ranks) == Approx((n - 1) / n));
    CHECK(bus_factor(Operation::broadcast, ranks) == 1);
  }
  // 16 MB in 2 ms on 4 ranks.
  const auto rows = to_json({row_of(Operation::all_reduce, 4, 16'000'000, 2000),
                             row_of(Operation::all_reduce, 1, 16'000'000, 2000)});
  CHECK(rows[0]["algbw_gbps"].get<double>() == Approx(8));
  CHECK(rows[0]["busbw_gbps"].get<double>() == Approx(12));
  CHECK(rows[1]["busbw_gbps"].is_null());
  CHECK(table_head(row_of(Operation::all_reduce, 1, 4, 1)).find("no busbw") != std::string::npos);
  const std::string head = table_head(row_of(Operation::all_gather, 4, 4, 1));
  CHECK(head.find("busbw = algbw * (n-1)/n, n = 4") != std::string::npos);
  CHECK(head.find("all_gather by ring, 4 ranks, buffer heap") != std::string::npos);
}

TEST_CASE("a line of CSV has the keys of the JSON; what is not there is empty") {
  CHECK(to_csv({row_of(Operation::broadcast, 1, 8, 4)}) ==
        "operation,algorithm,ranks,bytes,in_place,buffer,us_median,us_p99,algbw_gbps,busbw_gbps,wrong\n"
        "broadcast,ring,1,8,true,heap,4.0,8.0,0.002,,0\n");
  CollectiveRow wrong = row_of(Operation::all_reduce, 2, 8, 0);
  wrong.figures.wrong = 3;
  CHECK(to_csv({wrong}).find("heap,0.0,0.0,,,3\n") != std::string::npos);
  CHECK(table_line(wrong, wrong).find("-        -      3") != std::string::npos);
}

TEST_CASE("sizes, and the elements that an operation takes of them") {
  CHECK(sizes_between(8, 128, 4) == std::vector<std::int64_t>{8, 32, 128});
  CHECK(sizes_between(8, 127, 4) == std::vector<std::int64_t>{8, 32});
  CHECK(elements_of(Operation::all_reduce, 4, 3) == 1);
  CHECK(elements_of(Operation::all_reduce, 4003, 3) == 1000);
  CHECK(elements_of(Operation::all_gather, 4, 3) == 3);
  CHECK(elements_of(Operation::reduce_scatter, 4000, 3) == 999);
}

TEST_CASE("every operation is checked and timed, in place and out of place, on one rank and three") {
  for (const int ranks : {1, 3}) {
    const auto errors = test::run_ranks(ranks, [&](Communicator& communicator) {
      const auto backend = make_reference_backend();
      Measure measure(communicator, *backend, backend->allocator(), 4000);
      for (const Operation operation : kOperations) {
        for (const bool in_place : {true, false}) {
          const Figures figures = measure.run(operation, elements_of(operation, 4000, ranks), in_place, 1, 2);
          if (figures.wrong != 0) fail(ExitCode::internal, "{} is wrong", name_of(operation));
          if (figures.us_median <= 0 || figures.us_p99 < figures.us_median)
            fail(ExitCode::internal, "{} has no time", name_of(operation));
        }
      }
    });
    for (const std::string& error : errors) CHECK(error == "");
  }
}

TEST_CASE("one wrong element is counted on every rank, and is not timed") {
  test::Meeting meeting(2);
  std::vector<Figures> found(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Forgetful communicator(meeting, rank, 999);
      const auto backend = make_reference_backend();
      Measure measure(communicator, *backend, backend->allocator(), 4000);
      found[static_cast<std::size_t>(rank)] = measure.run(Operation::all_reduce, 1000, true, 1, 2);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Figures& figures : found) {
    CHECK(figures.wrong == 1);
    CHECK(figures.us_median == 0);
  }
}

}  // namespace lockstep::bench
