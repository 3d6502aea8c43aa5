// The build without CUDA has no device to communicate from.
#include "comm/cuda_communicator.h"
#include "core/error.h"

namespace lockstep {

std::unique_ptr<Communicator> make_cuda_communicator(Communicator&, int device, std::chrono::seconds) {
  fail(ExitCode::device,
       "CUDA device {} was asked for, but this program was built without CUDA. Use --device cpu", device);
}

std::string nccl_library() {
  return "not built in";
}

}  // namespace lockstep
