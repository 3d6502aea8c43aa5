// Communicators of one process and of threads, texts, start-up verification, launchers, the watchdog.
#include <cstdlib>
#include <numeric>

#include "catch.h"
#include "comm/process.h"
#include "comm/single_communicator.h"
#include "comm/verify.h"
#include "comm/watchdog.h"
#include "thread_communicator.h"

using namespace lockstep;
using namespace lockstep::test;
using namespace std::chrono_literals;

namespace {

// Sets variables of the environment for one scope; nullptr removes one.
class Environment {
 public:
  explicit Environment(const std::vector<std::pair<std::string, const char*>>& values) {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
                             "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}) {
      const char* before = std::getenv(name);
      before_.emplace_back(name, before ? before : "");
      had_.push_back(before != nullptr);
      unsetenv(name);
    }
    for (const auto& [name, value] : values) setenv(name.c_str(), value, 1);
  }
  ~Environment() {
    for (std::size_t i = 0; i < before_.size(); ++i) {
      unsetenv(before_[i].first.c_str());
      if (had_[i]) setenv(before_[i].first.c_str(), before_[i].second.c_str(), 1);
    }
  }

 private:
  std::vector<std::pair<std::string, std::string>> before_;
  std::vector<bool> had_;
};

}  // namespace

TEST_CASE("one process: every collective leaves its data as it is") {
  const auto communicator =
      make_single_communicator(std::make_unique<InlineStream>(), std::make_unique<HostAllocator>());
  CHECK(communicator->size() == 1);
  CHECK(communicator->rank() == 0);
  std::vector<float> data{1, 2, 3};
  communicator->all_reduce(data.data(), 3, ReduceOp::mean, "test");
  CHECK(data == std::vector<float>{1, 2, 3});
  double value = 5;
  communicator->all_reduce_host(&value, 1, ReduceOp::sum, "test");
  CHECK(value == 5);
  int gathered = 0;
  const int mine = 7;
  communicator->all_gather_host(&mine, sizeof mine, &gathered, "test");
  CHECK(gathered == 7);
  CHECK(all_gather_text(*communicator, "text") == std::vector<std::string>{"text"});
  CHECK_NOTHROW(verify_equal(*communicator, "option", {{"lr", "0.1"}}));
  CHECK_NOTHROW(agree_on_error(*communicator, ExitCode::ok, ""));
  CHECK_THROWS_WITH(agree_on_error(*communicator, ExitCode::data, "bad file"), "bad file");
}

TEST_CASE("texts of any length arrive from every rank, in rank order") {
  const std::vector<std::string> texts{"", "a", std::string("nul\0byte", 8), std::string(1000, 'x')};
  std::vector<std::vector<std::string>> received(4);
  const auto errors = run_ranks(4, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    received[rank] = all_gather_text(communicator, texts[rank]);
  });
  CHECK(errors == std::vector<std::string>(4));
  for (const auto& all : received) CHECK(all == texts);
}

TEST_CASE("verification: equal items pass, the first difference is named on every rank") {
  const Items base{{"lr", "0.1"}, {"batch-size", "32"}, {"seed", "0"}};
  const auto verify = [&](const Items& of_rank_2, const Items& of_rank_3) {
    return run_ranks(4, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      verify_equal(communicator, "option", rank == 2 ? of_rank_2 : rank == 3 ? of_rank_3 : base);
    });
  };
  CHECK(verify(base, base) == std::vector<std::string>(4));

  Items other_value = base, other_key = base, more = base, fewer = base, reordered = base;
  other_value[1].second = "64";
  other_key[2].first = "threads";
  more.emplace_back("extra", "1");
  fewer.pop_back();
  std::swap(reordered[0], reordered[1]);
  for (const auto& text : verify(other_value, other_key)) {
    CHECK_THAT(text, ContainsSubstring("option batch-size is '32' on rank 0 but '64' on rank 2"));
  }
  for (const auto& text : verify(base, other_key))
    CHECK_THAT(text, ContainsSubstring("'seed' on rank 0 but 'threads' on rank 3"));
  for (const auto& text : verify(more, base))
    CHECK_THAT(text, ContainsSubstring("extra is there on rank 2 only, not on rank 0"));
  for (const auto& text : verify(fewer, base))
    CHECK_THAT(text, ContainsSubstring("seed is there on rank 0 only, not on rank 2"));
  for (const auto& text : verify(reordered, base))
    CHECK_THAT(text, ContainsSubstring("option 0 is 'lr' on rank 0 but 'batch-size'"));
}

