// Stands in for kernels/cpu/ in a build without oneDNN.
#include "core/error.h"
#include "kernels/backend.h"

namespace lockstep {

std::unique_ptr<Backend> make_cpu_backend(int /*threads*/) {
  fail(ExitCode::device,
       "the cpu backend was asked for, but this build has no oneDNN: install oneDNN (Debian: libdnnl-dev) "
       "and build again, or use --device reference (slow)");
}

std::string cpu_backend_libraries() {
  return "not built in";
}

bool has_cpu_backend() {
  return false;
}

}  // namespace lockstep
