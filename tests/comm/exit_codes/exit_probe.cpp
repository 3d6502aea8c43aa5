// Ends a job in one of the ways in which a job can end. tests/expect_exit holds mpirun's exit code to what is
// asked for.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "comm/process.h"

using namespace lockstep;
using namespace std::chrono_literals;

namespace {

// What main() of a program does: the process outlives the try block, errors end the whole job.
ExitCode run(Process& process, const std::string& way, ExitCode code) {
  Communicator& communicator = process.communicator();
  const bool last = process.rank() == process.size() - 1;
  communicator.barrier("the start of the probe");
  if (way == "abort") {
    if (last) process.abort(code);
    communicator.barrier("a rank that aborts");
  } else if (way == "abort_inside_collective") {
    // The worker waits inside MPI for the others, who never come.
    float value = 1;
    if (last) {
      communicator.all_reduce(&value, 1, ReduceOp::sum, "nobody else is here");
      std::this_thread::sleep_for(300ms);
      process.abort(code);
    }
    std::this_thread::sleep_for(1h);
  } else if (way == "abort_from_thread") {
    if (last) std::thread([&] { process.abort(code); }).join();
    communicator.barrier("a rank that aborts");
  } else if (way == "kill") {
    if (last) std::raise(SIGKILL);
    communicator.barrier("a rank that is killed");
  } else if (way == "hang") {
    if (last) std::this_thread::sleep_for(1h);
    communicator.barrier("a rank that hangs");
  } else if (way == "return") {
    return code;
  }
  return ExitCode::ok;
}

// An error that passes the Process on its way out: its destructor must not wait for the other ranks.
int unwind(ExitCode code) {
  auto value = std::make_unique<float>(1.0f);
  try {
    Process process(20s);
    const bool last = process.rank() == process.size() - 1;
    process.communicator().barrier("the start of the probe");
    process.communicator().all_reduce(value.get(), last ? 1 : 0, ReduceOp::sum, "a rank that fails");
    if (last) fail(code, "this rank failed alone");
    process.communicator().barrier("a rank that fails");
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    std::_Exit(static_cast<int>(error.code()));
  }
  return 0;
}

}  // namespace

// exit_probe WAY CODE
int main(int argc, char** argv) {
  if (argc != 3) return 1;
  const std::string way = argv[1];
  const auto code = static_cast<ExitCode>(std::atoi(argv[2]));
  if (way == "unwind") return unwind(code);
  try {
    Process process(way == "hang" ? 2s : 20s);
    return static_cast<int>(run(process, way, code));
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.code());
  }
}