TEST_CASE("verification sees through keys and values that look alike when joined") {
  const auto errors = run_ranks(2, [&](Communicator& communicator) {
    verify_equal(communicator, "option",
                 communicator.rank() == 0 ? Items{{"a", "b:c"}} : Items{{"a:b", "c"}});
  });
  for (const auto& text : errors) CHECK_THAT(text, ContainsSubstring("'a' on rank 0 but 'a:b' on rank 1"));
}

TEST_CASE("an error of some ranks becomes the error of all: the lowest rank's") {
  std::vector<ExitCode> codes(4, ExitCode::ok);
  const auto errors = run_ranks(4, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    const bool failed = rank == 1 || rank == 3;
    try {
      agree_on_error(communicator, failed ? (rank == 1 ? ExitCode::data : ExitCode::memory) : ExitCode::ok,
                     failed ? "file of rank " + std::to_string(rank) + " is short" : "");
    } catch (const Error& error) {
      codes[static_cast<std::size_t>(rank)] = error.code();
      throw;
    }
  });
  CHECK(errors == std::vector<std::string>(4, "on rank 1: file of rank 1 is short"));
  CHECK(codes == std::vector<ExitCode>(4, ExitCode::data));
  const auto none = run_ranks(3, [](Communicator& c) { agree_on_error(c, ExitCode::ok, ""); });
  CHECK(none == std::vector<std::string>(3));
}

TEST_CASE("launchers are recognised by their environment, Open MPI first") {
  {
    const Environment by_hand({});
    CHECK(launch_info().size == 1);
    CHECK(launch_info().launcher.empty());
  }
  {
    const Environment open_mpi({{"OMPI_COMM_WORLD_RANK", "2"},
                                {"OMPI_COMM_WORLD_SIZE", "4"},
                                {"PMI_RANK", "0"},
                                {"PMI_SIZE", "9"},
                                {"SLURM_PROCID", "0"},
                                {"SLURM_STEP_NUM_TASKS", "1"}});
    CHECK(launch_info().rank == 2);
    CHECK(launch_info().size == 4);
    CHECK(launch_info().launcher == "Open MPI");
  }
  {
    const Environment hydra({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
    CHECK(launch_info().size == 2);
    CHECK(launch_info().launcher == "MPICH or Intel MPI");
  }
  {
    const Environment slurm({{"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "8"}});
    CHECK(launch_info().rank == 3);
    CHECK(launch_info().launcher == "Slurm");
  }
  {
    // Inside an allocation, but not started by srun.
    const Environment batch_script({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}});
    CHECK(launch_info().size == 1);
  }
}

TEST_CASE("a process without a launcher is rank 0 of 1 and needs no MPI") {
  const Environment by_hand({});
  Process process(10s);
  CHECK(process.rank() == 0);
  CHECK(process.size() == 1);
  CHECK(process.local_rank() == 0);
  CHECK(process.local_size() == 1);
  CHECK(process.communicator().size() == 1);
  CHECK_FALSE(mpi_library().empty());
}

TEST_CASE("a build without MPI refuses to be one of many, and says what to do") {
  // The build with MPI does this under mpirun (exit_probe); here it has nothing to refuse.
  const bool without_mpi = mpi_library() == "not built in";
  const Environment job({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", without_mpi ? "2" : "1"}});
  if (without_mpi) {
    CHECK_THROWS_WITH(Process(10s),
                      ContainsSubstring("Open MPI started 2 processes") && ContainsSubstring("build again"));
  } else {
    CHECK_NOTHROW(Process(10s));
  }
}

TEST_CASE("the watchdog speaks once an operation is over its deadline, and only then") {
  std::mutex mutex;
  std::vector<std::string> messages;
  Watchdog watchdog(3, 2s, [&](const std::string& message) {
    const std::lock_guard lock(mutex);
    messages.push_back(message);
  });
  const std::string operation = "all_reduce of bucket 7";
  const auto said = [&] {
    const std::lock_guard lock(mutex);
    return messages.size();
  };
  for (int i = 0; i < 30; ++i) {
    const Watchdog::Guard guard(watchdog, operation);
    std::this_thread::sleep_for(100ms);
  }
  CHECK(said() == 0);
  {
    const Watchdog::Guard guard(watchdog, operation);
    for (int i = 0; i < 1000 && said() == 0; ++i) std::this_thread::sleep_for(10ms);
  }
  REQUIRE(said() == 1);
  CHECK_THAT(messages[0], ContainsSubstring("rank 3") && ContainsSubstring(operation) &&
                              ContainsSubstring("2 s") && ContainsSubstring("--timeout"));
}
