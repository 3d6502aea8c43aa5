// allreduce_bench: the collectives of comm/ in the form of nccl-tests, checked first and then timed.
//
// Every rank fills its buffer with whole numbers, so a right result is exact. A time is that of the slowest
// rank, taken in the comm stream (bench/collectives/measure.h).
#include <fmt/format.h>

#include "apps/training/agree.h"
#include "apps/training/program.h"
#include "bench/collectives/report.h"
#include "bench/output.h"

namespace {

using namespace lockstep;
using namespace lockstep::bench;

struct BenchOptions {
  std::string operation = "all_reduce", algorithm = "auto", buffer = "window";
  std::int64_t min_bytes = 8, max_bytes = 128 << 20, factor = 2;
  std::int64_t warmup = 5, samples = 100;
  std::string csv, json;
};

// What --allreduce of a host can be asked for, one after the other.
const std::vector<std::string> kHostAlgorithms = {"ring", "tree", "doubling", "shm", "mpi"};

std::vector<std::string> algorithms_of(const BenchOptions& bench, bool host, int ranks) {
  if (bench.algorithm != "all") return {bench.algorithm};
  return host && ranks > 1 ? kHostAlgorithms : std::vector<std::string>{"auto"};
}

// Whether the algorithm has an own form: elsewhere it is another's (comm/collectives.h).
bool has(const std::string& algorithm, Operation operation) {
  if (algorithm == "tree") return operation == Operation::all_reduce || operation == Operation::broadcast;
  return algorithm != "doubling" || operation == Operation::all_reduce;
}

std::vector<Operation> operations_of(const BenchOptions& bench, const std::string& algorithm) {
  std::vector<Operation> operations;
  for (const Operation operation : kOperations) {
    const bool asked = bench.operation == "all" || bench.operation == name_of(operation);
    if (asked && has(algorithm, operation)) operations.push_back(operation);
  }
  return operations;
}

void refuse_contradictions(const BenchOptions& bench, bool host) {
  refuse_one_file(bench.csv, bench.json);
  if (bench.min_bytes > bench.max_bytes)
    fail(ExitCode::usage, "--min-bytes {} is more than --max-bytes {}", bench.min_bytes, bench.max_bytes);
  if (bench.algorithm != "all" && bench.algorithm != "auto" && (bench.algorithm == "nccl") == host) {
    fail(ExitCode::usage, "--algorithm {} is not of this device: GPUs have nccl, the others {}",
         bench.algorithm, fmt::join(kHostAlgorithms, ", "));
  }
  if (operations_of(bench, bench.algorithm).empty()) {
    fail(ExitCode::usage,
         "--algorithm {} has no {} of its own (tree has all_reduce and broadcast, doubling all_reduce): use "
         "--algorithm ring",
         bench.algorithm, bench.operation);
  }
}

class Bench {
 public:
  Bench(const Job& job, const BenchOptions& options)
      : job_(job),
        options_(options),
        communicator_(job.process.communicator()),
        host_(job.device.kind != DeviceKind::cuda),
        backend_(make_backend(job.device)) {}

  void run() {
    on_all_ranks([&] { refuse_contradictions(options_, host_); });
    all_or_none(communicator_, [&] { write_files(std::ios::app, "", ""); });
    for (const std::string& algorithm : algorithms_of(options_, host_, communicator_.size()))
      measure(algorithm);
    all_or_none(communicator_,
                [&] { write_files(std::ios::trunc, to_csv(rows_), to_json(rows_).dump(1) + '\n'); });
  }

 private:
  void measure(const std::string& asked) {
    if (host_) job_.process.use_all_reduce(asked);
    const std::string name = communicator_.name();
    on_all_ranks([&] {
      if (asked == "shm" && name == "mpi")
        fail(ExitCode::memory, "--algorithm shm cannot be measured: {}", communicator_.description());
    });
    const std::int64_t largest = std::max<std::int64_t>(options_.max_bytes, 4 * communicator_.size());
    const bool window = options_.buffer == "window" && communicator_.reserve(largest);
    Allocator& memory = window ? communicator_.allocator() : backend_->allocator();
    std::optional<Measure> bench;
    all_or_none(communicator_, [&] { bench.emplace(communicator_, *backend_, memory, largest); });
    for (const Operation operation : operations_of(options_, name)) {
      CollectiveRow row{operation, name, communicator_.size(), 0, true, window ? "window" : "heap", {}};
      print(table_head(row));
      for (const std::int64_t bytes :
           sizes_between(options_.min_bytes, options_.max_bytes, options_.factor)) {
        const std::int64_t count = elements_of(operation, bytes, communicator_.size());
        row.bytes = count * 4;
        for (const bool in_place : {true, false}) {
          row.in_place = in_place;
          row.figures = bench->run(operation, count, in_place, options_.warmup, options_.samples);
          rows_.push_back(row);
          wrong_ += row.figures.wrong;
        }
        print(table_line(rows_[rows_.size() - 2], rows_.back()));
      }
    }
    on_all_ranks([&] {
      if (wrong_ > 0) fail(ExitCode::internal, "{} wrong elements: their lines have no time", wrong_);
    });
  }

  void print(const std::string& text) {
    all_or_none(communicator_, [&] {
      if (communicator_.rank() == 0) bench::print(text);
    });
  }
  void write_files(std::ios::openmode mode, const std::string& csv, const std::string& json) {
    if (communicator_.rank() != 0) return;
    write("--csv", options_.csv, mode, csv);
    write("--json", options_.json, mode, json);
  }

  const Job& job_;
  const BenchOptions& options_;
  Communicator& communicator_;
  bool host_;
  std::unique_ptr<Backend> backend_;
  std::vector<CollectiveRow> rows_;
  std::int64_t wrong_ = 0;
};

std::vector<std::string> operation_choices() {
  std::vector<std::string> names = {"all"};
  for (const Operation operation : kOperations) names.emplace_back(name_of(operation));
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  BenchOptions options;
  const double most = 1e12;
  return run_program(
      argc, argv,
      {"Checks and times collectives: mpirun -np 2 allreduce_bench",
       {OptionGroup::job},
       {{"operation", "What is timed", &options.operation, 0, 0, operation_choices()},
        {"algorithm",
         "How it is done, as --allreduce of resnet_train",
         &options.algorithm,
         0,
         0,
         {"all", "auto", "ring", "tree", "doubling", "shm", "mpi", "nccl"}},
        {"min-bytes", "Least size; 64K, 16M, 1G are powers of 1024", &options.min_bytes, 4, most, {}, true},
        {"max-bytes", "Largest size", &options.max_bytes, 4, most, {}, true},
        {"factor", "From one size to the next", &options.factor, 2},
        {"buffer",
         "Memory that ranks share, where the algorithm has such, or each rank's own",
         &options.buffer,
         0,
         0,
         {"window", "heap"}},
        {"warmup", "Calls before the timed ones", &options.warmup, 1},
        {"samples", "Times of each line; fewer, at least ten, where they take over two seconds",
         &options.samples, 1},
        {"csv", "Write the table to this file", &options.csv},
        {"json", "Write the table to this file", &options.json}},
       [&](const Job& job) {
         return end_job_on_error(job.process, [&] {
           Bench(job, options).run();
           return ExitCode::ok;
         });
       }});
}
